"""Consumers in a group: an offset is committed only after the work on its record is done."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaError, KafkaException, TopicPartition
from confluent_kafka import Consumer as Client

from penstock.broker.connection import client_options, kafka_error
from penstock.broker.record import Record
from penstock.errors import TransientError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import TracebackType
    from typing import Self

    from penstock.settings import Kafka

__all__ = ["Consumer"]

_COMMIT_SECONDS = 1.0
_REBALANCING = ("ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "REBALANCE_IN_PROGRESS")


class Consumer:
    """Iterate over it: asking for the next record says that the work on the one before is done.

    A crash between the work and the commit brings the record again (at least once); no record is skipped.
    Leave the loop by `break` and the record in hand counts as not done, unless `done` was called for it.
    """

    def __init__(
        self,
        kafka: Kafka,
        group: str,
        topics: Sequence[str],
        *,
        start: str = "earliest",
        commit: bool = True,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.kafka = kafka
        self._commits = commit
        self._start = start
        self._done: dict[tuple[str, int], int] = {}
        self._committed_at = time.monotonic()
        self._client = Client(
            client_options(kafka)
            | {
                "group.id": group,
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": start,
                "isolation.level": "read_committed",
                "partition.assignment.strategy": "cooperative-sticky",
                "fetch.wait.max.ms": 100,
            }
            | dict(options or {})
        )
        self._client.subscribe(list(topics), on_revoke=self._revoked, on_lost=self._lost)

    def records(self, idle: Callable[[], bool] = lambda: False) -> Iterator[Record]:
        """Records as they come; when none is there, `idle` may end the loop by returning True."""
        while True:
            record = self.poll(0.2)
            if record is not None:
                yield record
                self.done(record)
            elif idle():
                return

    def __iter__(self) -> Iterator[Record]:
        return self.records()

    def poll(self, seconds: float) -> Record | None:
        """The next record if one comes in time; call `done` when the work on it is finished."""
        self._commit_by_time()
        message = self._client.poll(seconds)
        if message is None:
            return None
        error = message.error()
        if error is None:
            return Record.of(message)
        if error.retriable() or error.code() in (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT):
            return None
        raise kafka_error(error, self.kafka, "consuming")

    def done(self, record: Record) -> None:
        """Say that the work on a record is finished; its offset goes with the next commit."""
        self._done[record.topic, record.partition] = record.offset + 1

    def commit(self) -> None:
        """Commit what is done, now."""
        self._committed_at = time.monotonic()
        if not self._done:
            return
        try:
            self._client.commit(offsets=self.finished(), asynchronous=False)
        except KafkaException as raised:
            if raised.args[0].name() in _REBALANCING:
                return  # kept for the next commit, or dropped when the partition is taken from us
            raise kafka_error(raised.args[0], self.kafka, "committing offsets") from raised
        self.settled()

    def settled(self) -> None:
        """Forget what is done: it is committed, by us or by a producer's transaction."""
        self._done.clear()

    def rewind(self) -> None:
        """Go back to what is committed in every assigned partition: what came since comes again."""
        self._done.clear()
        for one in self._client.committed(self._client.assignment(), timeout=15):
            if one.offset < 0:
                one.offset = OFFSET_BEGINNING if self._start == "earliest" else OFFSET_END
            self._client.seek(one)

    def seek(self, topic: str, partition: int, offset: int) -> None:
        """Go to an offset of an assigned partition: replay."""
        self._done.pop((topic, partition), None)
        self._client.seek(TopicPartition(topic, partition, offset))

    def seek_to_time(self, time_ms: int) -> None:
        """Go to a point in time in every assigned partition: replay."""
        wanted = [TopicPartition(one.topic, one.partition, time_ms) for one in self._client.assignment()]
        for found in self._client.offsets_for_times(wanted, timeout=15):
            self._done.pop((found.topic, found.partition), None)
            self._client.seek(found)

    def assignment(self) -> list[tuple[str, int]]:
        """The partitions that are ours now."""
        return [(one.topic, one.partition) for one in self._client.assignment()]

    def finished(self) -> list[TopicPartition]:
        """The offsets that are done and not committed, for a transaction of a producer."""
        return [TopicPartition(topic, partition, offset) for (topic, partition), offset in self._done.items()]

    def group_metadata(self) -> Any:
        """Who we are in the group, for a transaction of a producer."""
        return self._client.consumer_group_metadata()

    def close(self) -> None:
        """Commit what is done and leave the group."""
        if self._commits:
            self.commit()
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _commit_by_time(self) -> None:
        if self._commits and time.monotonic() - self._committed_at > _COMMIT_SECONDS:
            with suppress(TransientError):  # a broker that is away for a while: the next commit says it all
                self.commit()

    def _revoked(self, _client: Client, partitions: list[TopicPartition]) -> None:
        if self._commits:
            with suppress(TransientError):
                self.commit()
        self._lost(_client, partitions)

    def _lost(self, _client: Client, partitions: list[TopicPartition]) -> None:
        for one in partitions:
            self._done.pop((one.topic, one.partition), None)
