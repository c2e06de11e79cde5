"""Which events of a key make a pattern: event by event, all attempts side by side; plain Python.

An attempt has taken some events and waits. A new event is taken by it, passed over, or both, as two attempts; what
passing over forbids from then on is noted in the attempt. The rules are those that FlinkCEP documents.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["ANY", "RELAXED", "STRICT", "Attempt", "Event", "Found", "Matcher", "Step"]

STRICT, RELAXED, ANY = "strict", "relaxed", "any"


@dataclass(frozen=True)
class Step:
    """A step: which condition (by its number), how often, how near to what was taken before.

    `gap` is how its first event follows, `inner` how its later ones do; `never_next` and `never` are conditions that
    must not come right after it, or before the next step.
    """

    name: str
    condition: int
    gap: str = RELAXED
    least: int = 1
    most: int | None = 1
    optional: bool = False
    greedy: bool = False
    inner: str = RELAXED
    until: int | None = None
    never_next: tuple[int, ...] = ()
    never: tuple[int, ...] = ()


@dataclass(frozen=True)
class Event:
    """An event: its number, its time, and which conditions it meets, as bits."""

    number: int
    time: int
    meets: int

    def does(self, condition: int | None) -> bool:
        """Whether it meets a condition."""
        return condition is not None and bool(self.meets >> condition & 1)


@dataclass(frozen=True)
class Attempt:
    """Events taken so far, by step, and what has been passed over since the last one."""

    taken: tuple[tuple[int, tuple[int, ...]], ...]
    began: int
    first: int
    fresh: bool = True  # nothing was passed over
    loop: bool = True  # the current step may take more
    closed: frozenset[int] = frozenset()  # steps that can't follow any more
    until: frozenset[int] = frozenset()  # steps whose stop condition has come
    doubted: bool = False  # it is complete but for what must not come right after it
    confirmed: bool = False  # that did not come
    waits: bool = False  # it is complete but for what must not come until its time is over

    @property
    def step(self) -> int:
        """The step that took the last event."""
        return self.taken[-1][0]

    @property
    def count(self) -> int:
        """How many events that step has."""
        return len(self.taken[-1][1])

    def positions(self) -> tuple[int, ...]:
        """The numbers of all events."""
        return tuple(one for _, numbers in self.taken for one in numbers)


@dataclass(frozen=True)
class Found:
    """A match, with what orders it among others."""

    taken: tuple[tuple[int, tuple[int, ...]], ...]
    first: int
    done: tuple[int, int]
    positions: tuple[int, ...]


@dataclass
class Matcher:
    """A pattern and the attempts of one key."""

    steps: Sequence[Step]
    within: int | None = None
    skip: str = "none"
    attempts: list[Attempt] = field(default_factory=list)
    waiting: list[Found] = field(default_factory=list)

    def feed(self, event: Event) -> list[Found]:
        """The matches that come out with an event."""
        done = self._over(event.time, event.number)
        lived: list[Attempt] = []
        for attempt in self.attempts:
            for one in self._moved(attempt, event):
                self._settle(one, event, done, lived)
        for one in self._begun(event):
            self._settle(one, event, done, lived)
        self.attempts = list(dict.fromkeys(lived))
        return self._out(done)

    def advance(self, time: int, number: int) -> list[Found]:
        """The matches that come out because the time is over for what could prevent them."""
        return self._out(self._over(time, number))

    def wakes(self) -> int | None:
        """When the time of an attempt is over."""
        if self.within is None or not self.attempts:
            return None
        return min(one.began for one in self.attempts) + self.within

    def _over(self, time: int, number: int) -> list[Found]:
        """Drop attempts whose time is over; those that only waited for it are matches."""
        if self.within is None:
            return []
        over = [one for one in self.attempts if time - one.began >= self.within]
        self.attempts = [one for one in self.attempts if time - one.began < self.within]
        return [_found(one, (number, 0)) for one in over if one.waits]

    def _begun(self, event: Event) -> Iterator[Attempt]:
        """The attempts that begin with an event: at the first step, or after optional ones."""
        for number in self._reachable(-1):
            if self._takes(number, event):
                yield Attempt(((number, (event.number,)),), event.time, event.number)

    def _moved(self, attempt: Attempt, event: Event) -> Iterator[Attempt]:
        """What becomes of an attempt when an event comes: it takes it, passes it over, or both."""
        step = self.steps[attempt.step]
        enough = attempt.count >= step.least
        barred = enough and attempt.fresh and any(event.does(one) for one in step.never_next)
        if barred:
            return
        if attempt.doubted:
            yield replace(attempt, doubted=False, confirmed=True)
            return
        near = attempt.fresh or step.inner != STRICT
        if near and attempt.loop and self._more(attempt) and self._takes(attempt.step, event):
            yield self._with(attempt, attempt.step, event)
        for number in self._reachable(attempt.step) if enough else ():
            near = attempt.fresh or self.steps[number].gap != STRICT
            if near and number not in attempt.closed and self._takes(number, event):
                yield self._with(attempt, number, event)
        if not any(event.does(one) for one in step.never):
            yield from self._passed(attempt, event)

    def _passed(self, attempt: Attempt, event: Event) -> Iterator[Attempt]:
        """The attempt with the event passed over, unless nothing could come of it any more."""
        step = self.steps[attempt.step]
        loop = attempt.loop and self._more(attempt) and not event.does(step.until)
        loop = loop and not _barring(step.inner, step, event)
        closed, until = set(attempt.closed), set(attempt.until)
        for number in self._reachable(attempt.step):
            before, after = self.steps[number - 1], self.steps[number]
            if event.does(before.until):
                until.add(number - 1)
            greedy = before.greedy and before.least != before.most and number - 1 not in until
            if (greedy and event.does(before.condition)) or _barring(after.gap, after, event):
                closed.add(number)
        made = replace(attempt, fresh=False, loop=loop, closed=frozenset(closed), until=frozenset(until))
        if loop or attempt.waits or self._open(made):
            yield made

    def _settle(self, attempt: Attempt, event: Event, done: list[Found], lived: list[Attempt]) -> None:
        """Note a match if an attempt has just become one; keep the attempt if more can come of it."""
        took = attempt.positions()[-1] == event.number
        if (took or attempt.confirmed) and self._complete(attempt):
            step = self.steps[attempt.step]
            last = attempt.step == len(self.steps) - 1
            if last and step.never_next and not attempt.confirmed:
                lived.append(replace(attempt, doubted=True))
            elif last and step.never:
                attempt = replace(attempt, waits=True)
            else:
                done.append(_found(attempt, (event.number, 1)))
        goes_on = not attempt.confirmed and ((attempt.loop and self._more(attempt)) or self._open(attempt))
        if attempt.waits or goes_on:
            lived.append(attempt)

    def _complete(self, attempt: Attempt) -> bool:
        """Whether nothing more is needed."""
        enough = attempt.count >= self.steps[attempt.step].least
        return enough and all(one.optional for one in self.steps[attempt.step + 1 :])

    def _open(self, attempt: Attempt) -> bool:
        return any(number not in attempt.closed for number in self._reachable(attempt.step))

    def _more(self, attempt: Attempt) -> bool:
        most = self.steps[attempt.step].most
        return most is None or attempt.count < most

    def _takes(self, number: int, event: Event) -> bool:
        step = self.steps[number]
        return event.does(step.condition) and not event.does(step.until)

    def _reachable(self, number: int) -> list[int]:
        """The steps that may follow: the next one, and those behind optional ones."""
        found = []
        for later in range(number + 1, len(self.steps)):
            found.append(later)
            if not self.steps[later].optional:
                break
        return found

    def _with(self, attempt: Attempt, number: int, event: Event) -> Attempt:
        """The attempt with one more event."""
        if number == attempt.step:
            taken = (*attempt.taken[:-1], (number, (*attempt.taken[-1][1], event.number)))
        else:
            taken = (*attempt.taken, (number, (event.number,)))
        return Attempt(taken, attempt.began, attempt.first)

    def _out(self, done: list[Found]) -> list[Found]:
        """The matches that go out now, after what the skip leaves of them."""
        if self.skip == "none":
            return sorted(done, key=lambda one: (one.done, one.first, one.positions, one.taken))
        self.waiting = sorted({*self.waiting, *done}, key=lambda one: (one.first, one.done, one.positions, one.taken))
        out: list[Found] = []
        while self.waiting:
            one = self.waiting[0]
            if any(other.first < one.first for other in self.attempts):
                break
            out.append(self.waiting.pop(0))
            barred = self._barred(one)
            self.attempts = [other for other in self.attempts if other.first > barred]
            self.waiting = [other for other in self.waiting if other.first > barred]
        return out

    def _barred(self, found: Found) -> int:
        """The last event that no other match may have begun with."""
        if self.skip == "next":
            return found.first
        if self.skip == "past":
            return found.positions[-1]
        kind, _, name = self.skip.partition(":")
        taken = [one for step, numbers in found.taken for one in numbers if self.steps[step].name == name]
        return (taken[0] if kind == "first" else taken[-1]) - 1 if taken else -1


def _barring(near: str, step: Step, event: Event) -> bool:
    """Whether a step can't take a later event once this one was passed over."""
    return near == STRICT or (near == RELAXED and event.does(step.condition))


def _found(attempt: Attempt, done: tuple[int, int]) -> Found:
    return Found(attempt.taken, attempt.first, done, attempt.positions())
