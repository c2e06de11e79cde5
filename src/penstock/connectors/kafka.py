"""Kafka topics as a source and as a sink."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.broker.connection import java_options
from penstock.connectors.base import ORIGIN, Context, SinkConnector, SourceConnector
from penstock.connectors.formats import Format, Json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import DataStreamWriter

__all__ = ["Kafka", "reading_options", "writing_options"]

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_READING = {
    "kafka.isolation.level": "read_committed",
    "kafka.max.poll.records": "20000",
    "kafka.max.partition.fetch.bytes": str(16 << 20),
    "failOnDataLoss": "true",
}
_WRITING = {
    "kafka.linger.ms": "20",
    "kafka.batch.size": str(512 << 10),
    "kafka.compression.type": "lz4",
    "kafka.acks": "all",
    "kafka.max.request.size": str(64 << 20),
}

_JSON = Json()


@dataclass(frozen=True)
class Kafka(SourceConnector, SinkConnector):
    """One topic, several, or all that match a pattern (sources only)."""

    topic: str | tuple[str, ...]
    format: Format = _JSON
    key: str | None = None
    start: str | int | datetime = "earliest"
    pattern: bool = False
    rows_per_batch: int | None = None
    metadata: str | None = None

    system: ClassVar = "kafka"
    summary: ClassVar = "Rows of Kafka topics; as a sink by Spark's own writer, at least once."
    guarantee: ClassVar = "at-least-once"

    def target(self) -> str:
        """The topics."""
        return f"kafka:{','.join(self.topics)}"

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics as a tuple."""
        return (self.topic,) if isinstance(self.topic, str) else tuple(self.topic)

    def problems(self) -> Iterator[tuple[str, str]]:
        """Names that Kafka refuses, starts that mean nothing, limits below one."""
        for name in () if self.pattern else self.topics:
            if not _TOPIC.fullmatch(name):
                yield (
                    f"{name!r} is not a topic's name.",
                    "Use letters, digits, dots, dashes; for a pattern pattern=True.",
                )
        if isinstance(self.start, str) and self.start not in ("earliest", "latest"):
            yield (f"start={self.start!r} means nothing.", "Write 'earliest', 'latest', an offset or a datetime.")
        if self.rows_per_batch is not None and self.rows_per_batch < 1:
            yield ("rows_per_batch must be at least 1.", "Leave it out for no limit.")

    def stream(self, context: Context) -> DataFrame:
        """A stream of the topics."""
        reader = context.spark.readStream.format("kafka").options(**reading_options(context), **self._start())
        reader = reader.option("subscribePattern" if self.pattern else "subscribe", ",".join(self.topics))
        if self.rows_per_batch:
            reader = reader.option("maxOffsetsPerTrigger", self.rows_per_batch)
        return self._decoded(reader.option("includeHeaders", "true").load())

    def recognises(self, told: dict[str, Any]) -> bool:
        """Kafka's offsets name their topics."""
        offsets = told["end"]
        if not isinstance(offsets, dict):
            return False
        if self.pattern:
            return all(re.fullmatch(self.topics[0], name) for name in offsets)
        return set(offsets) <= set(self.topics)

    def replay(self, context: Context, begin: Any, end: Any) -> DataFrame:
        """Exactly the rows between two sets of offsets, as Spark's offset log writes them."""
        begin = {topic: {**dict.fromkeys(parts, 0), **begin.get(topic, {})} for topic, parts in end.items()}
        reader = context.spark.read.format("kafka").options(**reading_options(context))
        reader = reader.option("subscribe", ",".join(end)).option("includeHeaders", "true")
        loaded = reader.option("startingOffsets", json.dumps(begin)).option("endingOffsets", json.dumps(end)).load()
        return self._decoded(loaded)

    def write(self, rows: DataFrame, context: Context) -> DataStreamWriter:
        """Rows as values, the key column as key."""
        from pyspark.sql import functions as F  # noqa: N812

        value = self.format.encode(rows).alias("value")
        key = [F.col(self.key).cast("string").alias("key")] if self.key else []
        writer = rows.select(*key, value).writeStream.format("kafka").options(**writing_options(context))
        return writer.option("topic", self.topics[0])

    def _decoded(self, loaded: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812

        origin = F.struct("topic", "partition", "offset", "timestamp", "key", "value", "headers").alias(ORIGIN)
        shown = ("key", "headers", "topic", "partition", "offset", "timestamp")
        named = [F.struct(*shown).alias(self.metadata)] if self.metadata else []
        return self.format.decode(loaded.select("value", *named, origin))

    def _start(self) -> dict[str, str]:
        if isinstance(self.start, datetime):
            return {
                "startingTimestamp": str(int(self.start.timestamp() * 1000)),
                "startingOffsetsByTimestampStrategy": "latest",
            }
        if isinstance(self.start, int):
            return {"startingOffsets": json.dumps({name: {"0": self.start} for name in self.topics})}
        return {"startingOffsets": self.start}


def reading_options(context: Context) -> dict[str, str]:
    """What every reader of ours is told: where Kafka is, and how to fetch much at once."""
    return {**_READING, **_clients(context)}


def writing_options(context: Context) -> dict[str, str]:
    """What every writer of ours is told: where Kafka is, and how to send much at once."""
    return {**_WRITING, **_clients(context)}


def _clients(context: Context) -> dict[str, str]:
    kafka = context.settings.kafka
    options, secrets = java_options(kafka)
    named = {f"kafka.{name}": value for name, value in (options | secrets).items()}
    return {"kafka.bootstrap.servers": kafka.bootstrap, **named}
