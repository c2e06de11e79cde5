"""Consumers in a group: an offset is committed only after the work on its record is done."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaError, KafkaException, TopicPartition
from confluent_kafka import Consumer as Client

from penstock.broker.connection import client_options, connect, kafka_error
from penstock.broker.progress import Place, Progress
from penstock.broker.record import Record
from penstock.errors import DeclarationError, SetupError, StateError, TransientError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import TracebackType
    from typing import Self

    from confluent_kafka import Message

    from penstock.settings import Kafka

__all__ = ["Consumer"]

_COMMIT_SECONDS = 1.0
_REBALANCING = ("ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "REBALANCE_IN_PROGRESS")
_STARTS = {"earliest": OFFSET_BEGINNING, "latest": OFFSET_END}


class Consumer:
    """Iterate over it: asking for the next record says that the work on the one before is done.

    A crash between the work and the commit brings the record again (at least once); no record is skipped.
    Leave the loop by `break` and the record in hand counts as not done, unless `done` was called for it:
    the next loop begins with it. `start` is where a group begins that has committed nothing.
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
        if start not in _STARTS:
            raise DeclarationError(
                f"{start!r} is not where a group can begin.",
                code="start-unknown",
                remedy="Write 'earliest' or 'latest'.",
            )
        self.kafka = kafka
        self.group = group
        self.commits = commit
        self._start = _STARTS[start]
        self._progress = Progress()
        self._placed: set[Place] = set()  # partitions that we told where to go on
        self._behind = False  # a rewind is due
        self._torn = False  # a partition was taken from us with work on it that is not committed
        self._committed_at = time.monotonic()
        self._client = connect(
            Client,
            client_options(kafka)
            | {
                "group.id": group,
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "on_commit": self._heard_of_commit,
                "auto.offset.reset": "error",  # a committed offset that is gone is told, never skipped
                "isolation.level": "read_committed",
                "partition.assignment.strategy": "cooperative-sticky",
                "fetch.wait.max.ms": 100,
            }
            | dict(options or {}),
        )
        self._client.subscribe(list(topics), on_revoke=self._revoked, on_lost=self._lost)

    def records(self, idle: Callable[[], bool] = lambda: False) -> Iterator[Record]:
        """Records as they come; when none is there, `idle` may end the loop by returning True."""
        if not self._behind:
            for place, offset in self._progress.take_back().items():
                self._place(*place, offset)
        while True:
            record = self.poll(0.2)
            if record is not None:
                yield record
                self._finish(record)
            elif idle():
                return

    def __iter__(self) -> Iterator[Record]:
        return self.records()

    def poll(self, seconds: float) -> Record | None:
        """The next record if one comes in time; call `done` when the work on it is finished."""
        self._commit_by_time()
        if self._behind and not self._go_back():
            return None
        message = self._client.poll(seconds)
        if message is None:
            return None
        error = message.error()
        if error is None:
            return self._progress.give(Record.of(message))
        if error.code() == KafkaError._AUTO_OFFSET_RESET:
            self._begin(message)
        elif error.code() not in (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT):
            raise kafka_error(error, self.kafka, f"consuming {message.topic() or 'as ' + self.group}")
        return None

    def done(self, record: Record) -> None:
        """Say that the work on a record, and on all before it in its partition, is finished.

        Its offset goes with the next commit. A record that is to come again, here or at another consumer of the
        group, is not finished by it; where a transaction counts on that, it is an error.
        """
        if not self._finish(record) and not self.commits:
            raise TransientError(
                f"The record at offset {record.offset} in partition {record.partition} of {record.topic} comes again.",
                code="record-comes-again",
                remedy="Drop what you hold since the last failure or rebalance, and poll.",
            )

    def commit(self) -> None:
        """Commit what is done, now."""
        if self._commit(wait=True):
            self.settled()

    def settled(self) -> None:
        """Forget what is done: it is committed, by us or by a producer's transaction."""
        for place, offset in list(self._progress.done.items()):
            self._progress.settle(place, offset)

    def rewind(self) -> None:
        """Go back to what is committed: what came since comes again, from the next poll on."""
        self._progress.done.clear()
        self._torn = False
        self._behind = True

    def seek(self, topic: str, partition: int, offset: int) -> None:
        """Go to an offset of an assigned partition: replay."""
        self._move(topic, partition, offset)

    def seek_to_time(self, time_ms: int) -> None:
        """Go to a point in time in every assigned partition: replay."""
        wanted = [TopicPartition(topic, partition, time_ms) for topic, partition in self.assignment()]
        if not wanted:
            raise _not_ours("any partition")
        try:
            found = self._client.offsets_for_times(wanted, timeout=15)
        except KafkaException as error:
            raise kafka_error(error.args[0], self.kafka, "looking for a time") from error
        for one in found:
            self._move(one.topic, one.partition, one.offset)

    def assignment(self) -> list[tuple[str, int]]:
        """The partitions that are ours now."""
        return [(one.topic, one.partition) for one in self._client.assignment()]

    def finished(self) -> list[TopicPartition]:
        """The offsets that are done and not committed, for a transaction of a producer."""
        if self._torn:
            raise TransientError(
                f"Partitions were taken from this consumer of group {self.group} with work on them unfinished.",
                code="partitions-moved",
                remedy="Run the transaction again: it begins with what is not committed.",
            )
        return self._offsets()

    def group_metadata(self) -> Any:
        """Who we are in the group, for a transaction of a producer."""
        return self._client.consumer_group_metadata()

    def close(self) -> None:
        """Commit what is done and leave the group."""
        try:
            if self.commits:
                self.commit()
        finally:
            self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _commit_by_time(self) -> None:
        """Ask for a commit without waiting for it: a broker that is away must not hold up the work."""
        if self.commits and time.monotonic() - self._committed_at > _COMMIT_SECONDS:
            self._commit(wait=False)

    def _commit(self, *, wait: bool) -> bool:
        self._committed_at = time.monotonic()
        if not self._progress.done:
            return False
        try:
            if wait:
                self._client.commit(offsets=self._offsets(), asynchronous=False)
            else:
                self._client.commit(offsets=self._offsets(), asynchronous=True)
        except KafkaException as raised:
            if raised.args[0].name() in _REBALANCING:
                return False  # kept for the next commit, or dropped when the partition is taken from us
            raise kafka_error(raised.args[0], self.kafka, f"committing offsets of {self.group}") from raised
        return True

    def _heard_of_commit(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        if error is not None:
            told = kafka_error(error, self.kafka, f"committing offsets of {self.group}")
            if isinstance(told, SetupError):
                raise told
            return  # the next commit says it all
        for one in partitions:
            if one.error is None:
                self._progress.settle((one.topic, one.partition), one.offset)

    def _revoked(self, _client: Client, partitions: list[TopicPartition]) -> None:
        if self.commits:
            with suppress(TransientError):
                self.commit()
        self._lost(_client, partitions)

    def _lost(self, _client: Client, partitions: list[TopicPartition]) -> None:
        for one in partitions:
            self._placed.discard((one.topic, one.partition))
            self._torn |= self._progress.forget((one.topic, one.partition)) and not self._behind

    def _finish(self, record: Record) -> bool:
        return not self._behind and self._progress.finish(record)

    def _begin(self, message: Message) -> None:
        """Begin where nothing is committed; tell of rows that are gone before they were read."""
        topic, partition, offset = message.topic() or "", message.partition() or 0, message.offset()
        if offset is not None and offset >= 0:
            raise StateError(
                f"Partition {partition} of {topic} no longer has offset {offset},"
                f" where group {self.group} goes on: rows are gone unread, or the topic was made anew.",
                code="offset-gone",
                remedy="Raise the topic's retention; go on with `seek`, or with another group.",
            )
        if (topic, partition) not in self._placed:  # else it was sent elsewhere meanwhile, by a seek
            self._move(topic, partition, self._start)

    def _go_back(self) -> bool:
        """Do the rewind that is due; False if Kafka does not say now what is committed."""
        begun = self._progress.begun()
        wanted = [TopicPartition(*place) for place in begun]
        try:
            committed = self._client.committed(wanted, timeout=15) if wanted else []
        except KafkaException as raised:
            error = kafka_error(raised.args[0], self.kafka, "looking for what is committed")
            if isinstance(error, TransientError):
                return False
            raise error from raised
        for one in committed:
            first = begun[one.topic, one.partition]
            self._move(one.topic, one.partition, one.offset if one.offset >= 0 else first)
        self._behind = False
        return True

    def _move(self, topic: str, partition: int, offset: int) -> None:
        self._place(topic, partition, offset)
        self._progress.forget((topic, partition))

    def _place(self, topic: str, partition: int, offset: int) -> None:
        place = TopicPartition(topic, partition, offset)
        try:  # not the client's seek, which fails on a partition that it does not fetch yet or no longer
            self._client.incremental_unassign([place])
            self._client.incremental_assign([place])
        except KafkaException as error:
            raise _not_ours(f"partition {partition} of {topic}") from error
        self._placed.add((topic, partition))

    def _offsets(self) -> list[TopicPartition]:
        return [TopicPartition(*place, offset) for place, offset in self._progress.done.items()]


def _not_ours(what: str) -> DeclarationError:
    return DeclarationError(
        f"This consumer does not have {what} now.",
        code="partition-not-ours",
        remedy="Poll until `assignment` names it, then seek.",
    )
