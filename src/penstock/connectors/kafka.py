"""Kafka topics as a source, a table and a sink."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.broker.connection import java_options
from penstock.broker.topics import Topics
from penstock.connectors.base import (
    BAD,
    ORIGIN,
    BestEffortSink,
    Context,
    MessageSink,
    TableConnector,
    TransactionalSink,
    good_or_raise,
)
from penstock.connectors.formats import Format, Json, PlainFormat, Raw, Topical
from penstock.connectors.kafka_lanes import KafkaLanes
from penstock.connectors.kafka_writer import REFUSED, KafkaWriter
from penstock.connectors.keyed import REMOVED, in_order, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming import DataStreamWriter

    from penstock.connectors.writing import Opening
    from penstock.registry.contract import Rule

__all__ = ["Kafka", "reading_options", "writing_options"]

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_READING = {
    "kafka.isolation.level": "read_committed",
    "kafka.max.poll.records": "4000",  # with 500 each poll costs, with 20,000 its rows outlive a collection
    "failOnDataLoss": "true",
}
# All that a batch reads is there already: a fetch that waits for more holds up what Spark asks next by half a second.
_IN_BATCHES = {"kafka.fetch.max.wait.ms": "10"}
_WRITING = {
    "kafka.linger.ms": "20",
    "kafka.batch.size": str(512 << 10),
    "kafka.compression.type": "lz4",
    "kafka.acks": "all",
    "kafka.max.request.size": str(64 << 20),
}
# A row is a batch of its own: its compressor would be made for it alone, half of all garbage.
_AT_ONCE = {"kafka.linger.ms": "0", "kafka.compression.type": "none"}
_EARLIEST = -2  # as Spark's Kafka source writes it
_LEARN_FROM = 10_000

_JSON = Json()
_MOST_ROWS = 2_000_000  # of a batch


@dataclass(frozen=True)
class Kafka(TableConnector, TransactionalSink, BestEffortSink, MessageSink, Topical):
    """One topic, several, or all that match a pattern (sources only).

    `start`: "earliest", "latest", a datetime, an offset (of every partition) or offsets by partition `{0: 17, 1: 23}`.
    `metadata` names a column for key, headers, topic, partition, offset and timestamp. `options` go to Spark as they
    are, over our own: `{"kafka.max.poll.records": "500"}`. `rows_per_batch`, if not given, is at most 2,000,000, and at
    a start no more than what the query was seen to do in half a minute. As an exactly-once sink, `group` names a
    consumer group to which the offsets of each batch are committed in the same transaction: its lag then shows in
    every Kafka tool.
    `lanes` lets so many producers of Spark's workers write side by side, each with its share of the keys and a
    transaction of its own: every row exactly once, but after a failure a reader may see part of a batch for a while.
    """

    topic: str | tuple[str, ...]
    format: Format = _JSON
    key: str | None = None
    start: str | int | datetime | Mapping[int, int] = "earliest"
    pattern: bool = False
    rows_per_batch: int | None = None
    metadata: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    group: str | None = None
    lanes: int = 1

    system: ClassVar = "kafka"
    summary: ClassVar = (
        "Rows of Kafka topics. As a sink one transaction per batch over all topics of a query, dead letters included;"
        ' with guarantee="at-least-once" and in real time by Spark\'s own writer. A topic that is not there is made at'
        " the start, as the broker makes topics."
    )
    sentence: ClassVar = (
        "a read_committed reader sees each batch completely or not at all, once, whatever is killed;"
        " with one broker a crash of its machine may lose what it has acknowledged"
    )
    realtime: ClassVar = True

    def target(self) -> str:
        """The topics."""
        return f"kafka:{','.join(self.topics)}"

    @property
    def sole_topic(self) -> str:
        """The topic that a sink writes."""
        return self.topics[0]

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
        if self.pattern and isinstance(self.start, int | Mapping):
            yield ("A pattern has no offsets to start at.", "Write 'earliest', 'latest' or a datetime.")
        if not 1 <= self.lanes <= 64 or (self.lanes > 1 and self.group):
            yield ("lanes must be from 1 to 64, and a group needs one lane.", "Leave lanes out for one.")
        yield from self.format.problems()
        if self.rows_per_batch is not None and self.rows_per_batch < 1:
            yield ("rows_per_batch must be at least 1.", "Leave it out: it is measured then.")

    def stream(self, context: Context) -> DataFrame:
        """A stream of the topics."""
        rows = self.rows_per_batch or context.rows_of_batch(_MOST_ROWS)
        limit = {} if context.realtime else {"maxOffsetsPerTrigger": str(rows)}
        topics = {"subscribePattern" if self.pattern else "subscribe": ",".join(self.topics)}
        options = {**self._reading(context), **self._start(context), **limit, **self.options, **topics}
        loaded = context.spark.readStream.format("kafka").options(**options).load()
        return self._decoded(loaded, context)

    def narrowed(self, columns: Collection[str], context: Context) -> Kafka:
        """One whose format decodes less."""
        return replace(self, format=self.format.narrowed(columns, context, self))

    def table(self, context: Context) -> DataFrame:
        """The latest row of each key; a key whose latest value is empty is gone."""
        from pyspark.sql import functions as F  # noqa: N812

        raw = self._read(context, {"subscribe": ",".join(self.topics)})
        # A key stays in its partition, unless partitions were added: then its newest row is in another one.
        newest = F.max_by(F.struct(*raw.columns), F.struct("timestamp", "offset")).alias("__latest")
        latest = raw.groupBy("topic", "key").agg(newest).select("__latest.*")
        rows = self._decoded(latest.filter("value IS NOT NULL"), context)
        no_key = F.when(F.col(f"{ORIGIN}.key").isNull(), F.lit("it has no key"))
        return good_or_raise(rows.withColumn(BAD, F.coalesce(no_key, F.col(BAD))), self.where())

    def where(self) -> Column:
        """Where a row is, in words."""
        from pyspark.sql import functions as F  # noqa: N812

        place = (F.col(f"{ORIGIN}.{name}").cast("string") for name in ("partition", "offset"))
        return F.concat_ws(" ", F.lit(self.target()), *place)

    def rules(self, context: Context, rows: DataFrame) -> list[tuple[str, Column, Column]]:
        """The contract that its format knows of."""
        return self.format.rules(context, self, rows)

    def unique(self, context: Context) -> list[Rule]:
        """What must be unique by the contract that its format knows of."""
        return self.format.unique(context, self)

    def recognises(self, told: Mapping[str, Any]) -> bool:
        """Kafka's offsets name their topics."""
        offsets = told["end"]
        if not isinstance(offsets, dict) or not all(isinstance(parts, dict) for parts in offsets.values()):
            return False
        return all(self.reads(f"kafka:{name}") for name in offsets)

    def reads(self, target: str) -> bool:
        """Whether a topic is one of ours."""
        name = target.removeprefix("kafka:")
        if not target.startswith("kafka:"):
            return False
        return bool(re.fullmatch(self.topics[0], name)) if self.pattern else name in self.topics

    def replay(self, context: Context, told: Mapping[str, Any]) -> DataFrame:
        """Exactly the rows between two sets of offsets, as Spark's offset log writes them."""
        begin = told["begin"] or _first_offsets(Path(told["log"]))
        return self.between(context, begin, told["end"])

    def newest(self, context: Context, rows: int) -> DataFrame | None:
        """The last rows of each partition."""
        if self.pattern:
            return None
        topics = Topics(context.settings.kafka)
        begin, end = {}, {}
        for name in self.topics:
            first, last = topics.start_offsets(name), topics.end_offsets(name)
            end[name] = {str(part): offset for part, offset in last.items()}
            begin[name] = {str(part): max(first[part], at - rows // len(last)) for part, at in last.items()}
        return self.between(context, begin, end)

    def newest_values(self, context: Context) -> DataFrame | None:
        """Values of the newest rows, to learn columns from."""
        rows = replace(self, format=Raw(), metadata=None).newest(context, _LEARN_FROM)
        return rows.selectExpr("CAST(value AS STRING) AS value") if rows is not None else None

    def ends(self, context: Context) -> dict[str, int]:
        """How far the topics go now for who reads what is committed, by `topic-partition`."""
        topics = Topics(context.settings.kafka)
        found = ((name, topics.end_offsets(name, committed=True)) for name in self._names(topics))
        return {f"{name}-{part}": end for name, parts in found for part, end in parts.items()}

    def beginnings(self, context: Context, begin: dict[str, int], end: dict[str, int], length: int) -> set[bytes]:
        """The first bytes of the messages between offsets by `topic-partition`, each once."""
        raw = replace(self, format=Raw(), metadata=None).between(context, _by_topic(begin), _by_topic(end))
        return {
            bytes(row[0]) for row in raw.selectExpr(f"substring(value, 1, {length})").distinct().collect() if row[0]
        }

    def between(self, context: Context, begin: Mapping[str, Any], end: Mapping[str, Any]) -> DataFrame:
        """The rows between offsets; a partition without a begin is read from its first row."""
        whole = {
            name: {part: begin.get(name, {}).get(part, _EARLIEST) for part in parts} for name, parts in end.items()
        }
        parts = {name: [int(part) for part in parts] for name, parts in end.items()}
        offsets = {"startingOffsets": json.dumps(whole), "endingOffsets": json.dumps(end)}
        return self._decoded(self._read(context, {"assign": json.dumps(parts), **offsets}), context)

    def partitions(self, context: Context) -> int:
        """The partitions of all topics."""
        topics = Topics(context.settings.kafka)
        return sum(topics.partitions(name) for name in self._names(topics))

    def write(self, rows: DataFrame, context: Context) -> DataStreamWriter:
        """Spark's own writer."""
        at_once = _AT_ONCE if context.realtime else {}
        options = {**writing_options(context), **at_once, **self.options, "topic": self.sole_topic}
        return self.encoded(rows, context).writeStream.format("kafka").options(**options)

    def honestly(self) -> str:
        """With lanes a batch may be seen in part."""
        if self.lanes == 1:
            return self.sentence
        return "a read_committed reader sees each row once; after a failure it may see part of a batch for a while"

    def check(self, rows: DataFrame, context: Context) -> None:
        """There is a key column, and the format takes the others."""
        rows.select(*self._key(), self.format.checked(context, self.sole_topic, shown(rows)))

    def prepare(self, rows: Callable[[], DataFrame], context: Context) -> None:
        """Register the schema, if the format has one; make the topic, unless it is there."""
        self.open_topic(context)
        if not isinstance(self.format, PlainFormat):
            self.format.for_writing(context, self.sole_topic, shown(rows()))

    def open_topic(self, context: Context) -> None:
        """Make the topic as the broker makes topics, unless it is there."""
        Topics(context.settings.kafka).ensure(self.sole_topic)

    def together(self) -> str:
        """All topics of a query in one transaction, unless one has lanes."""
        return "kafka:" if self.lanes == 1 else self.target()

    def open(self, opening: Opening) -> KafkaWriter | KafkaLanes:
        """The transactions of a query."""
        if self.lanes > 1:
            return KafkaLanes(opening, opening.sinks[0][0], self)
        return KafkaWriter(opening, [(flow, sink) for flow, sink in opening.sinks if isinstance(sink, Kafka)])

    def encoded(self, rows: DataFrame, context: Context) -> DataFrame:
        """Rows as values, the key column as key; a row that the format can't write stops the query."""
        from pyspark.sql import functions as F  # noqa: N812

        made = self.encoded_or_refused(rows, context)
        if REFUSED not in made.columns:
            return made
        said = F.concat(F.lit(f"a row can't be written to topic {self.sole_topic}: "), F.col(REFUSED))
        value = F.when(F.col(REFUSED).isNull(), F.col("value")).otherwise(F.raise_error(said).cast("binary"))
        return made.withColumn("value", value).drop(REFUSED)

    def encoded_or_refused(self, rows: DataFrame, context: Context) -> DataFrame:
        """The same with a column that says why a row can't be written, if that may be; its value is JSON then."""
        from pyspark.sql import functions as F  # noqa: N812

        rows = in_order(rows)
        given = shown(rows)
        format_ = self.format.for_writing(context, self.sole_topic, given)
        value, unfit = format_.encode(given), format_.unfit(given)
        if REMOVED in rows.columns:  # a key without a value: gone
            value = F.when(~F.col(REMOVED), value)
            unfit = F.when(~F.col(REMOVED), unfit) if unfit is not None else None
        if unfit is None:
            return rows.select(*self._key(), value.alias("value"))
        plain = Json().encode(given).cast("binary")
        return rows.select(
            *self._key(), F.when(unfit.isNull(), value).otherwise(plain).alias("value"), unfit.alias(REFUSED)
        )

    def _names(self, topics: Topics) -> list[str]:
        """The topics that there are now."""
        if not self.pattern:
            return list(self.topics)
        return [one for one in topics.names() if re.fullmatch(self.topics[0], one)]

    def _key(self) -> list[Column]:
        from pyspark.sql import functions as F  # noqa: N812

        return [F.col(self.key).cast("string").alias("key")] if self.key else []

    def _reading(self, context: Context) -> dict[str, str]:
        """With headers only if they are shown: they cost at every row."""
        return {**reading_options(context), **({"includeHeaders": "true"} if self.metadata else {})}

    def _read(self, context: Context, what: Mapping[str, str]) -> DataFrame:
        options = {**self._reading(context), **self.options, **what}
        return context.spark.read.format("kafka").options(**options).load()

    def _decoded(self, loaded: DataFrame, context: Context) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812

        origin = F.struct("topic", "partition", "offset", "timestamp", "key", "value").alias(ORIGIN)
        shown = ("key", "headers", "topic", "partition", "offset", "timestamp")
        named = [F.struct(*shown).alias(self.metadata)] if self.metadata else []
        return self.format.for_reading(context, self).decode(loaded.select("value", *named, origin))

    def _start(self, context: Context) -> dict[str, str]:
        if isinstance(self.start, datetime):
            return {
                "startingTimestamp": str(int(self.start.timestamp() * 1000)),
                "startingOffsetsByTimestampStrategy": "latest",
            }
        if isinstance(self.start, str):
            return {"startingOffsets": self.start}
        topics = Topics(context.settings.kafka)
        at: dict[str, dict[int, int]] = {}
        for name in self.topics:
            parts = range(topics.partitions(name))
            at[name] = dict.fromkeys(parts, self.start) if isinstance(self.start, int) else dict.fromkeys(parts, -2)
            at[name] |= self.start if isinstance(self.start, Mapping) else {}
        return {"startingOffsets": json.dumps(at)}


def reading_options(context: Context) -> dict[str, str]:
    """What every reader of ours is told: where Kafka is, and how to fetch much at once."""
    return {**_READING, **({} if context.realtime else _IN_BATCHES), **_clients(context)}


def writing_options(context: Context) -> dict[str, str]:
    """What every writer of ours is told: where Kafka is, and how to send much at once."""
    return {**_WRITING, **_clients(context)}


def _clients(context: Context) -> dict[str, str]:
    kafka = context.settings.kafka
    options, secrets = java_options(kafka)
    named = {f"kafka.{name}": value for name, value in (options | secrets).items()}
    return {"kafka.bootstrap.servers": kafka.bootstrap, **named}


def _by_topic(offsets: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """Offsets by `topic-partition` as Spark writes them."""
    found: dict[str, dict[str, int]] = {}
    for place, offset in offsets.items():
        topic, _, part = place.rpartition("-")
        found.setdefault(topic, {})[part] = offset
    return found


def _first_offsets(log: Path) -> dict[str, Any]:
    """Where the first batch of a query began, as Spark noted it in the source's folder of the checkpoint."""
    text = (log / "0").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text[text.index("{") :])
    return found
