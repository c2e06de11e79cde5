"""What is sent arrives once and in order, and what can't arrive is told: against a real and a frozen broker."""

from __future__ import annotations

import json
import os
import signal
from collections import defaultdict
from dataclasses import replace
from functools import partial
from itertools import count, islice
from typing import TYPE_CHECKING, Any

import pytest

from penstock.broker import Producer, read
from penstock.errors import DeclarationError, TransientError
from tests.broker.batches import Batch, batches_on_disk
from tests.conftest import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.local.processes import Process
    from penstock.settings import Kafka
    from tests.conftest import Project


def values(kafka: Kafka, name: str) -> list[bytes | None]:
    return [record.value for record in read(kafka, name)]


def numbers_by_partition(kafka: Kafka, name: str) -> dict[int, list[int]]:
    found: dict[int, list[int]] = defaultdict(list)
    for record in read(kafka, name):
        found[record.partition].append(record.json())
    return found


def batches(platform: Project, name: str) -> list[Batch]:
    return batches_on_disk(platform.home / "data" / "kafka", name)


@pytest.fixture
def broker(platform: Project) -> Iterator[Process]:
    """The broker's process, awake again after the test whatever happens."""
    process = platform.processes()["kafka"]
    yield process
    process.signal(signal.SIGCONT)


class Timeouts:
    """Counts the requests that the client gave up and sends again."""

    def __init__(self) -> None:
        self.count = 0
        self.options = {
            "stats_cb": self._look,
            "statistics.interval.ms": 100,
            "request.timeout.ms": 1000,
            "socket.timeout.ms": 1000,
            "retry.backoff.ms": 50,
        }

    def _look(self, told: str) -> None:
        self.count = sum(one["req_timeouts"] for one in json.loads(told)["brokers"].values())


def test_a_broker_that_freezes_in_the_middle_gets_every_row_once_and_in_order(
    kafka: Kafka, topic: Callable[..., str], broker: Process
) -> None:
    name, timeouts, sent = topic("frozen", partitions=3), Timeouts(), count()
    with Producer(kafka, options=timeouts.options | {"linger.ms": 1}) as producer:

        def send(rows: int) -> bool:
            for number in islice(sent, rows):
                producer.send(name, number, partition=number % 3)
            return True

        def given_up(known: int) -> bool:
            send(30)
            return timeouts.count > known

        for _ in range(2):
            send(300)
            producer.flush()
            known = timeouts.count
            send(3000)  # in flight when the broker freezes
            broker.signal(signal.SIGSTOP)
            wait_until(partial(given_up, known), 30, "a request given up")
            broker.signal(signal.SIGCONT)
    total = next(sent)
    assert numbers_by_partition(kafka, name) == {place: list(range(place, total, 3)) for place in range(3)}


def test_a_flush_that_gave_up_can_be_asked_again_and_nothing_is_missing(
    kafka: Kafka, topic: Callable[..., str], broker: Process
) -> None:
    name = topic("slow")
    producer = Producer(kafka)
    producer.send(name, 0)
    producer.flush()
    broker.signal(signal.SIGSTOP)
    for number in range(1, 50):
        producer.send(name, number)
    with pytest.raises(TransientError) as told:
        producer.flush(0.5)
    assert "49 records" in str(told.value)
    assert "flush again" in str(told.value)
    broker.signal(signal.SIGCONT)
    producer.flush()
    assert numbers_by_partition(kafka, name) == {0: list(range(50))}


def test_rows_go_in_compressed_batches_of_an_idempotent_producer(
    kafka: Kafka, topic: Callable[..., str], platform: Project
) -> None:
    name = topic("batched")
    with Producer(kafka) as producer:
        for number in range(20_000):
            producer.send(name, {"order_id": number, "status": "created", "note": "the same words again"})
    found = batches(platform, name)
    assert sum(batch.records for batch in found) == 20_000
    assert {batch.codec for batch in found} == {"lz4"}
    assert len(found) < 200
    assert len({batch.producer_id for batch in found}) == 1
    assert found[0].producer_id >= 0
    assert [batch.sequence for batch in found] == [sum(one.records for one in found[:at]) for at in range(len(found))]


def test_options_of_the_profile_and_of_the_call_are_heeded(
    kafka: Kafka, topic: Callable[..., str], platform: Project
) -> None:
    profile, call = topic("profile"), topic("call")
    own = replace(kafka, python_options={"compression.type": "gzip"})
    with Producer(own) as producer:
        producer.send(profile, "words " * 1000)
    with Producer(own, options={"compression.type": "zstd"}) as producer:
        producer.send(call, "words " * 1000)
    assert [batches(platform, name)[0].codec for name in (profile, call)] == ["gzip", "zstd"]


@pytest.mark.parametrize(
    ("options", "named"),
    [({"acks": 1}, "acks"), ({"no.such.option": 1}, "no.such.option"), ({"compression.type": "rar"}, "rar")],
)
def test_an_option_that_can_not_be_is_one_sentence(kafka: Kafka, options: dict[str, Any], named: str) -> None:
    with pytest.raises(DeclarationError) as told:
        Producer(kafka, options=options)
    assert named in str(told.value)
    assert "KafkaError" not in str(told.value)


def test_a_row_that_is_too_large_is_told_and_its_neighbours_arrive(kafka: Kafka, topic: Callable[..., str]) -> None:
    name = topic("large", config={"max.message.bytes": "700000"})
    producer = Producer(kafka)
    for number in range(1000):
        producer.send(name, number)
        if number == 500:
            producer.send(name, os.urandom(800_000))
    with pytest.raises(DeclarationError) as told:
        producer.flush()
    assert "1 record(s)" in str(told.value)
    assert name in str(told.value)
    assert "max.message.bytes" in str(told.value)
    producer.flush()  # told once
    assert numbers_by_partition(kafka, name) == {0: list(range(1000))}


def test_a_row_just_under_the_limit_arrives(kafka: Kafka, topic: Callable[..., str]) -> None:
    name, row = topic("just-under", config={"max.message.bytes": str(8 << 20)}), os.urandom((8 << 20) - 200)
    with Producer(kafka) as producer:
        producer.send(name, row)
    assert values(kafka, name) == [row]


def test_a_row_larger_than_the_whole_queue_is_refused_at_once(kafka: Kafka, topic: Callable[..., str]) -> None:
    name = topic("larger-than-queue")
    with Producer(kafka, options={"queue.buffering.max.kbytes": 100}) as producer:
        producer.send(name, "small")
        with pytest.raises(DeclarationError, match=r"queue\.buffering\.max\.kbytes") as told:
            producer.send(name, os.urandom(300 << 10))
    assert name in str(told.value)
    assert values(kafka, name) == [b"small"]


def test_a_topic_that_does_not_exist_is_told_and_the_others_get_their_rows(
    kafka: Kafka, topic: Callable[..., str]
) -> None:
    name = topic("exists")
    producer = Producer(kafka, options={"topic.metadata.propagation.max.ms": 1000})
    for number in range(100):
        producer.send(name, number)
        producer.send("no-such-topic-a", number)
        producer.send("no-such-topic-b", number)
    with pytest.raises(DeclarationError) as told:
        producer.flush()
    assert "200 record(s) to no-such-topic-a, no-such-topic-b were not delivered" in str(told.value)
    assert "penstock topics create" in str(told.value)
    assert numbers_by_partition(kafka, name) == {0: list(range(100))}


def test_a_full_queue_makes_send_wait_and_loses_nothing(kafka: Kafka, topic: Callable[..., str]) -> None:
    name = topic("back-pressure")
    with Producer(kafka, options={"queue.buffering.max.messages": 10, "linger.ms": 1}) as producer:
        for number in range(3000):
            producer.send(name, number)
    assert numbers_by_partition(kafka, name) == {0: list(range(3000))}


def test_an_error_in_the_block_does_not_drop_what_was_sent_before_it(kafka: Kafka, topic: Callable[..., str]) -> None:
    name = topic("before-the-error")

    def send_and_fail() -> None:
        with Producer(kafka) as producer:
            for number in range(100):
                producer.send(name, number)
            raise ValueError("the row after these")

    with pytest.raises(ValueError, match="the row after these"):
        send_and_fail()
    assert numbers_by_partition(kafka, name) == {0: list(range(100))}


def test_the_end_of_the_block_tells_of_rows_that_were_not_delivered(kafka: Kafka, topic: Callable[..., str]) -> None:
    name = topic("end-of-block")
    with pytest.raises(DeclarationError, match=name), Producer(kafka) as producer:
        producer.send(name, os.urandom(2 << 20))


def test_headers_times_keys_and_values_arrive_as_they_were_given(kafka: Kafka, topic: Callable[..., str]) -> None:
    name = topic("exact", config={"retention.ms": "-1"})  # the row of 2009 would be gone soon
    headers = [("trace", b"\x00\xff"), ("trace", b"again"), ("empty", b""), ("none", None), ("ключ", "ü".encode())]
    with Producer(kafka) as producer:
        producer.send(name, b"\x00raw", b"\xffkey", headers=headers, timestamp_ms=1_234_567_890_123)
        producer.send(name, "", "")
        producer.send(name, None, "tombstone")
        producer.send(name, {"ü": [1, None, True]}, 7)
        producer.send(name, "no key")
    rows = list(read(kafka, name))
    assert [(row.key, row.value) for row in rows] == [
        (b"\xffkey", b"\x00raw"),
        (b"", b""),
        (b"tombstone", None),
        (b"7", '{"ü":[1,null,true]}'.encode()),
        (None, b"no key"),
    ]
    assert rows[0].headers == tuple(headers)
    assert rows[0].timestamp == 1_234_567_890_123
    assert rows[1].headers == ()
    assert rows[1].timestamp > 1_700_000_000_000


def test_many_records_go_through_a_small_queue(kafka: Kafka, topic: Callable[..., str]) -> None:
    name = topic("many", partitions=2)
    values = [f"value {number}" for number in range(5000)]
    with Producer(kafka, options={"queue.buffering.max.messages": 300}) as producer:
        producer.send_many(name, [f"key {number % 7}" for number in range(5000)], values)
        producer.send_many(name, [], [])
    found = list(read(kafka, name))
    assert sorted(record.value.decode() for record in found if record.value) == sorted(values)
    by_key: dict[bytes | None, list[int]] = {}
    for record in found:
        by_key.setdefault(record.key, []).append(int((record.value or b"").split()[1]))
    assert all(numbers == sorted(numbers) for numbers in by_key.values())


def test_many_records_of_one_partition_keep_their_order(kafka: Kafka, topic: Callable[..., str]) -> None:
    name = topic("placed", partitions=3)
    with Producer(kafka, options={"queue.buffering.max.messages": 300}) as producer:
        for part in range(3):
            producer.send_many(name, None, [f"{part} {number}" for number in range(1000)], partition=part)
        with pytest.raises(DeclarationError):
            producer.send_many(name, None, ["nowhere"], partition=-1)
    found = [(record.partition, record.key, (record.value or b"").decode()) for record in read(kafka, name)]
    assert sorted(found) == sorted((part, None, f"{part} {number}") for part in range(3) for number in range(1000))
    for part in range(3):
        numbers = [int(value.split()[1]) for place, _, value in found if place == part]
        assert numbers == list(range(1000))
