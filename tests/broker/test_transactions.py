"""All or nothing, across topics and with the consumer's offsets, whatever dies in between."""

from __future__ import annotations

import os
import random
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from penstock.broker import Consumer, Producer, Record, Topics, TransactionalProducer, fold, read
from penstock.errors import DeclarationError
from tests.broker.killing import Worker
from tests.broker.polling import polled
from tests.conftest import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.settings import Kafka


def values(kafka: Kafka, name: str, *, committed_only: bool = True) -> list[str]:
    return [(record.value or b"").decode() for record in read(kafka, name, committed_only=committed_only)]


def fill(kafka: Kafka, name: str, count: int, partitions: int = 1) -> None:
    with Producer(kafka) as producer:
        for number in range(count):
            producer.send(name, str(number), partition=number % partitions)


def test_a_commit_is_seen_in_all_its_topics(kafka: Kafka, topic: Callable[..., str]) -> None:
    orders, audit = topic("orders", partitions=3), topic("audit")
    producer = TransactionalProducer(kafka, orders)
    with producer.transaction():
        for number in range(100):
            producer.send(orders, str(number), str(number))
            producer.send(audit, f"audit {number}")
        producer.flush()
        assert Topics(kafka).describe(orders).records == 100  # there, and not to be seen yet
    assert sorted(values(kafka, orders), key=int) == [str(number) for number in range(100)]
    assert values(kafka, audit) == [f"audit {number}" for number in range(100)]


def test_an_aborted_transaction_is_invisible_except_to_who_asks_for_it(kafka: Kafka, topic: Callable[..., str]) -> None:
    first, second = topic("first"), topic("second")
    producer = TransactionalProducer(kafka, first)

    def fail() -> None:
        with producer.transaction():
            producer.send(first, "lost")
            producer.send(second, "lost")
            producer.flush()
            raise ValueError("the work failed")

    with pytest.raises(ValueError, match="the work failed"):
        fail()
    with producer.transaction():
        producer.send(first, "kept")
    assert (values(kafka, first), values(kafka, second)) == (["kept"], [])
    assert values(kafka, first, committed_only=False) == ["lost", "kept"]
    assert values(kafka, second, committed_only=False) == ["lost"]
    with Consumer(kafka, first, [first]) as consumer:
        assert [record.value for record in polled(consumer, 1)] == [b"kept"]


@pytest.mark.parametrize("rows", [0, 1, 20_000])
def test_the_transaction_after_an_aborted_one_is_whole(kafka: Kafka, topic: Callable[..., str], rows: int) -> None:
    name = topic("after-abort", partitions=2)
    producer = TransactionalProducer(kafka, name)

    def fail() -> None:
        with producer.transaction():
            for number in range(rows):
                producer.send(name, f"lost {number}", str(number))
            raise ValueError("in the middle of sending")

    for number in range(5):
        with pytest.raises(ValueError, match="in the middle"):
            fail()
        with producer.transaction():
            producer.send(name, f"kept {number}", str(number))
    assert sorted(values(kafka, name)) == [f"kept {number}" for number in range(5)]


def test_a_row_that_the_broker_refuses_undoes_its_transaction_and_no_other(
    kafka: Kafka, topic: Callable[..., str]
) -> None:
    name = topic("refused")
    producer = TransactionalProducer(kafka, name)
    with producer.transaction():
        producer.send(name, "before")

    def send_too_much() -> None:
        with producer.transaction():
            producer.send(name, "beside it")
            producer.send(name, os.urandom(2 << 20))

    with pytest.raises(DeclarationError, match=name) as told:
        send_too_much()
    assert told.value.code == "message-too-large"
    with producer.transaction():
        producer.send(name, "after")
    assert values(kafka, name) == ["before", "after"]


def test_a_row_outside_a_transaction_is_refused_with_the_remedy(kafka: Kafka, topic: Callable[..., str]) -> None:
    name = topic("outside")
    producer = TransactionalProducer(kafka, name)
    with pytest.raises(DeclarationError, match="with producer") as told:
        producer.send(name, "too early")
    assert name in str(told.value)


def test_an_older_producer_of_the_same_id_is_fenced_and_told_why(kafka: Kafka, topic: Callable[..., str]) -> None:
    name = topic("fenced")
    zombie = TransactionalProducer(kafka, name)

    def work_of_the_zombie() -> None:
        with zombie.transaction():
            zombie.send(name, "of the zombie")
            zombie.flush()
            with TransactionalProducer(kafka, name) as newer, newer.transaction():
                newer.send(name, "of the newer")

    for _ in range(2):
        with pytest.raises(DeclarationError) as told:
            work_of_the_zombie()
        assert told.value.code == "producer-fenced"
        assert "Another producer has taken over" in str(told.value)
    assert values(kafka, name) == ["of the newer"]


@pytest.mark.parametrize("ending", ["commit", "abort"])
def test_a_reader_waits_for_a_transaction_that_is_open_rather_than_miss_rows(
    kafka: Kafka, topic: Callable[..., str], ending: str
) -> None:
    name = topic("open")
    producer, opened, end = TransactionalProducer(kafka, name), threading.Event(), threading.Event()
    found: list[dict[bytes, Record]] = []

    def hold_open() -> None:
        with suppress(InterruptedError), producer.transaction():
            producer.send(name, "in the open one", "a")
            producer.flush()
            opened.set()
            assert end.wait(60)
            if ending == "abort":
                raise InterruptedError

    holder = threading.Thread(target=hold_open)
    reader = threading.Thread(target=lambda: found.append(fold(kafka, name)))
    holder.start()
    assert opened.wait(30)
    with Producer(kafka) as plain:
        plain.send(name, "behind it", "b")
    reader.start()
    reader.join(2)
    assert found == []
    assert reader.is_alive()
    end.set()
    holder.join()
    reader.join(30)
    assert set(found[0]) == ({b"a", b"b"} if ending == "commit" else {b"b"})


def test_offsets_are_committed_with_the_rows_or_not_at_all(kafka: Kafka, topic: Callable[..., str]) -> None:
    source, target = topic("source", partitions=2), topic("target")
    fill(kafka, source, 20, 2)
    with Consumer(kafka, source, [source], commit=False) as consumer:
        producer = TransactionalProducer(kafka, source)

        def copy(fail: bool) -> None:
            with producer.transaction(consumer=consumer):
                for record in polled(consumer, 20):
                    producer.send(target, record.value)
                    consumer.done(record)
                if fail:
                    raise ValueError("after the last row")

        with pytest.raises(ValueError, match="after the last row"):
            copy(fail=True)
        assert (values(kafka, target), Topics(kafka).committed(source, source)) == ([], {})
        copy(fail=False)
        assert Topics(kafka).committed(source, source) == {0: 10, 1: 10}
        assert consumer.poll(0.5) is None
    assert sorted(values(kafka, target), key=int) == [str(number) for number in range(20)]


def test_kill_9_at_any_point_copies_every_row_exactly_once(kafka: Kafka, topic: Callable[..., str]) -> None:
    source, target = topic("input", partitions=3), topic("output", partitions=3)
    fill(kafka, source, 1500, 3)
    chance = random.Random(7)
    for stage in ("flushed", "begun", "flushed", "committed", "flushed", "begun", "flushed"):
        with Worker("copy", kafka.bootstrap, source, source, target) as worker:
            for _ in range(chance.randint(1, 15)):
                worker.wait_for(stage)
    ends = Topics(kafka).end_offsets(source)
    with Worker("copy", kafka.bootstrap, source, source, target):
        wait_until(lambda: Topics(kafka).committed(source, source) == ends, 60, "the whole input copied")
    out = list(read(kafka, target))
    for place in range(3):
        copied = [int(record.value or b"") for record in out if record.partition == place]
        assert copied == list(range(place, 1500, 3))
    assert len(values(kafka, target, committed_only=False)) > 1500  # some kill did hit an open transaction
