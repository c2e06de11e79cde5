"""The task slots that real-time queries need all at once, computed and checked before anything starts."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from penstock.errors import SetupError

if TYPE_CHECKING:
    from penstock.connectors.base import Context
    from penstock.pipeline.plan import Plan, Query

__all__ = ["local_cores", "refuse_without_slots", "slots_needed"]

# A local task is a thread: this many let a real-time query with a few partitions run on any laptop.
_LEAST_THREADS = 16


def local_cores(*, realtime: bool) -> int:
    """How many tasks run side by side on this machine."""
    cores = os.cpu_count() or 2
    return max(cores, _LEAST_THREADS) if realtime else cores


def slots_needed(plan: Plan, query: Query, context: Context) -> int:
    """One per partition that is read, and one per partition of each shuffle, for as long as the query runs."""
    read = sum(one.connector.partitions(context) for one in plan.graph.sources if one.name in query.sources)
    shuffled = int(context.spark.conf.get("spark.sql.shuffle.partitions") or 0)
    return read + shuffled * len(query.state)


def refuse_without_slots(plan: Plan, context: Context) -> None:
    """Refuse real-time queries that would wait for slots for ever."""
    needed = {query.name: slots_needed(plan, query, context) for query in plan.queries if query.realtime}
    others = sum(not query.realtime for query in plan.queries)
    have = context.spark.sparkContext.defaultParallelism
    if needed and sum(needed.values()) + bool(others) > have:
        listed = ", ".join(f"{name} {count}" for name, count in needed.items())
        raise SetupError(
            f"The real-time queries need {sum(needed.values()) + bool(others)} task slots at once ({listed}"
            f"{', the others 1' if others else ''}), Spark has {have}.",
            code="slots-missing",
            remedy="Give Spark more cores (--master 'local[32]'), read topics with fewer partitions, or set"
            ' "spark.sql.shuffle.partitions" in [spark] of penstock.toml lower.',
        )
