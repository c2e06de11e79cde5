"""`delay="p99"`: how long to wait for stragglers, learnt from the disorder of the newest rows of a source."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.connectors.base import BAD, ORIGIN
from penstock.pipeline.build import time_rules
from penstock.pipeline.durations import percentile

if TYPE_CHECKING:
    from penstock.connectors.base import Context
    from penstock.pipeline.declare import Source
    from penstock.pipeline.plan import Plan

__all__ = ["Learnt", "learn_delays"]

_ROWS = 100_000
_ENOUGH = 100


@dataclass(frozen=True)
class Learnt:
    """A delay, and what it was learnt from: how many rows, what share of them it would lose."""

    delay: str
    rows: int
    lost: float

    def sentence(self, source: str) -> str:
        """For people."""
        if self.rows < _ENOUGH:
            return (
                f"{source}: too few rows to learn a delay from ({self.rows}), it is {self.delay} until the next start"
            )
        return (
            f"{source}: delay {self.delay}, learnt from {self.rows} rows; {self.lost:.2%} of them would come too late"
        )


def learn_delays(plan: Plan, context: Context) -> dict[str, Learnt]:
    """The delays of the sources that ask for it."""
    wanted = [one for one in plan.graph.sources if one.time and percentile(one.time.delay) is not None]
    return {source.name: _learn(source, context) for source in wanted}


def _learn(source: Source, context: Context) -> Learnt:
    """How far each row lies behind the newest one that came before it; that percentile of it is the delay."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    assert source.time is not None
    share = percentile(source.time.delay) or 0.0
    rows = source.connector.newest(context, _ROWS)
    if rows is None:
        return Learnt("10 seconds", 0, 0.0)
    good = rows.filter(F.col(BAD).isNull())
    for _, wrong, _ in time_rules(source.time, good):
        good = good.filter(~wrong)
    at = F.col(source.time.column).cast("double")
    order = [F.col(f"{ORIGIN}.{name}") for name in ("timestamp", "offset", "partition")]
    before = F.max(at).over(Window.orderBy(*order).rowsBetween(Window.unboundedPreceding, Window.currentRow))
    behind = good.select((before - at).alias("behind"))
    found = behind.agg(F.count("*").alias("rows"), F.percentile("behind", share).alias("delay")).collect()[0]
    if found["rows"] < _ENOUGH:
        return Learnt("10 seconds", found["rows"], 0.0)
    delay = math.ceil(found["delay"] * 1000) / 1000
    lost = behind.filter(F.col("behind") > delay).count()
    return Learnt(f"{delay:g} seconds", found["rows"], lost / found["rows"])
