"""A pattern as a process of one key after the other: its attempts are kept, the rows that they have taken with them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from penstock.pipeline.keyed.matcher import Attempt, Event, Found, Matcher
from penstock.pipeline.keyed.process import MAIN, Turn

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.pipeline.keyed.pattern import Pattern
    from penstock.pipeline.keyed.process import Waiting

__all__ = ["Matching"]


class Matching:
    """Rows are `BITS TEXT`: which conditions in SQL a row meets, and the row; those in Python are asked here."""

    def __init__(self, pattern: Pattern, read: Callable[[str], dict[str, Any]]) -> None:
        self._pattern = pattern
        self._read = read
        self._asked = [(1 << at, one) for at, one in enumerate(pattern.conditions) if callable(one)]

    def turn(self, key: Any, text: str | None, waiting: Waiting, rows: Waiting, time: int) -> Turn:
        """The matches that come out with the rows up to a time; the rest waits."""
        matcher, number, kept = self._remembered(text)
        every = sorted(waiting + rows)
        due = next((at for at, (micros, _) in enumerate(every) if micros > time), len(every))
        given: list[tuple[str, str]] = []
        for micros, told in every[:due]:
            bits, _, row = told.partition(" ")
            event = Event(number, micros, self._meets(int(bits), row))
            kept[number] = row
            number += 1
            found = matcher.feed(event)
            if found or not matcher.attempts:
                given += [(MAIN, self._match(one, kept)) for one in found]
                kept = kept if matcher.attempts or matcher.waiting else {}
        given += [(MAIN, self._match(one, kept)) for one in matcher.advance(time, number)]
        return Turn(self._text(matcher, number, kept), every[due:], given, matcher.wakes())

    def _meets(self, bits: int, row: str) -> int:
        if self._asked:
            known = self._read(row)
            for bit, asked in self._asked:
                bits |= bit if asked(known) else 0
        return bits

    def _match(self, found: Found, kept: dict[int, str]) -> str:
        """A match as text: each step's row, or rows; and the first row, for key and time."""
        steps = self._pattern.steps
        parts = [f'"__first": {kept[found.positions[0]]}', f'"__last": {kept[found.positions[-1]]}']
        for step, numbers in found.taken:
            rows = [kept[one] for one in numbers]
            parts.append(f'"{steps[step].name}": {rows[0] if steps[step].most == 1 else "[" + ", ".join(rows) + "]"}')
        return "{" + ", ".join(parts) + "}"

    def _remembered(self, text: str | None) -> tuple[Matcher, int, dict[int, str]]:
        pattern = self._pattern
        matcher = Matcher(pattern.steps, pattern.micros, pattern.after)
        if not text:
            return matcher, 0, {}
        told = json.loads(text)
        matcher.attempts = [_attempt(one) for one in told["attempts"]]
        matcher.waiting = [
            Found(_pairs(taken), first, (done[0], done[1]), tuple(at)) for taken, first, done, at in told["waiting"]
        ]
        return matcher, told["number"], {int(one): row for one, row in told["rows"].items()}

    def _text(self, matcher: Matcher, number: int, kept: dict[int, str]) -> str | None:
        used = {one for each in matcher.attempts for one in each.positions()}
        used |= {one for each in matcher.waiting for one in each.positions}
        if not used:
            return None
        attempts = [
            [
                one.taken,
                one.began,
                one.first,
                one.fresh,
                one.loop,
                sorted(one.closed),
                sorted(one.until),
                one.doubted,
                one.confirmed,
                one.waits,
            ]
            for one in matcher.attempts
        ]
        waiting = [[one.taken, one.first, one.done, one.positions] for one in matcher.waiting]
        rows = {str(one): row for one, row in kept.items() if one in used}
        return json.dumps({"number": number, "attempts": attempts, "waiting": waiting, "rows": rows})


def _attempt(told: list[Any]) -> Attempt:
    taken, began, first, fresh, loop, closed, until, *marks = told
    return Attempt(_pairs(taken), began, first, fresh, loop, frozenset(closed), frozenset(until), *marks)


def _pairs(taken: list[Any]) -> tuple[tuple[int, tuple[int, ...]], ...]:
    return tuple((step, tuple(numbers)) for step, numbers in taken)
