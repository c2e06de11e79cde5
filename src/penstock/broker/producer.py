"""Producers: idempotent by default, transactional across topics; a failed delivery is never silent."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import Producer as Client

from penstock.broker.connection import client_options, kafka_error
from penstock.broker.record import encode
from penstock.broker.topics import Topics
from penstock.errors import CommitUnknownError, TransientError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import TracebackType
    from typing import Self

    from confluent_kafka import Message

    from penstock.broker.consumer import Consumer
    from penstock.settings import Kafka

__all__ = ["Producer", "TransactionalProducer"]

_METADATA_SECONDS = 60.0
_SETTINGS: dict[str, Any] = {
    "enable.idempotence": True,
    "acks": "all",
    "partitioner": "murmur2_random",
    "compression.type": "lz4",
    "linger.ms": 20,
    "batch.size": 512 << 10,
    "queue.buffering.max.kbytes": 64 << 10,
    "message.max.bytes": 64 << 20,  # the topic's own limit decides, and its answer is heard
}


class Producer:
    """Sends records, each acknowledged by all in-sync replicas, none twice."""

    def __init__(
        self,
        kafka: Kafka,
        *,
        partitioner: Callable[[bytes | None, Any, int], int] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.kafka = kafka
        self._partitioner = partitioner
        self._partitions: dict[str, tuple[int, float]] = {}
        self._failed: list[tuple[KafkaError, str]] = []
        self._client = Client({**client_options(kafka), **_SETTINGS, **(options or {})})

    def send(
        self,
        topic: str,
        value: Any,
        key: Any = None,
        *,
        headers: Sequence[tuple[str, bytes | None]] = (),
        timestamp_ms: int | None = None,
        partition: int | None = None,
    ) -> None:
        """Queue a record; waits while the queue is full. `flush` tells of failures."""
        raw_key = encode(key)
        if partition is None and self._partitioner is not None:
            partition = self._partitioner(raw_key, value, self._count(topic))
        optional: dict[str, Any] = {"headers": list(headers)} if headers else {}
        if timestamp_ms is not None:
            optional["timestamp"] = timestamp_ms
        if partition is not None:
            optional["partition"] = partition
        raw_value = encode(value)
        while True:
            try:
                self._client.produce(topic, raw_value, raw_key, on_delivery=self._delivered, **optional)
                break
            except BufferError:
                self._client.poll(0.1)
            except KafkaException as error:
                raise kafka_error(error.args[0], self.kafka, f"sending to {topic}") from error
        self._client.poll(0)

    def flush(self, seconds: float = 60.0) -> None:
        """Return when every record is acknowledged; raise for the first one that is not."""
        left = self._client.flush(seconds)
        if self._failed:
            error, topic = self._failed[0]
            count = len(self._failed)
            self._failed.clear()
            raise kafka_error(error, self.kafka, f"{count} records to {topic} were not delivered")
        if left:
            raise TransientError(
                f"Kafka at {self.kafka.bootstrap} has not acknowledged {left} records within {seconds:g} s.",
                code="kafka-away",
                remedy="Check that it runs (`penstock status`); flush again to go on waiting.",
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.flush()

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failed.append((error, message.topic() or ""))

    def _count(self, topic: str) -> int:
        known, at = self._partitions.get(topic, (0, 0.0))
        if not known or time.monotonic() - at > _METADATA_SECONDS:
            known = Topics(self.kafka).partitions(topic)
            self._partitions[topic] = (known, time.monotonic())
        return known


class TransactionalProducer(Producer):
    """Sends records of several topics, and a consumer's offsets, all or none."""

    def __init__(
        self,
        kafka: Kafka,
        transactional_id: str,
        *,
        partitioner: Callable[[bytes | None, Any, int], int] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(
            kafka, partitioner=partitioner, options={"transactional.id": transactional_id, **(options or {})}
        )
        self._call("fencing older producers", lambda: self._client.init_transactions(30.0))

    @contextmanager
    def transaction(self, *, consumer: Consumer | None = None) -> Iterator[Self]:
        """A block whose sends become visible together at its end, with what the consumer has finished.

        When the block fails nothing of it is visible, and the consumer goes back to what is committed.
        """
        self._call("beginning a transaction", self._client.begin_transaction)
        try:
            yield self
            self.flush()
            if consumer is not None:
                self._call("adding the offsets", lambda: self._add_offsets(consumer))
        except BaseException:
            self._abort()
            if consumer is not None:
                consumer.rewind()
            raise
        self._commit()
        if consumer is not None:
            consumer.settled()

    def _add_offsets(self, consumer: Consumer) -> None:
        self._client.send_offsets_to_transaction(consumer.finished(), consumer.group_metadata(), 30.0)

    def _commit(self) -> None:
        try:
            self._client.commit_transaction(60.0)
        except KafkaException as raised:
            error: KafkaError = raised.args[0]
            if error.txn_requires_abort():
                self._abort()
                raise kafka_error(error, self.kafka, "committing; the transaction was aborted") from raised
            if error.fatal():
                raise kafka_error(error, self.kafka, "committing; another producer has our id") from raised
            raise CommitUnknownError(
                f"Whether the transaction was committed is not known ({error.str()}).",
                code="commit-unknown",
                remedy="Make a new producer with the same id, then look at what is there before you send again.",
            ) from raised

    def _abort(self) -> None:
        self._client.purge()
        self._client.flush(5)
        self._failed.clear()
        self._call("aborting", lambda: self._client.abort_transaction(30.0))

    def _call(self, doing: str, step: Callable[[], Any]) -> None:
        for attempt in range(5):
            try:
                step()
                return
            except KafkaException as raised:
                error: KafkaError = raised.args[0]
                if error.fatal() or not error.retriable() or attempt == 4:
                    raise kafka_error(error, self.kafka, doing) from raised
                time.sleep(0.2 * 2**attempt)
