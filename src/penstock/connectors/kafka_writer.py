"""A batch into Kafka exactly once: one transaction over all topics, the dead letters and the mark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from penstock.broker.marked import MarkedProducer
from penstock.broker.topics import Topics
from penstock.connectors.letters import envelope, open_dead_letters
from penstock.connectors.staged import Staged
from penstock.connectors.writing import Batch, Mark, MarkedWriter, Opening

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from penstock.broker.producer import TransactionalProducer
    from penstock.connectors.kafka import Kafka

__all__ = ["REFUSED", "KafkaWriter"]

REFUSED = "__refused"
_OVERHEAD = 512  # bytes of a record batch around its one record


class KafkaWriter(MarkedWriter):
    """Publishes from the driver: Spark's work is over when the transaction begins, so that readers wait least."""

    carries_letters: ClassVar = True

    def __init__(self, opening: Opening, sinks: Sequence[tuple[str, Kafka]]) -> None:
        self._context = opening.context
        self._kafka = opening.context.settings.kafka
        self._pipeline = opening.pipeline
        self._sinks = sinks
        self._limits: dict[str, int] = {}
        progress = f"{opening.pipeline}-{opening.query}-progress"
        self._producer = MarkedProducer(self._kafka, progress, f"{opening.query_id}-kafka", opening.run)

    def mark(self) -> Mark | None:
        """What the progress topic says."""
        found = self._producer.mark()
        return Mark(found["next"], found["digest"], found["run"]) if found else None

    def write(self, rows: Mapping[str, DataFrame], batch: Batch) -> None:
        """Stage the rows, then publish them."""
        topics = Topics(self._kafka)
        staged = []
        for number, (flow, sink) in enumerate(self._sinks):
            name = sink.sole_topic
            self._limits[name] = self._limits.get(name) or topics.largest(name) - _OVERHEAD
            staged.append((flow, name, self._stage(sink.encoded_or_refused(rows[flow], self._context), batch, number)))
        batch.reached("rows staged")
        with self._producer.transaction({"next": batch.mark.next, "digest": batch.digest}) as producer:
            batch.reached("transaction begun")
            for flow, name, part in staged:
                for piece in part.pieces():
                    self._send(producer, flow, name, piece)
                    batch.reached("some rows sent")
            for name, key, value in batch.letters():
                producer.send(name, value, key)
            for group in {sink.group for _, sink in self._sinks if sink.group}:
                self._producer.add_offsets(group, batch.ends)
            batch.reached("all sent")
        batch.reached("transaction committed")
        for _, _, part in staged:
            part.remove()

    def close(self) -> None:
        """Let go of the producer: the next use fences our own late requests and reads the mark."""
        self._producer.close()

    def _stage(self, encoded: DataFrame, batch: Batch, number: int) -> Staged:
        name = f"kafka-{number}"
        return batch.once(name, lambda: Staged(encoded, batch.folder / name))

    def _send(self, producer: TransactionalProducer, flow: str, topic: str, piece: pa.RecordBatch) -> None:
        values = _bytes(piece, "value")
        keys = _bytes(piece, "key") if "key" in piece.schema.names else [None] * len(values)
        limit = self._limits[topic]
        refused = {
            at: ("too large", f"{len(values[at] or b'')} bytes are more than topic {topic} takes")
            for at in _longer_than(limit, piece)
            if _compressed(values[at] or b"") > limit
        } | _refused_by_schema(piece)
        for at, told in sorted(refused.items()):
            key, letter = envelope(self._pipeline, flow, *told, {"key": keys[at], "value": values[at]})
            producer.send(open_dead_letters(self._kafka, self._pipeline), letter, key)
        if refused:
            keys = [one for at, one in enumerate(keys) if at not in refused]
            values = [one for at, one in enumerate(values) if at not in refused]
        producer.send_many(topic, keys, values)


def _refused_by_schema(piece: pa.RecordBatch) -> dict[int, tuple[str, str]]:
    """The rows that the format could not write, each with the rule and what to say."""
    if REFUSED not in piece.schema.names:
        return {}
    said = enumerate(piece.column(REFUSED).to_pylist())
    return {at: ("refused by the schema", why) for at, why in said if why is not None}


def _longer_than(limit: int, piece: pa.RecordBatch) -> list[int]:
    """The rows whose key and value together are longer."""
    import pyarrow.compute as pc

    length = None
    for name in ("key", "value"):
        if name not in piece.schema.names:
            continue
        one = pc.fill_null(pc.binary_length(piece.column(name)), 0)
        length = one if length is None else pc.add(length, one)
    found: list[int] = pc.indices_nonzero(pc.greater(length, limit)).to_pylist()
    return found


def _bytes(piece: pa.RecordBatch, column: str) -> list[bytes | None]:
    import pyarrow as pa

    found: list[bytes | None] = piece.column(column).cast(pa.binary()).to_pylist()
    return found


def _compressed(value: Any) -> int:
    import pyarrow as pa

    return len(pa.compress(value, codec="lz4", asbytes=True))
