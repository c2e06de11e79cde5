"""An offset is committed after the work and never before, whoever dies: the worker, the group's balance, the broker."""

from __future__ import annotations

import random
import signal
import time
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from penstock.broker import Consumer, Producer, Record, Topics
from penstock.errors import DeclarationError, StateError
from penstock.local.progress import Silent
from tests.broker.killing import Worker
from tests.broker.polling import polled
from tests.conftest import Project, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from penstock.settings import Kafka

HOUR_AGO = int(time.time() * 1000) - 3_600_000
QUICK = {"heartbeat.interval.ms": 200, "session.timeout.ms": 6000}


def fill(kafka: Kafka, name: str, numbers: Iterable[int], partitions: int = 1) -> None:
    with Producer(kafka) as producer:
        for number in numbers:
            producer.send(name, str(number), partition=number % partitions, timestamp_ms=HOUR_AGO + number)


def number_of(record: Record) -> int:
    return int(record.value or b"")


def take(consumer: Consumer, count: int) -> list[int]:
    """Work on so many records; less if no more come."""
    seen: list[int] = []
    late = time.monotonic() + 60
    for record in consumer.records(idle=lambda: time.monotonic() > late):
        seen.append(number_of(record))
        if len(seen) == count:
            consumer.done(record)
            break
    return seen


def take_until(consumer: Consumer, last: int) -> list[int]:
    """Work on all records up to that one."""
    seen: list[int] = []
    while last not in seen and (more := take(consumer, 1)):
        seen += more
    return seen


def nothing_comes(consumer: Consumer) -> bool:
    return next(consumer.records(idle=lambda: True), None) is None


def assigned(consumer: Consumer, partitions: int = 1) -> None:
    wait_until(lambda: consumer.poll(0.1) is None and len(consumer.assignment()) == partitions, 30, "an assignment")


def test_kill_9_never_leaves_an_offset_committed_before_the_work_on_it_is_done(
    kafka: Kafka, topic: Callable[..., str], tmp_path: Path
) -> None:
    name, file, total = topic("killed"), tmp_path / "done", 20_000
    fill(kafka, name, range(total))
    chance, commits = random.Random(11), []
    for _ in range(6):
        with Worker("append", kafka.bootstrap, name, name, str(file), "static") as worker:
            worker.wait_for("done")
            end = time.monotonic() + chance.uniform(0.1, 1.9)
            while time.monotonic() < end:
                worker.wait_for("done")
        done = {int(line) for line in file.read_text().splitlines()}
        commits.append(Topics(kafka).committed(name, name).get(0, 0))
        assert set(range(commits[-1])) <= done
    assert commits == sorted(commits)
    assert commits[-1] > 0  # the kills did hit workers that had committed
    assert commits[-1] < total
    with Consumer(kafka, name, [name], options={"group.instance.id": "worker"}) as consumer:
        assert take(consumer, total - commits[-1]) == list(range(commits[-1], total))
    assert set(range(max(done) + 1)) == done


def test_no_offset_is_committed_while_the_work_on_it_goes_on(
    kafka: Kafka, topic: Callable[..., str], tmp_path: Path
) -> None:
    name, file = topic("stuck"), tmp_path / "done"
    fill(kafka, name, range(50))
    with Worker("append", kafka.bootstrap, name, name, str(file), "static", "stuck:30") as worker:
        worker.wait_for("stuck")
        end = time.monotonic() + 2.5  # long enough for a commit to fall due
        while time.monotonic() < end:
            assert Topics(kafka).committed(name, name).get(0, 0) <= 30
    assert [int(line) for line in file.read_text().splitlines()] == list(range(30))
    with Consumer(kafka, name, [name], options={"group.instance.id": "worker"}) as consumer:
        assert take(consumer, 50)[30] == 30


def test_the_living_member_gets_what_a_killed_one_had_in_hand(
    kafka: Kafka, topic: Callable[..., str], tmp_path: Path
) -> None:
    name, file = topic("inherited", partitions=2), tmp_path / "done"
    fill(kafka, name, range(2000), 2)
    with Worker("append", kafka.bootstrap, name, name, str(file)) as worker:
        for _ in range(300):
            worker.wait_for("done")
    with Consumer(kafka, name, [name], options=QUICK) as heir:
        committed = sum(Topics(kafka).committed(name, name).values())
        inherited = take(heir, 2000 - committed)
    done = [int(line) for line in file.read_text().splitlines()]
    assert len(done) >= 300
    assert {*done, *inherited} == set(range(2000))


def test_a_group_goes_on_where_it_was_closed(kafka: Kafka, topic: Callable[..., str]) -> None:
    name = topic("closed")
    fill(kafka, name, range(100))
    for first in range(0, 100, 25):
        with Consumer(kafka, name, [name]) as consumer:
            assert take(consumer, 25) == list(range(first, first + 25))
    assert Topics(kafka).committed(name, name) == {0: 100}


def test_a_record_left_by_break_is_not_done_and_begins_the_next_loop(kafka: Kafka, topic: Callable[..., str]) -> None:
    name = topic("broken-off")
    fill(kafka, name, range(10))
    with Consumer(kafka, name, [name]) as consumer:
        for record in consumer:
            if number_of(record) == 4:
                break
        consumer.commit()
        assert Topics(kafka).committed(name, name) == {0: 4}
        assert take(consumer, 2) == [4, 5]
    assert Topics(kafka).committed(name, name) == {0: 6}


def test_a_record_whose_work_failed_comes_again(kafka: Kafka, topic: Callable[..., str]) -> None:
    name = topic("failed")
    fill(kafka, name, range(10))

    def work() -> None:
        with Consumer(kafka, name, [name]) as consumer:
            for record in consumer:
                if number_of(record) == 7:
                    raise ValueError("the work failed")

    for _ in range(2):
        with pytest.raises(ValueError, match="the work failed"):
            work()
        assert Topics(kafka).committed(name, name) == {0: 7}


def test_only_what_was_called_done_is_committed_when_polling(kafka: Kafka, topic: Callable[..., str]) -> None:
    name = topic("polled")
    fill(kafka, name, range(10))
    with Consumer(kafka, name, [name]) as consumer:
        records = polled(consumer, 5)
        consumer.commit()
        assert Topics(kafka).committed(name, name) == {}
        for record in (records[2], records[0]):  # one that is done tells of all before it
            consumer.done(record)
    assert Topics(kafka).committed(name, name) == {0: 3}


def test_a_second_member_gets_its_share_while_the_first_works_on(kafka: Kafka, topic: Callable[..., str]) -> None:
    name, seen, held = topic("shared", partitions=6), [], []
    fill(kafka, name, range(1200), 6)

    def work(*consumers: Consumer) -> int:
        for consumer in consumers:
            for record in filter(None, (consumer.poll(0.02) for _ in range(5))):
                seen.append(number_of(record))
                consumer.done(record)
        held.append(set(consumers[0].assignment()))
        return len(seen)

    with Consumer(kafka, name, [name], options=QUICK) as first:
        wait_until(lambda: work(first) >= 50)
        before = len(held)
        with Consumer(kafka, name, [name], options=QUICK) as second:
            wait_until(lambda: work(first, second) and len(second.assignment()) == 3)
            kept = set(first.assignment())
            assert len(kept) == 3
            assert kept.isdisjoint(second.assignment())
            assert all(kept <= now for now in held[before:])  # never without them, as an eager rebalance would be
            fill(kafka, name, range(1200, 1260), 6)
            wait_until(lambda: work(first, second) >= 1000)
        wait_until(lambda: work(first) >= 1260)
        assert len(first.assignment()) == 6
        assert nothing_comes(first)
    assert sorted(seen) == list(range(1260))
    assert sum(Topics(kafka).committed(name, name).values()) == 1260


def test_replay_from_an_offset_and_from_a_time(kafka: Kafka, topic: Callable[..., str]) -> None:
    name = topic("again")
    fill(kafka, name, range(50))
    with Consumer(kafka, name, [name]) as consumer:
        take(consumer, 50)
        consumer.seek(name, 0, 30)
        assert take(consumer, 20) == list(range(30, 50))
        consumer.seek_to_time(HOUR_AGO + 10)
        assert take(consumer, 40) == list(range(10, 50))
        consumer.seek_to_time(HOUR_AGO + 2000)
        assert nothing_comes(consumer)
        consumer.seek(name, 0, 0)
        assert take(consumer, 5) == list(range(5))
    assert Topics(kafka).committed(name, name) == {0: 5}


def test_a_seek_right_after_the_assignment_is_heeded(kafka: Kafka, topic: Callable[..., str]) -> None:
    name = topic("sought", partitions=3)
    fill(kafka, name, range(30), 3)
    with Consumer(kafka, name, [name], start="latest") as consumer:
        assigned(consumer, 3)
        consumer.seek_to_time(HOUR_AGO + 15)
        assert sorted(take(consumer, 15)) == list(range(15, 30))


@pytest.mark.parametrize("seek", [lambda one: one.seek("elsewhere", 3, 0), lambda one: one.seek_to_time(0)])
def test_a_seek_in_a_partition_that_is_not_ours_is_one_sentence(
    kafka: Kafka, topic: Callable[..., str], seek: Callable[[Consumer], None]
) -> None:
    name = topic("not-ours")
    with Consumer(kafka, name, [name]) as consumer, pytest.raises(DeclarationError, match="does not have") as told:
        seek(consumer)
    assert "assignment" in str(told.value)


def test_latest_begins_with_new_rows_and_only_where_nothing_is_committed(
    kafka: Kafka, topic: Callable[..., str]
) -> None:
    name = topic("latest")
    fill(kafka, name, range(10))
    with Consumer(kafka, name, [name], start="latest") as consumer:
        assigned(consumer)

        def comes() -> bool:  # it asks for the end some time after it is assigned: rows before that are not new
            fill(kafka, name, [10])
            return consumer.poll(0.5) is not None

        wait_until(comes, 60, "a new row comes")
        fill(kafka, name, [11])
        assert set(take_until(consumer, 11)) == {10, 11}
    fill(kafka, name, range(12, 14))
    with Consumer(kafka, name, [name], start="latest") as consumer:
        assert take(consumer, 2) == [12, 13]


@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_rows_that_retention_took_before_they_were_read_are_told_not_skipped(
    kafka: Kafka, topic: Callable[..., str], start: str
) -> None:
    name = topic("overtaken")
    fill(kafka, name, range(100))
    with Consumer(kafka, name, [name]) as consumer:
        take(consumer, 10)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    for answer in admin.delete_records([TopicPartition(name, 0, 60)]).values():
        answer.result(10)
    with Consumer(kafka, name, [name], start=start) as consumer:
        with pytest.raises(StateError) as told:
            take(consumer, 1)
        assert all(word in str(told.value) for word in (name, "Partition 0", "offset 10", "seek"))
        consumer.seek(name, 0, 60)
        assert take(consumer, 40) == list(range(60, 100))


def test_a_topic_that_does_not_exist_is_named(kafka: Kafka) -> None:
    with Consumer(kafka, "group", ["no-such-topic"]) as consumer, pytest.raises(DeclarationError) as told:
        take(consumer, 1)
    assert "no-such-topic" in str(told.value)
    assert "penstock topics" in str(told.value)


def test_a_start_that_is_none_is_refused(kafka: Kafka) -> None:
    with pytest.raises(DeclarationError, match="'earliest' or 'latest'"):
        Consumer(kafka, "group", ["topic"], start="middle")


def test_a_broker_that_dies_and_comes_back_costs_no_row(
    platform: Project, kafka: Kafka, topic: Callable[..., str]
) -> None:
    name = topic("restarted", partitions=2)
    fill(kafka, name, range(400), 2)
    with Consumer(kafka, name, [name]) as consumer:
        seen = take(consumer, 200)
        broker = platform.processes()["kafka"]
        broker.signal(signal.SIGKILL)
        assert broker.wait(20)
        away = time.monotonic() + 3
        while time.monotonic() < away:  # long enough for a commit to fall due
            if record := consumer.poll(0.1):
                seen.append(number_of(record))
                consumer.done(record)
        platform.stack.up(("kafka",), Silent())
        fill(kafka, name, range(400, 600), 2)
        seen += take(consumer, 600 - len(seen))
    assert sorted(seen) == list(range(600))
    assert Topics(kafka).committed(name, name) == {0: 300, 1: 300}
