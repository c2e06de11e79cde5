"""Features as a process of one key after the other: the rows of the longest window are kept, as columns."""

from __future__ import annotations

import json
from bisect import bisect_right
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from penstock.pipeline.keyed.process import MAIN, Turn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from penstock.pipeline.keyed.process import Waiting
    from penstock.pipeline.keyed.running import Running

__all__ = ["AT", "KEY", "FeatureColumn", "FeatureRows"]

AT, KEY = "at", "key"
_SAID, _VALUES = "said", "values"


@dataclass(frozen=True)
class FeatureColumn:
    """One feature over one time, in microseconds; `field` is what it looks at in a row, or the time of the row."""

    name: str
    over: int
    field: str
    begin: Callable[[], Running]


class FeatureRows:
    """Rows are JSON: the key as text, and the fields that features look at; a field that is null is left out."""

    def __init__(self, columns: Sequence[FeatureColumn], *, empty_rows: bool) -> None:
        self._columns = columns
        self._fields = sorted({one.field for one in columns} - {AT})
        self._overs = sorted({one.over for one in columns})
        self._empty_rows = empty_rows

    def turn(self, key: Any, text: str | None, waiting: Waiting, rows: Waiting, time: int) -> Turn:
        """The features at each row up to a time, and where a window became empty; the rest waits."""
        every = sorted(waiting + rows)
        due = next((at for at, (micros, _) in enumerate(every) if micros > time), len(every))
        kept = _Kept(self._fields, text)
        windows = [_Window(over, [one for one in self._columns if one.over == over]) for over in self._overs]
        given: list[tuple[str, str]] = []
        for micros, together in groupby(every[:due], itemgetter(0)):
            given += self._emptied(kept, windows, micros - 1)
            count = kept.add(micros, (json.loads(row) for _, row in together))
            given += [(MAIN, _features(kept, windows, micros))] * count
        given += self._emptied(kept, windows, time)
        kept.forget(time - self._overs[-1])
        return Turn(kept.text(), every[due:], given, self._wakes(kept))

    def _emptied(self, kept: _Kept, windows: list[_Window], until: int) -> list[tuple[str, str]]:
        """The features at the times, up to one, at which a window lost its last row."""
        given = []
        for at in self._endings(kept):
            if kept.said < at <= until:
                given.append((MAIN, _features(kept, windows, at)))
                kept.said = at
        return given

    def _endings(self, kept: _Kept) -> list[int]:
        return [kept.at[-1] + over for over in self._overs] if self._empty_rows and kept.at else []

    def _wakes(self, kept: _Kept) -> int | None:
        forgets = [kept.at[-1] + self._overs[-1]] if kept.at else []
        return min((at for at in (*self._endings(kept), *forgets) if at > kept.said), default=None)


class _Kept:
    """The rows of one key: their times, by field their values; and the time of the last row that was given out."""

    def __init__(self, fields: Sequence[str], text: str | None) -> None:
        told = json.loads(text) if text else {KEY: None, _SAID: 0, AT: [], _VALUES: {}}
        self.key: str = told[KEY]
        self.said: int = told[_SAID]
        self.at: list[int] = told[AT]
        # A field that was not kept before is null in the rows that are there.
        self.values = {one: told[_VALUES].get(one) or [None] * len(self.at) for one in fields}

    def add(self, micros: int, rows: Iterable[dict[str, Any]]) -> int:
        """Rows of one time; how many."""
        before = len(self.at)
        for row in rows:
            self.key = row[KEY]
            self.at.append(micros)
            for name, values in self.values.items():
                values.append(row.get(name))
        self.said = micros
        return len(self.at) - before

    def forget(self, until: int) -> None:
        """Rows up to a time."""
        first = bisect_right(self.at, until)
        for values in (self.at, *self.values.values()):
            del values[:first]

    def text(self) -> str | None:
        """As it is kept in Spark's state, None if there is nothing to remember."""
        if not self.at:
            return None
        told = {KEY: self.key, _SAID: self.said, AT: self.at, _VALUES: self.values}
        return json.dumps(told, separators=(",", ":"))


class _Window:
    """The features over one time, as they stand at a moment that only moves on."""

    def __init__(self, over: int, columns: Sequence[FeatureColumn]) -> None:
        self._over = over
        self._columns = [(one, one.begin()) for one in columns]
        self._first = 0
        self._next = 0

    def moved(self, kept: _Kept, now: int) -> Iterable[tuple[str, Any]]:
        """The features at a moment, by name: of the rows that are not as old as the window is long."""
        first, after = bisect_right(kept.at, now - self._over), len(kept.at)
        for column, running in self._columns:
            values = kept.at if column.field == AT else kept.values[column.field]
            running.drop(_there(values[self._first : min(first, self._next)]))
            running.take(_there(values[max(first, self._next) : after]))
            yield column.name, running.told()
        self._first, self._next = first, after


def _there(values: list[Any]) -> list[Any]:
    return [one for one in values if one is not None]


def _features(kept: _Kept, windows: list[_Window], now: int) -> str:
    found = dict(pair for window in windows for pair in window.moved(kept, now))
    return json.dumps({KEY: kept.key, AT: now, **found})
