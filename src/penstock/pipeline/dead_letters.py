"""Rows that can't be used: counted while a query runs, then read once more and published exactly once.

A query only counts them, which costs it nothing. When a batch's record says that there were some, exactly that batch is
read again and the bad rows go to the dead-letter topic, late ones to their sink if they have one, in one transaction
with the number of the next batch. After a crash the records say which batches are still to do.
"""

from __future__ import annotations

import base64
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from penstock.broker.producer import TransactionalProducer
from penstock.broker.replay import fold
from penstock.broker.topics import Topics
from penstock.connectors.base import ORIGIN, Context
from penstock.pipeline.replay import RULE, SAID, Found, found_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import Row

    from penstock.pipeline.declare import Sink
    from penstock.pipeline.plan import Plan, Query

__all__ = ["DeadLetters"]

_LARGEST = 64 << 20
_PATIENT = {"transaction.timeout.ms": 900_000}  # a large batch is read again within its transaction


class DeadLetters:
    """The publisher of one query's dead rows."""

    def __init__(self, plan: Plan, query: Query, query_id: str, owned: set[str], context: Context) -> None:
        self.plan = plan
        self.query = query
        self.context = context
        self.key = query_id
        self.owned = owned
        self._progress = f"{plan.dead_letters}-progress"
        self._producer: TransactionalProducer | None = None
        self._next = 0

    def publish(self, record: dict[str, Any]) -> int:
        """Publish the dead rows of one batch, unless they are published already; return how many there were."""
        if not self._owned_dead(record) and not self._keeps_late(record):
            return 0
        producer = self._open()
        if record["batch"] < self._next:
            return 0
        count = 0
        with producer.transaction():
            for topic, key, value in self.messages(record):
                producer.send(topic, value, key)
                count += 1
            self._next = record["batch"] + 1
            producer.send(self._progress, {"next": self._next}, self.key, partition=0)
        return count

    def reopen(self) -> None:
        """After any doubt: the next publication begins with a new producer and what the topic says."""
        self._producer = None

    def _open(self) -> TransactionalProducer:
        """First fence any older publisher, then read how far it came."""
        if self._producer is None:
            kafka = self.context.settings.kafka
            topics = Topics(kafka)
            known = topics.names()
            if self.plan.dead_letters not in known:
                topics.create(self.plan.dead_letters, config={"max.message.bytes": str(_LARGEST)})
            if self._progress not in known:
                topics.create(self._progress, config={"cleanup.policy": "compact"})
            producer = TransactionalProducer(kafka, f"penstock-dead-{self.key}", options=_PATIENT)
            last = fold(kafka, self._progress).get(self.key.encode())
            self._next = last.json()["next"] if last else 0
            self._producer = producer
        return self._producer

    def messages(self, record: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
        """What there is to publish of a batch: topic, key and value."""
        seen: Counter[str] = Counter()
        for found in self.found(record):
            sink = self.plan.graph.late_sink(found.stage) if found.late else None
            if sink is not None:
                yield from self.late(found, sink)
                continue
            for row in found.rows.toLocalIterator():
                seen[found.stage] += not found.late
                rule = "late" if found.late else row[RULE]
                yield self.plan.dead_letters, *_letter_of(row, found.stage, rule, self.plan.name)
        for stage, counts in record["dead"].items():
            missing = sum(counts.values()) - seen[stage]
            if stage in self.owned and missing > 0 and "unknown" not in counts:
                yield self.plan.dead_letters, None, _not_found(record, stage, missing, self.plan.name)

    def late(self, found: Found, sink: Sink) -> Iterator[tuple[str, Any, Any]]:
        """Late rows as their sink wants them."""
        topic = sink.connector.target().partition(":")[2]
        for row in sink.connector.encoded(found.rows.drop(ORIGIN, SAID)).toLocalIterator():
            yield topic, row.asDict().get("key"), row["value"]

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


def _letter_of(row: Row, stage: str, rule: str, pipeline: str) -> tuple[bytes | None, dict[str, Any]]:
    """A bad row in its envelope, with its key."""
    origin = row[ORIGIN].asDict() if row[ORIGIN] is not None else {}
    value, key = origin.get("value"), origin.get("key")
    raw = bytes(value) if isinstance(value, bytes | bytearray) else value
    letter = {
        "topic": origin.get("topic"),
        "partition": origin.get("partition"),
        "offset": origin.get("offset"),
        "key": _text(key),
        "value": _text(raw),
        "stage": stage,
        "rule": rule,
        "message": row[SAID],
        "pipeline": pipeline,
        "attempt": 1,
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    if letter["value"] is None and raw is not None:
        letter["value_base64"] = base64.b64encode(raw).decode()
    return (bytes(key) if key is not None else None), letter


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    try:
        return bytes(value).decode()
    except UnicodeDecodeError:
        return None
