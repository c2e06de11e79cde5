"""Which partition a key goes to, how many a topic needs, and which keys are hot."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.broker.record import Record

__all__ = ["HotKey", "Sizing", "hot_keys", "java_partition", "murmur2", "partition_by", "size"]

_PRODUCER_MB_PER_S = 10
_CONSUMER_MB_PER_S = 5
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Kafka's 32-bit murmur2, as the Java client computes it, without a sign."""
    multiplier = 0x5BD1E995
    value = (0x9747B28C ^ len(data)) & _MASK
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * multiplier & _MASK
        word = (word ^ word >> 24) * multiplier & _MASK
        value = value * multiplier & _MASK ^ word
    if tail := data[whole:]:
        value = (value ^ int.from_bytes(tail, "little")) * multiplier & _MASK
    value = (value ^ value >> 13) * multiplier & _MASK
    return value ^ value >> 15


def java_partition(key: bytes, partitions: int) -> int:
    """The partition that the Java client's default partitioner gives a key."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def partition_by(choose: Callable[[Any], Any]) -> Callable[[bytes | None, Any, int], int]:
    """A partitioner that keeps together all values with the same answer, say the same region."""

    def place(_key: bytes | None, value: Any, partitions: int) -> int:
        return java_partition(str(choose(value)).encode(), partitions)

    return place


@dataclass(frozen=True)
class Sizing:
    """A partition count with its reasoning."""

    partitions: int
    reasons: tuple[str, ...]
    warning: str


def size(throughput: float, consumers: int) -> Sizing:
    """How many partitions carry so many MB/s to so many consumers."""
    produce = ceil(throughput / _PRODUCER_MB_PER_S)
    consume = ceil(throughput / _CONSUMER_MB_PER_S)
    least = max(produce, consume, 2 * consumers, 1)
    even = ceil(least / consumers) * consumers
    return Sizing(
        even,
        (
            f"producing: {throughput:g} MB/s / {_PRODUCER_MB_PER_S} MB/s per partition = {produce}",
            f"consuming: {throughput:g} MB/s / {_CONSUMER_MB_PER_S} MB/s per partition = {consume}",
            f"room to grow: 2 to 3 partitions per consumer = {2 * consumers} to {3 * consumers}",
            f"the largest of these, as a multiple of {consumers} so that each consumer has as many: {even}",
        ),
        "Adding partitions later moves keys to other partitions: rows of one key are then no longer in one order."
        " Choose enough now, or drain the topic before you add some.",
    )


@dataclass(frozen=True)
class HotKey:
    """A key with more than its even share of a sample."""

    key: bytes | None
    count: int
    share: float
    partition: int


def hot_keys(sample: Iterable[Record], most: int = 5) -> tuple[int, list[HotKey]]:
    """The size of a sample and its hottest keys: twice the even share and 1 % at least, or more than half of all."""
    counts: Counter[tuple[bytes | None, int]] = Counter((record.key, record.partition) for record in sample)
    total = sum(counts.values())
    floor = max(2 / len(counts), 0.01) if counts else 1.0
    ranked = [
        HotKey(key, count, count / total, place)
        for (key, place), count in counts.most_common(most)
        if key is not None and (count / total >= floor or count / total > 0.5)
    ]
    return total, ranked
