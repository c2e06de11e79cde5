"""Rows that can't be used: counted while a query runs, then read once more and published exactly once.

A query only counts them, which costs it nothing. When a batch's record says that there were some, exactly that batch's
offsets are read again, the functions before any state are applied, and the bad rows go to the dead-letter topic in one
transaction with the number of the next batch. After a crash the records say which batches are still to do.
"""

from __future__ import annotations

import base64
import time
from typing import TYPE_CHECKING, Any

from penstock.broker.producer import TransactionalProducer
from penstock.broker.replay import fold
from penstock.broker.topics import Topics
from penstock.connectors.base import BAD, ORIGIN, Context
from penstock.pipeline.build import Build, apply_rules, broken, call
from penstock.pipeline.late_rows import late_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, Row

    from penstock.pipeline.declare import Flow, Source
    from penstock.pipeline.plan import Plan, Query

__all__ = ["DeadLetters"]

_LARGEST = 64 << 20


class DeadLetters:
    """The publisher of one query's dead rows."""

    def __init__(self, plan: Plan, query: Query, query_id: str, context: Context) -> None:
        self.plan = plan
        self.query = query
        self.context = context
        self.key = query_id
        self.owned = {name for name, owner in Build(plan, context).owners.items() if owner == query.name}
        self._progress = f"{plan.dead_letters}-progress"
        self._producer: TransactionalProducer | None = None
        self._next = 0

    def publish(self, record: dict[str, Any]) -> int:
        """Publish the dead rows of one batch, unless they are published already; return how many there were."""
        if not record["dead"] and not self._keeps_late(record):
            return 0
        producer = self._open()
        if record["batch"] < self._next:
            return 0
        count = 0
        with producer.transaction():
            for key, letter in self.letters(record):
                producer.send(self.plan.dead_letters, letter, key)
                count += 1
            self._next = record["batch"] + 1
            producer.send(self._progress, {"next": self._next}, self.key, partition=0)
        return count

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
            producer = TransactionalProducer(kafka, f"penstock-dead-{self.key}")
            last = fold(kafka, self._progress).get(self.key.encode())
            self._next = last.json()["next"] if last else 0
            self._producer = producer
        return self._producer

    def letters(self, record: dict[str, Any]) -> Iterator[tuple[bytes | None, dict[str, Any]]]:
        """The dead rows of a batch, each with its key, read once more from their source."""
        for name, told in ((name, told) for name in self.query.sources for told in record["sources"]):
            source = self.plan.source(name)
            if source is None or not source.connector.recognises(told):
                continue
            rows = source.connector.replay(self.context, told["begin"] or {}, told["end"])
            if rows is None:
                continue
            for stage, rule, dead in self._stages(source, rows, record):
                for row in dead.toLocalIterator():
                    yield _letter(row, stage, rule, self.plan.name)

    def _keeps_late(self, record: dict[str, Any]) -> bool:
        return bool(record["late"]) and any(
            source.time is not None and source.time.late == "keep"
            for source in self.plan.sources
            if source.name in self.query.sources
        )

    def _stages(self, source: Source, rows: DataFrame, record: dict[str, Any]) -> Iterator[tuple[str, str, DataFrame]]:
        """The bad rows of the source and of each flow that hangs on it alone, then those that came too late."""
        from pyspark.sql import functions as F  # noqa: N812

        counted = record["dead"]
        keep_late = source.time is not None and source.time.late == "keep" and record["late"]
        if source.name in self.owned and source.name in counted:
            yield source.name, "decode", rows.filter(F.col(BAD).isNotNull()).select(ORIGIN, F.col(BAD).alias("__said"))
        made = {source.name: rows.filter(F.col(BAD).isNull()).drop(BAD)}
        for flow in self._flows_on(source):
            out = call(flow, made)
            if flow.name in self.owned and flow.name in counted:
                yield from _quarantined(flow, out)
            if keep_late and record["watermark_before"]:
                late = late_rows(out, record["watermark_before"])
                if late is not None:
                    yield flow.name, "late", late
                    return
            made[flow.name] = apply_rules(out, flow)

    def _flows_on(self, source: Source) -> Iterator[Flow]:
        """The flows that need this source only, as far as any of them can have bad rows."""
        reached = {source.name}
        chain = []
        for name in self.query.flows:
            flow = self.plan.flow(name)
            if set(flow.inputs) <= reached:
                reached.add(name)
                chain.append(flow)
        ruled = [at for at, flow in enumerate(chain) if flow.expectations]
        keeps = source.time is not None and source.time.late == "keep"
        yield from chain if keeps else chain[: max(ruled, default=-1) + 1]


def _quarantined(flow: Flow, rows: DataFrame) -> Iterator[tuple[str, str, DataFrame]]:
    from pyspark.sql import functions as F  # noqa: N812

    origin = F.col(ORIGIN) if ORIGIN in rows.columns else F.lit(None).alias(ORIGIN)
    shown = [name for name in rows.columns if name != ORIGIN]
    for rule in flow.expectations:
        if rule.action == "quarantine":
            dead = rows.filter(broken(rule)).select(origin, F.to_json(F.struct(*shown)).alias("__said"))
            yield flow.name, rule.name, dead
            rows = rows.filter(~broken(rule))


def _letter(row: Row, stage: str, rule: str, pipeline: str) -> tuple[bytes | None, dict[str, Any]]:
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
        "message": row["__said"],
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
