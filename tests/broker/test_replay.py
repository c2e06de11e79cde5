"""A topic is read from any point to the end it has, or on and on; a compacted one as the state it stands for."""

from __future__ import annotations

import threading
import time
from itertools import islice
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from penstock.broker import EARLIEST, LATEST, Producer, Start, Topics, TransactionalProducer, fold, read
from penstock.errors import DeclarationError
from tests.conftest import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.broker import Record
    from penstock.settings import Kafka

HOUR_AGO = int(time.time() * 1000) - 3_600_000
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "100",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "0",
}


def fill(kafka: Kafka, name: str, numbers: Iterable[int], partitions: int = 1) -> None:
    with Producer(kafka) as producer:
        for number in numbers:
            producer.send(name, number, partition=number % partitions, timestamp_ms=HOUR_AGO + number * 1000)


def numbers(records: Iterable[Record]) -> list[int]:
    return [record.json() for record in records]


def give_up(producer: TransactionalProducer, rows: list[tuple[str, object, object]]) -> None:
    """Send rows in a transaction that is aborted."""

    def send() -> None:
        with producer.transaction():
            for row in rows:
                producer.send(*row)
            producer.flush()
            raise ValueError("given up")

    with pytest.raises(ValueError, match="given up"):
        send()


def state(kafka: Kafka, name: str) -> dict[bytes, bytes | None]:
    return {key: record.value for key, record in fold(kafka, name).items()}


@pytest.mark.parametrize(
    ("start", "first"),
    [
        (EARLIEST, 0),
        (LATEST, 100),
        (Start(offset=0), 0),
        (Start(offset=37), 37),
        (Start(offset=99), 99),
        (Start(offset=100), 100),
        (Start(offset=5000), 100),
        (Start(last=1), 99),
        (Start(last=30), 70),
        (Start(last=5000), 0),
        (Start(last=0), 100),
        (Start(time_ms=0), 0),
        (Start(time_ms=HOUR_AGO + 42_000), 42),
        (Start(time_ms=HOUR_AGO + 41_001), 42),
        (Start(time_ms=HOUR_AGO + 10_000_000), 100),
    ],
)
def test_reading_begins_where_it_is_asked_to_and_ends_at_the_end(
    kafka: Kafka, hundred: str, start: Start, first: int
) -> None:
    assert numbers(read(kafka, hundred, start)) == list(range(first, 100))


@pytest.fixture(scope="module")
def hundred(kafka: Kafka) -> str:
    """A topic of one partition with 0 to 99, a second apart."""
    name = f"hundred-{HOUR_AGO}"
    Topics(kafka).create(name)
    fill(kafka, name, range(100))
    return name


def test_every_partition_begins_at_its_own_place(kafka: Kafka, topic: Callable[..., str]) -> None:
    name = topic("spread", partitions=4)
    fill(kafka, name, range(100), 4)
    assert sorted(numbers(read(kafka, name))) == list(range(100))
    assert sorted(numbers(read(kafka, name, Start(last=2)))) == list(range(92, 100))
    assert sorted(numbers(read(kafka, name, Start(offset=24)))) == list(range(96, 100))
    assert sorted(numbers(read(kafka, name, Start(time_ms=HOUR_AGO + 50_000)))) == list(range(50, 100))


def test_only_the_partitions_asked_for_are_read(kafka: Kafka, topic: Callable[..., str]) -> None:
    name = topic("chosen", partitions=4)
    fill(kafka, name, range(40), 4)
    records = list(read(kafka, name, partitions=[1, 3]))
    assert {record.partition for record in records} == {1, 3}
    assert sorted(numbers(records)) == list(range(1, 40, 2))


def test_a_partition_that_is_not_there_is_told(kafka: Kafka, topic: Callable[..., str]) -> None:
    name = topic("few", partitions=2)
    with pytest.raises(DeclarationError, match=f"{name} has no partition 2") as told:
        read(kafka, name, partitions=[0, 2])
    assert "0 to 1" in str(told.value)


def test_an_empty_topic_is_at_its_end_at_once(kafka: Kafka, topic: Callable[..., str]) -> None:
    name = topic("empty", partitions=3)
    began = time.monotonic()
    assert list(read(kafka, name)) == []
    assert list(read(kafka, name, Start(last=10))) == []
    assert fold(kafka, name) == {}
    assert time.monotonic() - began < 5


def test_a_topic_whose_rows_are_all_gone_is_at_its_end(kafka: Kafka, topic: Callable[..., str]) -> None:
    name = topic("emptied")
    fill(kafka, name, range(10))
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    for answer in admin.delete_records([TopicPartition(name, 0, 10)]).values():
        answer.result(10)
    assert list(read(kafka, name)) == []
    assert list(read(kafka, name, Start(offset=3))) == []


def test_rows_written_after_the_call_are_not_part_of_it(kafka: Kafka, topic: Callable[..., str]) -> None:
    name = topic("later", partitions=2)
    fill(kafka, name, range(10), 2)
    asked = read(kafka, name)
    fill(kafka, name, range(10, 5000), 2)
    assert sorted(numbers(asked)) == list(range(10))


def test_live_reading_goes_on_with_what_comes(kafka: Kafka, topic: Callable[..., str]) -> None:
    name = topic("live", partitions=2)
    fill(kafka, name, range(10), 2)
    old_and_new, new = read(kafka, name, live=True), read(kafka, name, LATEST, live=True)
    assert sorted(numbers(islice(old_and_new, 10))) == list(range(10))
    writer = threading.Thread(target=fill, args=(kafka, name, range(10, 30), 2))
    writer.start()
    assert sorted(numbers(islice(old_and_new, 20))) == list(range(10, 30))
    assert sorted(numbers(islice(new, 20))) == list(range(10, 30))
    writer.join()


@pytest.mark.parametrize("rows", [1, 1000])
def test_an_aborted_transaction_at_the_end_does_not_hold_up_the_reader(
    kafka: Kafka, topic: Callable[..., str], rows: int
) -> None:
    name = topic("aborted-end")
    fill(kafka, name, range(5))
    producer = TransactionalProducer(kafka, name)
    give_up(producer, [(name, -number, None) for number in range(rows)])
    began = time.monotonic()
    assert numbers(read(kafka, name)) == list(range(5))
    assert len(list(read(kafka, name, committed_only=False))) == 5 + rows
    assert numbers(read(kafka, name, Start(last=5000))) == list(range(5))
    assert time.monotonic() - began < 10


def test_a_fold_is_the_last_of_each_key_less_what_tombstones_removed(kafka: Kafka, topic: Callable[..., str]) -> None:
    name = topic("state", partitions=3, config={"cleanup.policy": "compact"})
    with Producer(kafka) as producer:
        for version in range(5):
            for key in range(20):
                producer.send(name, f"version {version}", f"k{key}")
        for key in range(0, 20, 2):
            producer.send(name, None, f"k{key}")
        producer.send(name, "reborn", "k4")
        producer.send(name, None, "never there")
        producer.send(name, "", "empty is no tombstone")
        producer.send(name, "", "")
    expected: dict[bytes, bytes] = {f"k{key}".encode(): b"version 4" for key in range(1, 20, 2)}
    assert state(kafka, name) == expected | {b"k4": b"reborn", b"empty is no tombstone": b"", b"": b""}


def test_rows_without_a_key_are_no_part_of_a_state(kafka: Kafka, topic: Callable[..., str]) -> None:
    name = topic("keyless")
    with Producer(kafka) as producer:
        producer.send(name, "no key")
        producer.send(name, "kept", "key")
        producer.send(name, None)
    assert state(kafka, name) == {b"key": b"kept"}


def test_an_aborted_tombstone_removes_nothing(kafka: Kafka, topic: Callable[..., str]) -> None:
    name = topic("aborted-tombstone", config={"cleanup.policy": "compact"})
    producer = TransactionalProducer(kafka, name)
    with producer.transaction():
        producer.send(name, "here", "key")
    give_up(producer, [(name, None, "key"), (name, "not here", "other")])
    assert state(kafka, name) == {b"key": b"here"}


def test_a_fold_is_right_after_the_broker_has_compacted_and_more_was_written(
    kafka: Kafka, topic: Callable[..., str]
) -> None:
    name = topic("compacted", config=COMPACTED)
    expected: dict[bytes, bytes] = {}
    with Producer(kafka) as producer:
        for version in range(100):
            for key in range(5):
                producer.send(name, f"version {version}", f"k{key}")
                expected[f"k{key}".encode()] = f"version {version}".encode()
        producer.send(name, None, "k1")
        del expected[b"k1"]
        producer.flush()

        def compacted() -> bool:  # the segment that is written to is never compacted: each look begins a new one
            producer.send(name, "filler", "filler")
            producer.flush()
            return len(list(read(kafka, name))) < 250

        wait_until(compacted, 60, "the broker compacts")
        assert state(kafka, name) == expected | {b"filler": b"filler"}
        kept = [record.offset for record in read(kafka, name)]
        assert len(kept) < Topics(kafka).describe(name).records  # there are gaps
        assert [one.offset for one in read(kafka, name, Start(offset=1))] == [one for one in kept if one >= 1]
        producer.send(name, "after it", "k2")
        producer.send(name, "back", "k1")
        producer.send(name, None, "filler")
    assert state(kafka, name) == expected | {b"k2": b"after it", b"k1": b"back"}
