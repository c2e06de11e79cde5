"""Producers: idempotent by default, transactional across topics; a failed delivery is never silent."""

from __future__ import annotations

import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import Producer as Client

from penstock.broker.connection import client_options, connect, kafka_error
from penstock.broker.record import encode
from penstock.broker.topics import Topics
from penstock.errors import CommitUnknownError, DeclarationError, TransientError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import TracebackType
    from typing import Self

    from confluent_kafka import Message, TopicPartition

    from penstock.broker.consumer import Consumer
    from penstock.settings import Kafka

__all__ = ["Producer", "TransactionalProducer"]

_METADATA_SECONDS = 60.0
_CALL_SECONDS = 30.0
_SETTINGS: dict[str, Any] = {
    "enable.idempotence": True,
    "acks": "all",
    "partitioner": "murmur2_random",
    "compression.type": "lz4",
    "linger.ms": 20,
    "batch.size": 512 << 10,
    "queue.buffering.max.kbytes": 64 << 10,
    "queue.buffering.max.messages": 1_000_000,  # so that bytes are what bounds it
    "delivery.report.only.error": True,
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
        self._options = {**_SETTINGS, **client_options(kafka), **(options or {})}
        self._client = connect(Client, self._options)

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
            optional["partition"] = _real(partition, topic)
        raw_value = encode(value)
        with self._told(f"sending to {topic}"):
            while not self._queued(topic, raw_value, raw_key, optional):
                self._client.poll(0.1)
            self._client.poll(0)

    def send_many(
        self, topic: str, keys: Sequence[Any] | None, values: Sequence[Any], *, partition: int | None = None
    ) -> None:
        """Queue many records of one topic, text or bytes; waits while the queue is full. `flush` tells of failures."""
        if keys is None:
            left = [{"value": value} for value in values]
        else:
            left = [{"key": key, "value": value} for key, value in zip(keys, values, strict=True)]
        optional: dict[str, Any] = {"partition": _real(partition, topic)} if partition is not None else {}
        with self._told(f"sending to {topic}"):
            while left:
                left = self._not_queued(topic, left, optional)
                self._client.poll(0.05 if left else 0)

    def flush(self, seconds: float = 60.0) -> None:
        """Return when every record is acknowledged; raise for the first one that is not."""
        with self._told("sending"):
            left = self._client.flush(seconds)
        if self._failed:
            error, count = self._failed[0][0], len(self._failed)
            topics = ", ".join(sorted({topic for _, topic in self._failed}))
            self._failed.clear()
            raise kafka_error(error, self.kafka, f"{count} record(s) to {topics} were not delivered")
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
        self.flush()  # after an error too: what was sent before it is not dropped

    def _queued(self, topic: str, value: bytes | None, key: bytes | None, optional: dict[str, Any]) -> bool:
        try:
            self._client.produce(topic, value, key, on_delivery=self._delivered, **optional)
        except BufferError as error:
            if not len(self._client):
                raise DeclarationError(
                    f"A message to {topic} is larger than the whole queue of the producer.",
                    code="message-too-large",
                    remedy="Raise the producer's option queue.buffering.max.kbytes, or send less.",
                ) from error
            return False
        return True

    def _not_queued(
        self, topic: str, records: list[dict[str, Any]], optional: Mapping[str, Any]
    ) -> list[dict[str, Any]]:
        """Queue what there is room for; return the rest."""
        try:
            queued = self._client.produce_batch(topic, records, on_delivery=self._delivered, **optional)
        except BufferError:
            return records
        if queued == len(records):
            return []
        errors = [one.pop("_error", None) for one in records]
        for error in errors:
            if isinstance(error, KafkaError) and error.code() != KafkaError._QUEUE_FULL:
                raise KafkaException(error)
        return [one for one, error in zip(records, errors, strict=True) if error is not None]

    @contextmanager
    def _told(self, doing: str) -> Iterator[None]:
        """The client's errors as ours."""
        try:
            yield
        except (KafkaException, SystemError) as raised:
            raise kafka_error(_error_of(raised), self.kafka, doing) from raised

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failed.append((error, message.topic() or ""))

    def _count(self, topic: str) -> int:
        known, at = self._partitions.get(topic, (0, 0.0))
        if not known or time.monotonic() - at > _METADATA_SECONDS:
            known = Topics(self.kafka).partitions(topic)
            self._partitions[topic] = (known, time.monotonic())
        return known


def _error_of(raised: KafkaException | SystemError) -> KafkaError:
    """The client's error; it may call us back with its error set already, and Python then finds two at once."""
    found: BaseException | None = raised
    while found is not None and not isinstance(found, KafkaException):
        found = found.__cause__ or found.__context__
    if found is None:
        raise raised
    error: KafkaError = found.args[0]
    return error


def _real(partition: int, topic: str) -> int:
    if partition < 0:  # -1 would mean to the client: place it yourself
        raise DeclarationError(
            f"{topic} has no partition {partition}.", code="partition-unknown", remedy="Name one from 0 on."
        )
    return partition


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
        self._rejected = False
        self._begin_epoch()

    @contextmanager
    def transaction(self, *, consumer: Consumer | None = None) -> Iterator[Self]:
        """A block whose sends become visible together at its end, with what the consumer has finished.

        Call `consumer.done` in the block for each record that it works on. When the block or the commit fails
        nothing of it is visible, and the consumer goes back to what is committed: poll again, do not send again.
        """
        if consumer is not None and consumer.commits:
            raise DeclarationError(
                f"The consumer of group {consumer.group} commits by itself, ahead of the transaction.",
                code="consumer-commits",
                remedy="Make it with Consumer(…, commit=False).",
            )
        self._call("beginning a transaction", self._client.begin_transaction)
        try:
            yield from self._all_or_none(consumer)
        except BaseException:
            if consumer is not None:
                consumer.rewind()
            raise
        if consumer is not None:
            consumer.settled()

    def _all_or_none(self, consumer: Consumer | None) -> Iterator[Self]:
        try:
            yield self
            self.flush()
            if consumer is not None:
                self._add_offsets(consumer)
        except BaseException:
            self._abort()
            raise
        self._commit()

    def _add_offsets(self, consumer: Consumer) -> None:
        self.add_group_offsets(consumer.finished(), consumer.group_metadata())

    def add_group_offsets(self, places: list[TopicPartition], group: Any) -> None:
        """Commit these offsets for a group in the transaction that is open."""
        self._call("adding the offsets", lambda: self._client.send_offsets_to_transaction(places, group, 10.0))

    def _begin_epoch(self) -> None:
        """Fence what came before under our id: an older producer, a late request of our own."""
        with suppress(KafkaException):  # a client that knows a broker finds its coordinator at once, not after 500 ms
            self._client.list_topics(timeout=5.0)
        self._call("fencing older producers", lambda: self._client.init_transactions(10.0))

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        super()._delivered(error, message)
        self._rejected |= error is not None

    def _commit(self) -> None:
        try:
            self._client.commit_transaction(60.0)
        except (KafkaException, SystemError) as raised:
            error = _error_of(raised)
            if error.txn_requires_abort():
                self._abort()
                raise kafka_error(error, self.kafka, "committing; the transaction was aborted") from raised
            if error.fatal():
                raise kafka_error(error, self.kafka, "committing") from raised
            raise CommitUnknownError(
                f"Whether the transaction was committed is not known ({error.str()}).",
                code="commit-unknown",
                remedy="Make a new producer with the same id, then look at what is there before you send again.",
            ) from raised

    def _abort(self) -> None:
        with suppress(KafkaException, SystemError):  # what is fatal is told by the abort
            self._client.flush(10.0)  # an abort that overtakes its records fails, or the transaction after it does
        rejected = self._rejected
        try:
            self._call("aborting", lambda: self._client.abort_transaction(10.0))
        finally:
            self._failed.clear()
            self._rejected = False
        if rejected:  # librdkafka leaves a gap in its sequence numbers, on which the next transaction would fail
            self._client = connect(Client, self._options)
            self._begin_epoch()

    def _call(self, doing: str, step: Callable[[], Any]) -> None:
        deadline = time.monotonic() + _CALL_SECONDS
        while True:
            try:
                step()
                return
            except (KafkaException, SystemError) as raised:
                error = _error_of(raised)
                if error.fatal() or not error.retriable() or time.monotonic() > deadline:
                    raise kafka_error(error, self.kafka, doing) from raised
                time.sleep(0.2)
