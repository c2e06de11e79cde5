"""A batch into Kafka by several producers side by side, each with its share of the keys: for more than one can carry.

A lane is the rows whose key falls into it. Each has a transaction and a mark of its own, so a batch that is hit by a
failure may be seen in part until it is through: exactly-once for every row, atomic for every lane. How many lanes a
batch had is in their marks: one that is written again has as many as before, whatever is asked for by then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from penstock.broker.marked import COMPACTED, MarkedProducer
from penstock.broker.replay import fold
from penstock.broker.topics import Topics
from penstock.connectors.in_workers import as_text, raise_first
from penstock.connectors.staged import Staged
from penstock.connectors.writing import Batch, Mark, MarkedWriter, Opening
from penstock.errors import PenstockError, StateError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from penstock.connectors.kafka import Kafka
    from penstock.settings import Kafka as Settings

__all__ = ["KafkaLanes"]

_ORDER = "__order"


class KafkaLanes(MarkedWriter):
    """Publishes from Spark's workers; the mark of the whole batch comes when all lanes are through."""

    in_one_step: ClassVar = False

    def __init__(self, opening: Opening, flow: str, sink: Kafka) -> None:
        self._context = opening.context
        self._kafka = opening.context.settings.kafka
        self._flow = flow
        self._sink = sink
        self._run = opening.run
        self._key = f"{opening.query_id}-{sink.sole_topic}"
        name = f"{opening.pipeline}-{opening.query}-{sink.sole_topic}"
        self._lanes = f"{name}-lanes"
        self._producer = MarkedProducer(self._kafka, f"{name}-progress", self._key, opening.run)

    def mark(self) -> Mark | None:
        """What the progress topic says of whole batches."""
        found = self._producer.mark()
        return Mark(found["next"], found["digest"], found["run"]) if found else None

    def write(self, rows: Mapping[str, DataFrame], batch: Batch) -> None:
        """Let every lane publish its rows, unless it has; then mark the batch."""
        from pyspark.sql import functions as F  # noqa: N812

        lanes = self._in_doubt(batch) or self._sink.lanes
        encoded = self._sink.encoded(rows[self._flow], self._context)
        key = F.coalesce(F.col("key"), F.col("value")) if "key" in encoded.columns else F.col("value")
        numbered = encoded.withColumn(_ORDER, F.monotonically_increasing_id())
        staged = batch.once("lanes", lambda: Staged(numbered, batch.folder / "lanes"))
        lane = F.pmod(F.xxhash64(key), F.lit(lanes)).cast("int")
        kept = encoded.sparkSession.read.schema(numbered.schema).parquet(str(staged.folder))
        spread = kept.repartitionById(lanes, lane).sortWithinPartitions(_ORDER)
        publish = _publisher(self._kafka, self._sink.sole_topic, self._lanes, self._key, self._run, batch, lanes)
        batch.reached("rows staged")
        raise_first(row["error"] for row in spread.mapInArrow(publish, "error STRING").collect())
        batch.reached("all sent")
        with self._producer.transaction({"next": batch.mark.next, "digest": batch.digest, "lanes": lanes}):
            pass
        batch.reached("transaction committed")
        staged.remove()

    def close(self) -> None:
        """Let go of the producer."""
        self._producer.close()

    def _in_doubt(self, batch: Batch) -> int | None:
        """How many lanes this batch had when it was written in part; also makes room for the marks."""
        topics = Topics(self._kafka)
        if self._lanes not in topics.names():
            topics.create(self._lanes, partitions=self._sink.lanes, config=COMPACTED)
        elif topics.partitions(self._lanes) < self._sink.lanes:
            topics.add_partitions(self._lanes, self._sink.lanes)
        ours = f"{self._key}-".encode()
        marks = [one.json() for key, one in fold(self._kafka, self._lanes).items() if key.startswith(ours)]
        return next((int(mark["lanes"]) for mark in marks if mark["next"] == batch.mark.next), None)


def _publisher(kafka: Settings, topic: str, marks: str, key: str, run: str, batch: Batch, lanes: int) -> Any:
    """What a worker does with the rows of its lane."""
    number, digest = batch.number, batch.digest

    def publish(pieces: Iterator[pa.RecordBatch]) -> None:
        import pyarrow as pa
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        lane = context.partitionId()
        producer = MarkedProducer(kafka, marks, f"{key}-{lane}", run, lane)
        mark = producer.mark()
        done = mark is not None and mark["next"] == number + 1
        if mark is not None and (
            mark["next"] > number + 1 or (done and (mark["digest"], mark["lanes"]) != (digest, lanes))
        ):
            raise StateError(
                f"Lane {lane} of {topic} has batch {mark['next'] - 1} already, with other rows.",
                code="mark-ahead",
                remedy="The checkpoint was rolled back, or copied.",
            )
        if not done:
            with producer.transaction({"next": number + 1, "digest": digest, "lanes": lanes}) as open_producer:
                for piece in pieces:
                    values = piece.column("value").cast(pa.binary()).to_pylist()
                    named = "key" in piece.schema.names
                    keys = piece.column("key").cast(pa.binary()).to_pylist() if named else [None] * len(values)
                    open_producer.send_many(topic, keys, values)
        else:
            for _ in pieces:  # every row is looked at, so that the state of the batch is complete
                pass

    def told(pieces: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        try:
            publish(pieces)
            error = None
        except PenstockError as raised:
            error = as_text(raised)
        yield pa.RecordBatch.from_pydict({"error": [error]}, schema=pa.schema([("error", pa.string())]))

    return told
