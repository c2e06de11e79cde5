"""Keys lie where the Java client puts them, a region stays together, counts and hot keys are told with reasons."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.broker import Producer, Record, TransactionalProducer, java_partition, murmur2, partition_by, read
from penstock.broker.partitions import hot_keys, size
from penstock.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.settings import Kafka

JAVA_VECTORS = {  # UtilsTest.testMurmur2 of Apache Kafka
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}
KEYS = [
    b"",
    b"\0",
    b"\xff",
    b" ",
    bytes(range(256)),
    "ключ".encode(),
    "日本語".encode(),
    "🚰🚰🚰".encode(),
    b"x" * 100_000,
    *JAVA_VECTORS,
    *(b"\x80" * length for length in range(2, 24)),  # every length of a tail, with the sign bit set
    *(f"customer-{number}".encode() for number in range(400)),
]


def signed(value: int) -> int:
    return value - (1 << 32) if value >= 1 << 31 else value


@pytest.mark.parametrize("key", JAVA_VECTORS)
def test_murmur2_is_that_of_the_java_client(key: bytes) -> None:
    assert signed(murmur2(key)) == JAVA_VECTORS[key]


def test_the_broker_holds_every_key_where_the_java_client_would_put_it(kafka: Kafka, topic: Callable[..., str]) -> None:
    name = topic("placed", partitions=7)
    with Producer(kafka) as producer:
        for key in KEYS:
            producer.send(name, "row", key)
    placed = {record.key: record.partition for record in read(kafka, name)}
    assert placed == {key: java_partition(key, 7) for key in KEYS}
    assert set(placed.values()) == set(range(7))


def test_a_transaction_places_keys_the_same_way(kafka: Kafka, topic: Callable[..., str]) -> None:
    name = topic("placed-in-transaction", partitions=5)
    producer = TransactionalProducer(kafka, name)
    with producer.transaction():
        for key in KEYS:
            producer.send(name, "row", key)
    assert {one.key: one.partition for one in read(kafka, name)} == {key: java_partition(key, 5) for key in KEYS}


def test_text_numbers_and_bytes_of_the_same_key_meet_in_one_partition(kafka: Kafka, topic: Callable[..., str]) -> None:
    name = topic("same-key", partitions=11)
    with Producer(kafka) as producer:
        for key in ("42", 42, b"42"):
            producer.send(name, "row", key)
    assert [(one.key, one.partition) for one in read(kafka, name)] == [(b"42", java_partition(b"42", 11))] * 3


def test_rows_without_a_key_all_arrive(kafka: Kafka, topic: Callable[..., str]) -> None:
    name = topic("keyless", partitions=3)
    with Producer(kafka) as producer:
        for number in range(2000):
            producer.send(name, number)
    assert sorted(record.json() for record in read(kafka, name)) == list(range(2000))


def test_a_partitioner_by_region_keeps_a_region_together_and_in_order(kafka: Kafka, topic: Callable[..., str]) -> None:
    name = topic("regions", partitions=6)
    regions = ["eu", "us", "asia", "africa", "北海道", None]
    with Producer(kafka, partitioner=partition_by(lambda row: row["region"])) as producer:
        for number in range(600):
            producer.send(name, {"region": regions[number % 6], "n": number}, f"customer-{number % 50}")
    rows = list(read(kafka, name))
    assert len(rows) == 600
    for number, region in enumerate(regions):
        of_region = [record for record in rows if record.json()["region"] == region]
        assert {record.partition for record in of_region} == {java_partition(str(region).encode(), 6)}
        assert [record.json()["n"] for record in of_region] == list(range(number, 600, 6))


def test_a_partition_named_in_the_call_wins_over_the_partitioner(kafka: Kafka, topic: Callable[..., str]) -> None:
    name = topic("named", partitions=4)
    with Producer(kafka, partitioner=lambda _key, _value, _count: 1) as producer:
        producer.send(name, "chosen", partition=3)
        producer.send(name, "placed")
    assert {record.value: record.partition for record in read(kafka, name)} == {b"chosen": 3, b"placed": 1}


@pytest.mark.parametrize("wrong", [-7, -1, 4, 99])
def test_a_partitioner_that_names_no_partition_is_told_and_loses_only_its_row(
    kafka: Kafka, topic: Callable[..., str], wrong: int
) -> None:
    name = topic("misplaced", partitions=4)
    producer = Producer(kafka, partitioner=lambda _key, value, _count: wrong if value == "lost" else 0)
    producer.send(name, "before")

    def send_astray() -> None:
        producer.send(name, "lost")
        producer.flush()

    with pytest.raises(DeclarationError, match="partition") as told:
        send_astray()
    assert name in str(told.value)
    producer.send(name, "after")
    producer.flush()
    assert [record.value for record in read(kafka, name)] == [b"before", b"after"]


@pytest.mark.parametrize(
    ("throughput", "consumers", "partitions"),
    [
        (80, 4, 16),  # 80 / 5 MB/s of a consumer
        (80, 5, 20),  # 16, rounded up to a multiple of the consumers
        (1, 1, 2),  # room to grow decides
        (1, 6, 12),
        (0.1, 3, 6),
        (5.1, 1, 2),
        (10.1, 1, 3),
        (1000, 7, 203),
    ],
)
def test_size_is_enough_for_each_reason_and_even_among_the_consumers(
    throughput: float, consumers: int, partitions: int
) -> None:
    assert size(throughput, consumers).partitions == partitions


def test_size_shows_its_reckoning_and_warns_of_growing_later() -> None:
    answer = size(80, 5)
    produced, consumed, room, largest = answer.reasons
    assert "80 MB/s / 10 MB/s per partition = 8" in produced
    assert "80 MB/s / 5 MB/s per partition = 16" in consumed
    assert "10 to 15" in room
    assert "multiple of 5" in largest
    assert "20" in largest
    assert "moves keys" in answer.warning


def sample(counts: dict[bytes | None, int]) -> list[Record]:
    return [Record("t", 0, 0, 0, key, b"row") for key, count in counts.items() for _ in range(count)]


def test_a_hot_key_of_a_real_topic_is_named_with_its_share_and_partition(
    kafka: Kafka, topic: Callable[..., str]
) -> None:
    name = topic("hot", partitions=4)
    with Producer(kafka) as producer:
        for number in range(1000):
            producer.send(name, "row", "whale" if number % 10 else f"minnow-{number}")
    looked_at, (hot,) = hot_keys(read(kafka, name))
    assert (looked_at, hot.key, hot.count) == (1000, b"whale", 900)
    assert hot.share == pytest.approx(0.9)
    assert hot.partition == java_partition(b"whale", 4)


@pytest.mark.parametrize(
    ("counts", "hot"),
    [
        ({}, []),
        ({b"only": 50}, [b"only"]),
        ({b"a": 99, b"b": 1}, [b"a"]),
        ({b"a": 50, b"b": 50}, []),
        ({None: 900, b"a": 50, b"b": 50}, []),
        ({f"k{number}".encode(): 10 for number in range(1000)}, []),
        ({b"warm": 30, **{f"k{number}".encode(): 1 for number in range(970)}}, [b"warm"]),
    ],
    ids=["empty", "one key", "two keys, one hot", "two even keys", "no key is no hot key", "many even keys", "3 %"],
)
def test_a_key_is_hot_when_it_has_far_more_than_its_share(counts: dict[bytes | None, int], hot: list[bytes]) -> None:
    looked_at, found = hot_keys(sample(counts))
    assert looked_at == sum(counts.values())
    assert [one.key for one in found] == hot
