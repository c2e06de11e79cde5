"""Rows that can't be used: counted while a query runs, then read once more and published exactly once.

A query only counts them, which costs it nothing. When a batch's record says that there were some, exactly that batch is
read again and the bad rows go to the dead-letter topic, late ones to their sink if they have one, in one transaction
with the number of the next batch. After a crash the records say which batches are still to do.
"""

from __future__ import annotations

import time
from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING, Any

from penstock.broker.marked import MarkedProducer
from penstock.connectors.base import ORIGIN, Context, MessageSink
from penstock.connectors.letters import envelope, open_dead_letters
from penstock.pipeline.declare import ALL
from penstock.pipeline.replay import SAID, Found, found_in, letters_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.connectors.writing import Letter
    from penstock.pipeline.declare import Sink
    from penstock.pipeline.plan import Plan, Query

__all__ = ["DeadLetters"]


class DeadLetters:
    """The publisher of one query's dead rows."""

    def __init__(self, plan: Plan, query: Query, query_id: str, owned: set[str], context: Context, run: str) -> None:
        self.plan = plan
        self.query = query
        self.context = context
        self.owned = owned
        progress = f"{plan.name}-{query.name}-progress"
        self._producer = MarkedProducer(context.settings.kafka, progress, f"{query_id}-dead-letters", run)

    def publish(self, record: dict[str, Any], refused: Iterable[Letter] = (), more: Iterable[Found] = ()) -> int:
        """Publish what is dead of one batch, unless it is published already; return how many there were."""
        refused = list(refused)
        if not self._owned_dead(record) and not self._keeps_late(record) and not refused:
            return 0
        open_dead_letters(self.context.settings.kafka, self.plan.name)
        mark = self._producer.mark()
        if mark is not None and record["batch"] < mark["next"]:
            return 0
        count = 0
        with self._producer.transaction({"next": record["batch"] + 1}) as producer:
            for topic, key, value in chain(self.messages(record, more), refused):
                producer.send(topic, value, key)
                count += 1
        return count

    @property
    def name(self) -> str:
        """Where they go."""
        return f"kafka:{self.plan.dead_letters}"

    def close(self) -> None:
        """After any doubt: the next publication begins with a new producer and what the topic says."""
        self._producer.close()

    def messages(self, record: dict[str, Any], more: Iterable[Found] = ()) -> Iterator[Letter]:
        """What there is to publish of a batch, and what was found beside: topic, key and value."""
        if self._owned_dead(record) or self._keeps_late(record):
            open_dead_letters(self.context.settings.kafka, self.plan.name)
            yield from self._messages(record, more)

    def _messages(self, record: dict[str, Any], more: Iterable[Found]) -> Iterator[Letter]:
        seen: Counter[str] = Counter()
        found: list[Found] = []
        for one in self.found(record):
            sink = self.plan.graph.late_sink(one.stage) if one.late else None
            if sink is not None:
                yield from self.late(one, sink)
            else:
                found.append(one)
        count = record["late"] + sum(sum(each.values()) for each in record["dead"].values())
        for row in chain(letters_of(found, count), letters_of(list(more), count)):
            seen[row.stage] += not row.late
            stage = row.stage.removesuffix(ALL)
            yield self.plan.dead_letters, *envelope(self.plan.name, stage, row.rule, row.said, row.origin.asDict())
        for stage, counts in record["dead"].items():
            missing = sum(counts.values()) - seen[stage]
            if stage in self.owned and missing > 0 and "unknown" not in counts:
                yield self.plan.dead_letters, None, _not_found(record, stage, missing, self.plan.name)

    def late(self, found: Found, sink: Sink) -> Iterator[Letter]:
        """Late rows as their sink wants them."""
        assert isinstance(sink.connector, MessageSink)
        for row in sink.connector.encoded(found.rows.drop(ORIGIN, SAID), self.context).toLocalIterator():
            yield sink.connector.sole_topic, row.asDict().get("key"), row["value"]

    def found(self, record: dict[str, Any]) -> Iterator[Found]:
        """The bad and late rows of a batch, read once more from their source."""
        graph, late = self.plan.graph, self._keeps_late(record)
        return found_in(record, graph, self.query, self.owned, self.context, late=late)

    def _owned_dead(self, record: dict[str, Any]) -> bool:
        return bool(self.owned & set(record["dead"]))

    def _keeps_late(self, record: dict[str, Any]) -> bool:
        return bool(record["late"]) and any(
            source.time is not None and source.time.late != "drop"
            for source in self.plan.graph.sources
            if source.name in self.query.sources
        )


def _not_found(record: dict[str, Any], stage: str, missing: int, pipeline: str) -> dict[str, Any]:
    """A letter for rows that were bad in the stream and good when they were read again: which ones is not known."""
    ranges = [{"begin": one.get("begin"), "end": one.get("end")} for one in record["sources"]]
    return {
        "stage": stage,
        "rule": "not found again",
        "message": f"{missing} rows of batch {record['batch']} were bad, but not when they were read again: the"
        " function or a table gives another answer now",
        "batch": ranges,
        "pipeline": pipeline,
        "attempt": 1,
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
