"""Nexmark's events: people, auctions and bids, 1 : 3 : 46; all of an event follows from its number and a seed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["END_MS", "TABLES", "Shape", "end_of", "rows"]

Numbers: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.int64]]"

BEGIN_MS = 1_767_225_600_000  # 2026-01-01
END_MS = 1_782_864_000_000  # 2026-07-01: the last row of each partition, after which every window is closed
PEOPLE, AUCTIONS, BIDS = 1, 3, 46
ALL = PEOPLE + AUCTIONS + BIDS
FIRST_ID, FIRST_CATEGORY, CATEGORIES = 1000, 10, 5
HOT_STEP = 100  # every hundredth person and auction is a hot one for a while
TIME = pa.timestamp("ms", "UTC")

_FIRST = ["Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter"]
_LAST = ["Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris"]
_PLACES = [
    ("Phoenix", "AZ"),
    ("Los Angeles", "CA"),
    ("San Francisco", "CA"),
    ("Boise", "ID"),
    ("Portland", "OR"),
    ("Bend", "OR"),
    ("Redmond", "WA"),
    ("Seattle", "WA"),
    ("Kent", "WA"),
    ("Cheyenne", "WY"),
]
_HOT_CHANNELS = ["Google", "Facebook", "Baidu", "Apple"]


@dataclass(frozen=True)
class Shape:
    """What kind of stream: events a second of event time, how many people and auctions are active, how mixed up."""

    seed: int = 1
    per_second: int = 1000
    people: int = 1000
    auctions: int = 100
    hot_bidders: int = 4  # all but one of so many bids are of the hot person, 1: none
    hot_auctions: int = 2
    disorder: int = 1  # rows are mixed up within groups of so many


def rows(table: str, first: int, last: int, shape: Shape, step: int = 1) -> pa.Table:
    """The rows of a table from one to another by their place among its rows."""
    share, begin, make = TABLES[table]
    place = _mixed(np.arange(first, last, step, dtype=np.int64), shape.disorder)
    number = place // share * ALL + begin + place % share
    return make(number, shape, _times(number, shape))


def end_of(table: str, shape: Shape) -> pa.Table:
    """One row of a time long after all others."""
    _, begin, make = TABLES[table]
    return make(np.array([begin], dtype=np.int64), shape, np.array([END_MS], dtype=np.int64))


def _times(number: Numbers, shape: Shape) -> Numbers:
    return BEGIN_MS + number * 1000 // shape.per_second


def _people(number: Numbers, shape: Shape, at: Numbers) -> pa.Table:
    chance = _Chance(number, shape.seed)
    first, last = chance.below(len(_FIRST)), chance.below(len(_LAST))
    place = chance.below(len(_PLACES))
    name = first * len(_LAST) + last
    return pa.table(
        {
            "id": FIRST_ID + number // ALL,
            "name": _taken([f"{one} {two}" for one in _FIRST for two in _LAST], name),
            "emailAddress": _taken([f"{one}.{two}@example.com".lower() for one in _FIRST for two in _LAST], name),
            "creditCard": _taken(_cards(), chance.below(1000)),
            "city": _taken([city for city, _ in _PLACES], place),
            "state": _taken([state for _, state in _PLACES], place),
            "dateTime": _time(at),
            "extra": chance.text(90),
        }
    )


def _auctions(number: Numbers, shape: Shape, at: Numbers) -> pa.Table:
    chance = _Chance(number, shape.seed)
    newest = number // ALL
    hot = chance.below(4) > 0
    seller = np.where(hot, newest // HOT_STEP * HOT_STEP, newest - chance.below(shape.people) % (newest + 1))
    initial = chance.price()
    return pa.table(
        {
            "id": FIRST_ID + _auction_of(number),
            "itemName": chance.text(20),
            "description": chance.text(80),
            "initialBid": initial,
            "reserve": initial + chance.price(),
            "dateTime": _time(at),
            "expires": _time(at + 1 + chance.below(20_000)),
            "seller": FIRST_ID + seller,
            "category": FIRST_CATEGORY + chance.below(CATEGORIES),
            "extra": chance.text(120),
        }
    )


def _bids(number: Numbers, shape: Shape, at: Numbers) -> pa.Table:
    chance = _Chance(number, shape.seed)
    person, auction = number // ALL, _auction_of(number)
    hot = chance.below(shape.hot_auctions) > 0
    about = np.where(hot, auction // HOT_STEP * HOT_STEP, auction - chance.below(shape.auctions) % (auction + 1))
    hot = chance.below(shape.hot_bidders) > 0
    other = chance.below(shape.people)
    bidder = np.where(hot, person // HOT_STEP * HOT_STEP + 1, np.abs(person - other))  # some have not come yet
    channel = np.where(chance.below(2) > 0, chance.below(len(_HOT_CHANNELS)), 4 + chance.below(10_000))
    return pa.table(
        {
            "auction": FIRST_ID + about,
            "bidder": FIRST_ID + bidder,
            "price": chance.price(),
            "channel": _taken(_channels(), channel),
            "url": _taken(_urls(), channel),
            "dateTime": _time(at),
            "extra": chance.text(40),
        }
    )


def _auction_of(number: Numbers) -> Numbers:
    """The newest auction at an event."""
    place = np.clip(number % ALL - PEOPLE, 0, AUCTIONS - 1)
    newest: Numbers = number // ALL * AUCTIONS + place
    return newest


def _mixed(place: Numbers, group: int) -> Numbers:
    """The places in another order within each group: by steps that meet every one of them once."""
    if group <= 1:
        return place
    step = next(one for one in (7919, 104_729) if group % one)
    mixed: Numbers = place // group * group + place % group * step % group
    return mixed


class _Chance:
    """Numbers that look random and follow from the event's number: a mixing of bits, one more for each question."""

    def __init__(self, number: Numbers, seed: int) -> None:
        self._state = number.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(
            seed * 0x632BE59BD9B4E019 % 2**64
        )

    def _next(self) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
        self._state += np.uint64(0x9E3779B97F4A7C15)
        mixed = self._state.copy()
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
        return mixed ^ (mixed >> np.uint64(31))

    def below(self, limit: int) -> Numbers:
        """From 0 to a limit."""
        return (self._next() % np.uint64(limit)).astype(np.int64)

    def price(self) -> Numbers:
        """From one to a million, in cents, as many small as large."""
        spread = (self._next() >> np.uint64(11)).astype(np.float64) / 2.0**53
        return np.round(np.power(10.0, spread * 6) * 100).astype(np.int64)

    def text(self, length: int) -> pa.StringArray:
        """Letters, about so many."""
        return _taken(_texts(length), self.below(1000))


_POOLS: dict[str, pa.Array] = {}


def _pool(name: str, make: Callable[[], list[str]]) -> pa.Array:
    if name not in _POOLS:
        _POOLS[name] = pa.array(make())
    return _POOLS[name]


def _letters(length: int, seed: int, count: int) -> list[str]:
    made = np.random.Generator(np.random.PCG64(seed)).integers(ord("a"), ord("z") + 1, (count, length), dtype=np.uint8)
    return [bytes(one).decode() for one in made]


def _texts(length: int) -> pa.Array:
    return _pool(
        f"text {length}", lambda: [one[: length - at % 20] for at, one in enumerate(_letters(length, length, 1000))]
    )


def _cards() -> pa.Array:
    return _pool(
        "cards", lambda: [" ".join(f"{at * 7919 * part % 10_000:04}" for part in (1, 2, 3, 5)) for at in range(1000)]
    )


def _channels() -> pa.Array:
    return _pool("channels", lambda: [*_HOT_CHANNELS, *(f"channel-{at}" for at in range(10_000))])


def _urls() -> pa.Array:
    def made() -> list[str]:
        parts = _letters(15, 22, 10_004)
        return [f"https://www.nexmark.com/{one[:5]}/{one[5:10]}/{one[10:]}/item.htm?query=1" for one in parts]

    return _pool("urls", made)


def _taken(pool: pa.Array | list[str], places: Numbers) -> pa.StringArray:
    return (pa.array(pool) if isinstance(pool, list) else pool).take(pa.array(places))


def _time(at: Numbers) -> pa.Array:
    return pa.array(at).cast(TIME)


# of a table: its share of the events, where it begins among them, what makes its rows
TABLES: dict[str, tuple[int, int, Callable[[Numbers, Shape, Numbers], pa.Table]]] = {
    "person": (PEOPLE, 0, _people),
    "auction": (AUCTIONS, PEOPLE, _auctions),
    "bid": (BIDS, PEOPLE + AUCTIONS, _bids),
}
