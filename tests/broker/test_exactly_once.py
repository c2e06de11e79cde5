"""Copying from topic to topic: each row is copied exactly once when blocks fail, commits fail and partitions move."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from penstock.broker import Consumer, Producer, Record, Topics, TransactionalProducer, read
from penstock.errors import DeclarationError, TransientError
from tests.broker.polling import polled
from tests.conftest import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.settings import Kafka

QUICK = {"heartbeat.interval.ms": 200}  # a member hears of a rebalance with a heartbeat


def fill(kafka: Kafka, name: str, numbers: Iterable[int], partitions: int = 1) -> None:
    with Producer(kafka) as producer:
        for number in numbers:
            producer.send(name, str(number), partition=number % partitions)


def copied(kafka: Kafka, name: str) -> list[int]:
    return sorted(int(record.value or b"") for record in read(kafka, name))


def assigned(consumer: Consumer) -> None:
    wait_until(lambda: consumer.poll(0.1) or consumer.assignment(), 30, "an assignment")


def copy(producer: TransactionalProducer, consumer: Consumer, target: str, records: list[Record]) -> None:
    for record in records:
        producer.send(target, record.value)
        consumer.done(record)


def copy_and_fail(producer: TransactionalProducer, consumer: Consumer, target: str, records: list[Record]) -> None:
    with producer.transaction(consumer=consumer):
        copy(producer, consumer, target, records)
        producer.flush()
        raise ValueError("first try")


@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_a_failed_block_brings_its_rows_again_to_a_group_that_never_committed(
    kafka: Kafka, topic: Callable[..., str], start: str
) -> None:
    source, target = topic("source"), topic("target")
    producer = TransactionalProducer(kafka, source)
    with Consumer(kafka, source, [source], start=start, commit=False) as consumer:
        assigned(consumer)
        fill(kafka, source, range(10))
        with pytest.raises(ValueError, match="first try"):
            copy_and_fail(producer, consumer, target, polled(consumer, 10))
        with producer.transaction(consumer=consumer):
            copy(producer, consumer, target, polled(consumer, 10))
    assert copied(kafka, target) == list(range(10))


def test_a_loop_goes_on_after_a_failed_block_and_skips_no_row(kafka: Kafka, topic: Callable[..., str]) -> None:
    source, target, group = topic("source", partitions=2), topic("target"), topic("group")
    fill(kafka, source, range(40), 2)
    producer, failing = TransactionalProducer(kafka, source), {3, 16, 17, 39}
    with Consumer(kafka, group, [source], commit=False) as consumer:
        for record in consumer.records(idle=lambda: Topics(kafka).committed(source, group) == {0: 20, 1: 20}):
            number = int(record.value or b"")
            try:
                with producer.transaction(consumer=consumer):
                    copy(producer, consumer, target, [record])
                    if number in failing:
                        raise ValueError("once for each of these")
            except ValueError:
                failing.remove(number)
    assert not failing
    assert copied(kafka, target) == list(range(40))


def test_a_commit_that_fails_takes_the_consumer_back_too(kafka: Kafka, topic: Callable[..., str]) -> None:
    source, target = topic("source"), topic("target")
    fill(kafka, source, range(10))
    old = TransactionalProducer(kafka, source)
    with Consumer(kafka, source, [source], commit=False) as consumer:

        def copy_and_lose_the_id() -> None:
            with old.transaction(consumer=consumer):
                copy(old, consumer, target, polled(consumer, 10))
                TransactionalProducer(kafka, source)

        with pytest.raises(DeclarationError) as told:
            copy_and_lose_the_id()
        assert told.value.code == "producer-fenced"
        new = TransactionalProducer(kafka, source)
        with new.transaction(consumer=consumer):
            copy(new, consumer, target, polled(consumer, 10))
        assert Topics(kafka).committed(source, source) == {0: 10}
    assert copied(kafka, target) == list(range(10))


def test_rows_held_over_a_failure_are_refused_not_copied_twice(kafka: Kafka, topic: Callable[..., str]) -> None:
    source, target = topic("source"), topic("target")
    fill(kafka, source, range(6))
    producer = TransactionalProducer(kafka, source)
    with Consumer(kafka, source, [source], commit=False) as consumer:
        held = polled(consumer, 6)
        with pytest.raises(ValueError, match="first try"):
            copy_and_fail(producer, consumer, target, held)
        for _ in range(2):
            with pytest.raises(TransientError, match="comes again"), producer.transaction(consumer=consumer):
                copy(producer, consumer, target, held)
        with producer.transaction(consumer=consumer):
            copy(producer, consumer, target, polled(consumer, 6))
    assert copied(kafka, target) == list(range(6))


def test_partitions_that_move_in_the_middle_undo_the_transaction(kafka: Kafka, topic: Callable[..., str]) -> None:
    source, target = topic("source", partitions=4), topic("target")
    fill(kafka, source, range(40), 4)
    producers = [TransactionalProducer(kafka, f"{source}-{number}") for number in (1, 2)]
    with Consumer(kafka, source, [source], commit=False, options=QUICK) as first, ExitStack() as later:
        members = [first]

        def copy_while_another_joins() -> None:
            with producers[0].transaction(consumer=first):
                copy(producers[0], first, target, polled(first, 40))
                members.append(later.enter_context(Consumer(kafka, source, [source], commit=False, options=QUICK)))
                wait_until(lambda: any(one.poll(0.1) for one in members) or len(first.assignment()) == 2, 30, "a move")

        with pytest.raises(TransientError) as told:
            copy_while_another_joins()
        assert told.value.code == "partitions-moved"
        assert Topics(kafka).committed(source, source) == {}
        members[1].rewind()
        for producer, consumer in zip(producers, members, strict=True):
            with producer.transaction(consumer=consumer):
                copy(producer, consumer, target, polled(consumer, 20))
    assert copied(kafka, target) == list(range(40))


def test_a_consumer_that_commits_by_itself_has_no_place_in_a_transaction(
    kafka: Kafka, topic: Callable[..., str]
) -> None:
    name = topic("by-itself")
    producer = TransactionalProducer(kafka, name)
    with Consumer(kafka, name, [name]) as consumer:
        with pytest.raises(DeclarationError, match="commit=False") as told, producer.transaction(consumer=consumer):
            producer.send(name, "never")
        assert name in str(told.value)
    with producer.transaction():  # the refused one was not begun
        producer.send(name, "row")
    assert [record.value for record in read(kafka, name)] == [b"row"]


def test_a_transaction_without_a_finished_row_commits_no_offset(kafka: Kafka, topic: Callable[..., str]) -> None:
    source, target = topic("source"), topic("target")
    fill(kafka, source, range(3))
    producer = TransactionalProducer(kafka, source)
    with Consumer(kafka, source, [source], commit=False) as consumer:
        polled(consumer, 3)
        with producer.transaction(consumer=consumer):
            producer.send(target, "7")
    assert copied(kafka, target) == [7]
    assert Topics(kafka).committed(source, source) == {}
