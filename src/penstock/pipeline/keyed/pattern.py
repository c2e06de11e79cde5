"""A pattern, declared step by step: `ps.pattern("small", "amount < 1").followed_by("large", "amount > 10000")`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from penstock.errors import DeclarationError
from penstock.pipeline.declare import Place
from penstock.pipeline.durations import seconds
from penstock.pipeline.keyed.matcher import ANY, RELAXED, STRICT, Step

__all__ = ["Condition", "Pattern", "pattern"]

Condition = str | Callable[[dict[str, Any]], bool]
_SKIPS = ("none", "next", "past")


@dataclass(frozen=True)
class Pattern:
    """Steps that events of one key take in order of their time; each method gives a longer or stricter pattern."""

    steps: tuple[Step, ...]
    conditions: tuple[Condition, ...]
    micros: int | None = None
    after: str = "none"

    def next(self, name: str, condition: Condition) -> Pattern:
        """Right after it, with no event in between, one that meets a condition."""
        return self._then(name, condition, STRICT)

    def followed_by(self, name: str, condition: Condition) -> Pattern:
        """After it, with any others in between, the first that meets a condition."""
        return self._then(name, condition, RELAXED)

    def followed_by_any(self, name: str, condition: Condition) -> Pattern:
        """After it, with any others in between, each that meets a condition, as a match of its own."""
        return self._then(name, condition, ANY)

    def not_next(self, condition: Condition) -> Pattern:
        """The very next event does not meet a condition."""
        number = len(self.conditions)
        made = self._last(never_next=(*self.steps[-1].never_next, number))
        return replace(made, conditions=(*self.conditions, condition))

    def not_followed_by(self, condition: Condition) -> Pattern:
        """No event meets a condition before the next step does; at the end: until the time of `within` is over."""
        number = len(self.conditions)
        made = self._last(never=(*self.steps[-1].never, number))
        return replace(made, conditions=(*self.conditions, condition))

    def times(self, least: int, most: int | None = None) -> Pattern:
        """The last step so many times, or from so many to so many."""
        top = least if most is None else most
        if not 1 <= least <= top:
            raise _wrong(f"times({least}, {most}) can't be.", "Write times(3) or times(2, 4).")
        return self._last(least=least, most=top)

    def at_least(self, count: int) -> Pattern:
        """The last step so many times or more."""
        if count < 1:
            raise _wrong(f"at_least({count}) can't be.", "Write at_least(1), or optional() for none.")
        return self._last(least=count, most=None)

    def optional(self) -> Pattern:
        """The last step may be left out."""
        return self._last(optional=True)

    def greedy(self) -> Pattern:
        """The last step takes as many as it can before the next step begins."""
        return self._last(greedy=True)

    def consecutive(self) -> Pattern:
        """The events of the last step have no others in between."""
        return self._last(inner=STRICT)

    def combinations(self) -> Pattern:
        """The events of the last step may leave out others that meet its condition."""
        return self._last(inner=ANY)

    def until(self, condition: Condition) -> Pattern:
        """The last step takes no more once an event meets a condition."""
        made = self._last(until=len(self.conditions))
        return replace(made, conditions=(*self.conditions, condition))

    def within(self, duration: str) -> Pattern:
        """All of it within this time from its first event on, the end excluded."""
        length = seconds(duration)
        if not length:
            raise _wrong(f"within({duration!r}) is not a duration.", "Write it like '5 minutes'.")
        return replace(self, micros=int(length * 1_000_000))

    def skip(self, after: str) -> Pattern:
        """What a match leaves to others: "none" (all), "next" (not its first event), "past" (none of its events).

        "first:name" and "last:name" leave what begins at the first, or last, event of that step, or later.
        """
        kind, _, name = after.partition(":")
        if after not in _SKIPS and (kind not in ("first", "last") or name not in {one.name for one in self.steps}):
            known = ", ".join((*_SKIPS, "first:STEP", "last:STEP"))
            raise _wrong(f"skip({after!r}) is not known.", f"Write one of {known}.")
        return replace(self, after=after)

    def checked(self) -> Pattern:
        """Refuse what could never end, or never match."""
        if self.steps[-1].never and self.micros is None:
            raise _wrong("A pattern that ends with not_followed_by never ends.", "Add within('5 minutes').")
        if all(one.optional for one in self.steps):
            raise _wrong("Every step of the pattern is optional.", "Leave optional() out of one.")
        return self

    def described(self) -> str:
        """The pattern in words: another one can't go on with its attempts."""
        steps = []
        for one in self.steps:
            often = f"{one.least}-{one.most or 'many'}"
            marks = [one.gap, one.inner, "optional" if one.optional else "", "greedy" if one.greedy else ""]
            others = [("until", () if one.until is None else (one.until,)), ("never", one.never)]
            others.append(("not next", one.never_next))
            also = [f"{word} {self._said(number)}" for word, numbers in others for number in numbers]
            said = " ".join(filter(None, (*marks, *also)))
            steps.append(f"{one.name} [{self._said(one.condition)}] {often} {said}")
        time = f" within {self.micros / 1e6:g} s" if self.micros else ""
        return f"{' then '.join(steps)}{time}, skip {self.after}"

    def _said(self, number: int) -> str:
        found = self.conditions[number]
        return found if isinstance(found, str) else getattr(found, "__qualname__", "a function")

    @property
    def strict(self) -> bool:
        """Whether it matters what lies between the events that meet conditions."""
        return any(one.gap == STRICT or one.inner == STRICT or one.never_next for one in self.steps)

    def _then(self, name: str, condition: Condition, gap: str) -> Pattern:
        if not name.isidentifier() or name in {"start", "end", *(one.name for one in self.steps)}:
            raise _wrong(f"A step can't be called {name!r} here.", "Give each step a name of its own.")
        made = Step(name, len(self.conditions), gap)
        return replace(self, steps=(*self.steps, made), conditions=(*self.conditions, condition))

    def _last(self, **changes: Any) -> Pattern:
        return replace(self, steps=(*self.steps[:-1], replace(self.steps[-1], **changes)))


def pattern(name: str, condition: Condition) -> Pattern:
    """The first step of a pattern; a condition is SQL over the row's columns, or a Python function of the row."""
    return Pattern((), ())._then(name, condition, RELAXED)


def _wrong(problem: str, remedy: str) -> DeclarationError:
    return DeclarationError(problem, code="pattern-wrong", place=str(Place.of_caller()), remedy=remedy)
