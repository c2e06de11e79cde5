"""Reading a topic again: from any place, to its end or live, and folded to the state that it stands for."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from penstock.broker import EARLIEST, LATEST, Producer, Start, Topics, TransactionalProducer, fold, read
from tests.conftest import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.settings import Kafka

NOON = 1_767_268_800_000


def fill(kafka: Kafka, topic: str, count: int, partition: int = 0) -> None:
    with Producer(kafka) as producer:
        for number in range(count):
            producer.send(topic, str(number), "key", timestamp_ms=NOON + number * 1000, partition=partition)


def numbers(kafka: Kafka, topic: str, start: Start) -> list[int]:
    return [int(record.value or b"") for record in read(kafka, topic, start)]


def test_from_every_kind_of_start(kafka: Kafka, topic: Callable[..., str]) -> None:
    name = topic()
    fill(kafka, name, 100)
    assert numbers(kafka, name, EARLIEST) == list(range(100))
    assert numbers(kafka, name, Start(offset=90)) == list(range(90, 100))
    assert numbers(kafka, name, Start(last=3)) == [97, 98, 99]
    assert numbers(kafka, name, Start(last=1000)) == list(range(100))
    assert numbers(kafka, name, Start(time_ms=NOON + 95_500)) == [96, 97, 98, 99]
    assert numbers(kafka, name, Start(time_ms=NOON + 10**9)) == []
    assert numbers(kafka, name, LATEST) == []
    assert numbers(kafka, name, Start(offset=5000)) == []


def test_an_empty_topic_ends_at_once(kafka: Kafka, topic: Callable[..., str]) -> None:
    assert list(read(kafka, topic(partitions=3))) == []


def test_only_the_partitions_named(kafka: Kafka, topic: Callable[..., str]) -> None:
    name = topic(partitions=3)
    for partition in range(3):
        fill(kafka, name, 5, partition)
    assert {record.partition for record in read(kafka, name, partitions=[0, 2])} == {0, 2}


def test_live_goes_on_with_new_rows_and_latest_is_settled_by_the_call(kafka: Kafka, topic: Callable[..., str]) -> None:
    name = topic()
    fill(kafka, name, 5)
    incoming = read(kafka, name, LATEST, live=True)
    fill(kafka, name, 2)
    assert [int(next(incoming).value or b"") for _ in range(2)] == [0, 1]
    later = threading.Timer(0.5, fill, (kafka, name, 1))
    later.start()
    assert next(incoming).offset == 7
    later.join()


def test_a_compacted_topic_folds_to_its_current_state(kafka: Kafka, topic: Callable[..., str]) -> None:
    config = {
        "cleanup.policy": "compact",
        "segment.ms": "100",
        "min.cleanable.dirty.ratio": "0.01",
        "delete.retention.ms": "100",
    }
    name = topic("state", partitions=2, config=config)
    with Producer(kafka) as producer:
        for version in range(20):
            for key in range(10):
                producer.send(name, {"version": version}, f"key-{key}")
        producer.send(name, None, "key-3")
        producer.send(name, "kept", "text")
    expected = {f"key-{key}".encode() for key in range(10) if key != 3} | {b"text"}
    state = fold(kafka, name)
    assert set(state) == expected
    assert {record.json()["version"] for key, record in state.items() if key != b"text"} == {19}

    def compacted() -> bool:
        with Producer(kafka) as producer:  # a new row rolls the segment, which can then be compacted
            producer.send(name, "kept", "text")
        return len(list(read(kafka, name))) < 150

    wait_until(compacted, 90, "compaction")
    assert set(fold(kafka, name)) == expected


def test_an_aborted_transaction_at_the_end_does_not_hold_up_the_reader(kafka: Kafka, topic: Callable[..., str]) -> None:
    name = topic()
    producer = TransactionalProducer(kafka, f"{name}-id")
    with producer.transaction():
        producer.send(name, "committed")
    try:
        with producer.transaction():
            producer.send(name, "aborted")
            producer.flush()
            raise RuntimeError("no")
    except RuntimeError:
        pass
    began = time.monotonic()
    assert [record.value for record in read(kafka, name)] == [b"committed"]
    assert time.monotonic() - began < 20
    assert [record.value for record in read(kafka, name, committed_only=False)] == [b"committed", b"aborted"]


def test_a_reader_waits_for_an_open_transaction_below_the_end(kafka: Kafka, topic: Callable[..., str]) -> None:
    name = topic()
    producer = TransactionalProducer(kafka, f"{name}-id")
    opened, close = threading.Event(), threading.Event()

    def write() -> None:
        with producer.transaction():
            producer.send(name, "in doubt", "key")
            producer.flush()
            opened.set()
            close.wait(30)

    writer = threading.Thread(target=write)
    writer.start()
    assert opened.wait(30)
    assert Topics(kafka).end_offsets(name) == {0: 1}
    threading.Timer(1.5, close.set).start()
    assert set(fold(kafka, name)) == {b"key"}
    writer.join()
