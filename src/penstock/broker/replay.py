"""Reading a topic without a group: from any offset or time, to the end or live; a compacted topic as a state."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from confluent_kafka import Consumer as Client
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from penstock.broker.connection import client_options, connect, kafka_error
from penstock.broker.record import Record
from penstock.broker.topics import Topics
from penstock.errors import DeclarationError, TransientError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.settings import Kafka

__all__ = ["EARLIEST", "LATEST", "Start", "fold", "read"]

_BATCH = 500
_WAIT_SECONDS = 0.05  # a batch that is not full is waited for that long, so rows are late by it
_STALLED_SECONDS = 60.0


@dataclass(frozen=True)
class Start:
    """Where reading begins in each partition: exactly one of these."""

    offset: int | None = None
    time_ms: int | None = None
    last: int | None = None
    earliest: bool = False


EARLIEST = Start(earliest=True)
LATEST = Start()


def read(
    kafka: Kafka,
    topic: str,
    start: Start = EARLIEST,
    *,
    partitions: list[int] | None = None,
    live: bool = False,
    committed_only: bool = True,
) -> Iterator[Record]:
    """The records of a topic from a start to the end it has now, or on and on when live.

    Where it begins and ends is settled in this call, before the first record is asked for.
    """
    ends = Topics(kafka).end_offsets(topic)
    if unknown := set(partitions or ()) - set(ends):
        raise DeclarationError(
            f"{topic} has no partition {min(unknown)}.",
            code="partition-unknown",
            remedy=f"Its partitions are 0 to {len(ends) - 1}.",
        )
    chosen = {number: end for number, end in ends.items() if partitions is None or number in partitions}
    client = connect(
        Client,
        client_options(kafka)
        | {
            "group.id": "penstock-replay",  # never joined: partitions are assigned by hand, nothing is committed
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed" if committed_only else "read_uncommitted",
            "fetch.wait.max.ms": 50,
            "fetch.message.max.bytes": 8 << 20,
        },
    )
    try:
        client.assign([_begin(client, topic, number, end, start) for number, end in chosen.items()])
    except KafkaException as error:
        client.close()
        raise kafka_error(error.args[0], kafka, f"reading {topic}") from error
    return _records(client, kafka, topic, None if live else chosen)


def fold(kafka: Kafka, topic: str, *, partitions: list[int] | None = None) -> dict[bytes, Record]:
    """The current state that a keyed topic stands for: the last record of each key, tombstones removing it."""
    state: dict[bytes, Record] = {}
    for record in read(kafka, topic, partitions=partitions):
        if record.key is None:
            continue
        if record.value is None:
            state.pop(record.key, None)
        else:
            state[record.key] = record
    return state


def _begin(client: Client, topic: str, partition: int, end: int, start: Start) -> TopicPartition:
    if start.offset is not None:
        return TopicPartition(topic, partition, min(start.offset, end))
    if start.earliest or start.last is not None:  # OFFSET_BEGINNING would cost half a second
        low, _ = client.get_watermark_offsets(TopicPartition(topic, partition), timeout=15)
        return TopicPartition(topic, partition, low if start.last is None else max(low, end - start.last))
    if start.time_ms is not None:
        (found,) = client.offsets_for_times([TopicPartition(topic, partition, start.time_ms)], timeout=15)
        return TopicPartition(topic, partition, found.offset if found.offset >= 0 else end)
    return TopicPartition(topic, partition, end)


def _records(client: Client, kafka: Kafka, topic: str, ends: dict[int, int] | None) -> Iterator[Record]:
    with closing(client):
        yield from _live(client, kafka) if ends is None else _to_ends(client, kafka, topic, ends)


def _live(client: Client, kafka: Kafka) -> Iterator[Record]:
    while True:
        for message in client.consume(_BATCH, timeout=_WAIT_SECONDS):
            error = message.error()
            if error is None:
                yield Record.of(message)
            elif error.code() != KafkaError._PARTITION_EOF:
                raise kafka_error(error, kafka, "reading")


def _to_ends(client: Client, kafka: Kafka, topic: str, ends: dict[int, int]) -> Iterator[Record]:
    """Read up to the high watermarks: transactions that are open below them are waited for."""
    left = {partition for partition, end in ends.items() if end > 0}
    heard = time.monotonic()
    while left:
        for message in client.consume(_BATCH, timeout=_WAIT_SECONDS):
            heard = time.monotonic()
            error = message.error()
            partition, offset = message.partition() or 0, message.offset() or 0
            if error is None and offset < ends[partition]:
                yield Record.of(message)
            elif error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise kafka_error(error, kafka, f"reading {topic}")
            if partition in left and offset + (error is None) >= ends[partition]:
                left.remove(partition)
                client.pause([TopicPartition(topic, partition)])  # what is written to it later is not ours
        if time.monotonic() - heard > _STALLED_SECONDS:
            raise TransientError(
                f"{topic} did not give its records up to the end within {_STALLED_SECONDS:.0f} s.",
                code="replay-stalled",
                remedy="A transaction on it may be open, or Kafka is away; try again.",
            )
