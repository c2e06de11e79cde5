"""A funnel as a process of one key after the other: how far its open attempt has come is kept."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from penstock.pipeline.keyed.process import MAIN, Turn

if TYPE_CHECKING:
    from penstock.pipeline.keyed.process import Waiting

__all__ = ["Attempts"]


class Attempts:
    """Rows are `BITS KEY`: which steps a row can be, and the key as text; an attempt is the times of its steps."""

    def __init__(self, steps: int, within: int) -> None:
        self._steps = steps
        self._within = within

    def turn(self, key: Any, text: str | None, waiting: Waiting, rows: Waiting, time: int) -> Turn:
        """The attempts that are over with the rows up to a time; the rest waits."""
        told = json.loads(text) if text else {"key": None, "at": []}
        named, at = told["key"], told["at"]
        every = sorted(waiting + rows)
        due = next((place for place, (micros, _) in enumerate(every) if micros > time), len(every))
        given: list[tuple[str, str]] = []
        for micros, row in every[:due]:
            if at and micros - at[0] >= self._within:
                given.append((MAIN, _text(named, at)))
                at = []
            bits, _, named = row.partition(" ")
            if int(bits) >> len(at) & 1:
                at.append(micros)
            if len(at) == self._steps:
                given.append((MAIN, _text(named, at)))
                at = []
        if at and time - at[0] >= self._within:
            given.append((MAIN, _text(named, at)))
            at = []
        wakes = at[0] + self._within if at else None
        return Turn(_text(named, at) if at else None, every[due:], given, wakes)


def _text(key: str, at: list[int]) -> str:
    return json.dumps({"key": key, "at": at})
