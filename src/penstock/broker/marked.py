"""A producer that writes, with every transaction, how far its writer has come; and reads it back after any doubt.

The rules, each of them needed: the older producer is fenced before the mark is read; the mark is read up to the high
watermark; after any error, and after a commit that was slow, the producer is thrown away and the mark read anew.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, TopicPartition

from penstock.broker.connection import client_options, connect
from penstock.broker.producer import TransactionalProducer
from penstock.broker.replay import fold
from penstock.broker.topics import Topics
from penstock.errors import CommitUnknownError, DeclarationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock.settings import Kafka

__all__ = ["COMPACTED", "MarkedProducer"]

_PATIENT = {"transaction.timeout.ms": 900_000}  # as long as a broker allows: a large batch is published in one
_SLOW_SECONDS = 1.0
_FINAL = ("producer-fenced", "topic-unknown", "message-too-large", "partition-unknown")
# Small segments: only those that are closed are compacted, and all of it is read at an opening.
COMPACTED = {"cleanup.policy": "compact", "segment.ms": "3600000", "segment.bytes": str(1 << 20)}


class MarkedProducer:
    """Transactions of one writer, each with a mark in a partition of a compacted topic that is the writer's own."""

    def __init__(self, kafka: Kafka, topic: str, key: str, run: str, partition: int = 0) -> None:
        self.kafka = kafka
        self.topic = topic
        self.key = key
        self.run = run
        self.partition = partition
        self._producer: TransactionalProducer | None = None
        self._mark: dict[str, Any] | None = None

    def mark(self) -> dict[str, Any] | None:
        """How far the writer has come; None if it never wrote."""
        self._open()
        return self._mark

    @contextmanager
    def transaction(self, mark: Mapping[str, Any]) -> Iterator[TransactionalProducer]:
        """A block whose sends become visible together with the mark, or not at all."""
        producer = self._open()
        marked = {**mark, "run": self.run}
        try:
            with producer.transaction():
                yield producer
                producer.send(self.topic, marked, self.key, partition=self.partition)
                producer.flush()
                began = time.monotonic()
        except DeclarationError as error:
            self._producer = None
            if error.code not in _FINAL:  # the client's own words for a transaction that can't go on
                raise CommitUnknownError(
                    f"A transaction was not taken: {error.problem}", code="commit-unknown", remedy="It is tried again."
                ) from error
            raise
        except BaseException:
            self._producer = None
            raise
        self._mark = marked
        if time.monotonic() - began > _SLOW_SECONDS:  # a request of it may still be under way
            self._producer = None

    def add_offsets(self, group: str, ends: Mapping[str, Mapping[str, int]]) -> None:
        """Commit offsets for a consumer group in the transaction that is open: other tools then see the lag."""
        client = connect(Consumer, {**client_options(self.kafka), "group.id": group, "enable.auto.commit": False})
        try:
            places = [TopicPartition(name, int(part), at) for name, parts in ends.items() for part, at in parts.items()]
            self._open().add_group_offsets(places, client.consumer_group_metadata())
        finally:
            client.close()

    def close(self) -> None:
        """Let go of the producer; what was committed stays."""
        self._producer = None

    def _open(self) -> TransactionalProducer:
        """First fence any older producer, then read how far it came."""
        if self._producer is None:
            topics = Topics(self.kafka)
            if self.topic not in topics.names():
                topics.create(self.topic, partitions=self.partition + 1, config=COMPACTED)
            producer = TransactionalProducer(
                self.kafka, f"penstock-{self.key}", options={**_PATIENT, **client_options(self.kafka)}
            )
            last = fold(self.kafka, self.topic, partitions=[self.partition]).get(self.key.encode())
            self._mark = last.json() if last else None
            self._producer = producer
        return self._producer
