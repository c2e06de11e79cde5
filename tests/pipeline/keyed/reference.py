"""The meaning of patterns, as plainly as it can be written: every way to give events to steps is tried, what breaks a
rule is thrown away, and the skip strategy thins out the rest. Slow, and nothing like the matcher it is held against.

- `next`: nothing lies between an event and the one taken before; `followed_by`: nothing between meets the step's own
  condition; `followed_by_any`: anything may. So for the first event of a step; its later ones obey `inner` likewise.
- A step that is left out leaves the gap to be judged by the step that takes the next event.
- `until`: an event that meets it is not taken by the loop, and does not lie between two events of the loop.
- `greedy` (a step follows, and the number can vary): nothing that the loop could take lies before the next step.
- `not_followed_by`: no such event in the gaps after a step's first event and before the next step; at the end: until
  `within` is over. `not_next`: the very next event is none such; at the end: the match is complete with that event.
- `within`: the time from the first to the last event is smaller.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

NEGATIVE = ("not_next", "not_followed_by")
Taken = list[tuple[int, list[int]]]
Done = tuple[int, int]


@dataclass
class Case:
    """A pattern and events."""

    pattern: list[dict[str, Any]]
    events: list[tuple[str, float]]
    within: int | None = None
    skip: str = "none"

    def matches(self) -> list[list[tuple[str, list[str]]]]:
        """The matches in the order in which they come out."""
        found = [(done, taken) for taken in self._candidates() if (done := self._done(taken)) is not None]
        return [
            [(self.pattern[step]["name"], [self.events[at][0] for at in places]) for step, places in taken]
            for taken in self._left(found)
        ]

    def _meets(self, at: int, letters: str | None) -> bool:
        return self.events[at][0][0] in (letters or "")

    def _any(self, gap: range, letters: str | None) -> bool:
        return any(self._meets(at, letters) for at in gap)

    def _positive(self) -> list[int]:
        return [number for number, step in enumerate(self.pattern) if step["how"] not in NEGATIVE]

    def _candidates(self) -> Iterator[Taken]:
        steps = self._positive()

        def rest(which: int, after: int) -> Iterator[Taken]:
            if which == len(steps):
                yield []
                return
            step = self.pattern[steps[which]]
            if step.get("optional"):
                yield from rest(which + 1, after)
            fit = [
                at
                for at in range(after, len(self.events))
                if self._meets(at, step["on"]) and not self._meets(at, step.get("until"))
            ]
            least, most = step.get("times", (1, 1))
            for count in range(least, min(len(fit), most or len(fit)) + 1):
                for taken in itertools.combinations(fit, count):
                    for more in rest(which + 1, taken[-1] + 1):
                        yield [(steps[which], list(taken)), *more]

        return (one for one in rest(0, 0) if one)

    def _near(self, gap: range, how: str, letters: str) -> bool:
        if how in ("next", "strict"):
            return not gap
        return how not in ("followed_by", "relaxed") or not self._any(gap, letters)

    def _negatives(self, number: int) -> list[dict[str, Any]]:
        return list(itertools.takewhile(lambda one: one["how"] in NEGATIVE, self.pattern[number + 1 :]))

    def _loops(self, number: int, places: list[int]) -> bool:
        """Whether the events inside a step keep the rules."""
        step = self.pattern[number]
        for count, (one, other) in enumerate(itertools.pairwise(places), start=1):
            gap = range(one + 1, other)
            if not self._near(gap, step.get("inner", "relaxed"), step["on"]) or self._any(gap, step.get("until")):
                return False
            for no in self._negatives(number):
                if no["how"] == "not_followed_by":
                    if self._any(gap, no["on"]):
                        return False
                elif count >= step.get("times", (1, 1))[0] and self._meets(one + 1, no["on"]):
                    return False
        return True

    def _follows(self, before: tuple[int, list[int]], after: tuple[int, list[int]]) -> bool:
        """Whether a step keeps the rules about the one before it."""
        number, first = after[0], after[1][0]
        gap = range(before[1][-1] + 1, first)
        if not self._near(gap, self.pattern[number]["how"], self.pattern[number]["on"]):
            return False
        for no in self._negatives(before[0]):
            looked_at = gap if no["how"] == "not_followed_by" else range(gap.start, gap.start + 1)
            if self._any(looked_at, no["on"]):
                return False
        loop = self.pattern[[one for one in self._positive() if one < number][-1]]
        least, most = loop.get("times", (1, 1))
        if not loop.get("greedy") or least == most:
            return True
        free = itertools.takewhile(lambda at: not self._meets(at, loop.get("until")), gap)
        return not any(self._meets(at, loop["on"]) for at in free)

    def _done(self, taken: Taken) -> Done | None:
        """When a candidate is complete: by an event (1), or by time just before it (0); None if it breaks a rule."""
        start, end = taken[0][1][0], taken[-1][1][-1]
        limit = None if self.within is None else self.events[start][1] + self.within
        if limit is not None and self.events[end][1] >= limit:
            return None
        if not all(self._loops(*one) for one in taken):
            return None
        if not all(self._follows(one, other) for one, other in itertools.pairwise(taken)):
            return None
        done: Done | None = (end, 1)
        for no in self._negatives(taken[-1][0]) if taken[-1][0] == self._positive()[-1] else ():
            done = self._after_all(no, end, limit)
            if done is None:
                return None
        return done

    def _after_all(self, no: dict[str, Any], end: int, limit: float | None) -> Done | None:
        if no["how"] == "not_next":
            late = end + 1 == len(self.events) or (limit is not None and self.events[end + 1][1] >= limit)
            return None if late or self._meets(end + 1, no["on"]) else (end + 1, 1)
        assert limit is not None
        over = next((at for at, one in enumerate(self.events) if one[1] >= limit), len(self.events))
        return None if self._any(range(end + 1, over), no["on"]) else (over, 0)

    def _left(self, found: list[tuple[Done, Taken]]) -> list[Taken]:
        """What the skip leaves, in order."""

        def places(taken: Taken) -> list[int]:
            return [at for _, each in taken for at in each]

        if self.skip == "none":
            return [
                one for _, one in sorted(found, key=lambda one: (one[0], places(one[1])[0], places(one[1]), one[1]))
            ]
        out: list[Taken] = []
        barred = -1
        for _, one in sorted(found, key=lambda one: (places(one[1])[0], one[0], places(one[1]), one[1])):
            if places(one)[0] > barred:
                out.append(one)
                barred = max(barred, self._barred(one, places(one)))
        return out

    def _barred(self, taken: Taken, places: list[int]) -> int:
        if self.skip in ("next", "past"):
            return places[0 if self.skip == "next" else -1]
        kind, _, name = self.skip.partition(":")
        named = [at for step, each in taken for at in each if self.pattern[step]["name"] == name]
        return (named[0] if kind == "first" else named[-1]) - 1 if named else -1
