"""A process, one key after the other: rows in the order of their time, timers in between; without Spark."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

from penstock.pipeline.durations import seconds
from penstock.pipeline.keyed.kinds import columns_of
from penstock.pipeline.keyed.memory import Memory
from penstock.pipeline.keyed.states import State

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.pipeline.keyed.kinds import Struct

__all__ = ["MAIN", "Now", "Process", "Turn", "Turns", "states_of"]

MAIN = ""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICRO = timedelta(microseconds=1)

Row = dict[str, Any]
Waiting = list[tuple[int, str]]


class Now:
    """Where a process stands: the key, the time, and what it can do."""

    def __init__(self, outputs: Mapping[str, Struct]) -> None:
        self._outputs = outputs
        self.key: Any = None
        self.given: list[tuple[str, str]] = []
        self.memory: Memory

    @property
    def time(self) -> datetime:
        """The time of the row, or of the timer."""
        return _EPOCH + self.memory.now * _MICRO

    def emit(self, row: Row, to: str = MAIN) -> None:
        """Give a row out, to a named output if one is named."""
        kind = self._outputs.get(to)
        if kind is None:
            raise ValueError(f"there is no output {to!r}: declare it, outputs={{{to!r}: 'id LONG'}}")
        self.given.append((to, json.dumps(kind.dump(row))))

    def timer(self, when: datetime | timedelta | str, name: str = "timer") -> None:
        """Let `on_timer` be called at a time, or so long from now; a timer of the same name is moved."""
        if isinstance(when, str):
            length = seconds(when)
            if length is None:
                raise ValueError(f"{when!r} is not a duration: write it like '1 minute'")
            when = timedelta(seconds=length)
        at = self.time + when if isinstance(when, timedelta) else when if when.tzinfo else when.replace(tzinfo=UTC)
        self.memory.timers[name] = (at - _EPOCH) // _MICRO

    def cancel(self, name: str = "timer") -> None:
        """Take a timer back, if there is one."""
        self.memory.timers.pop(name, None)


class Turn:
    """What a turn of one key leaves: its memory and waiting rows, what it gave, and when to wake it."""

    def __init__(self, text: str | None, waiting: Waiting, given: list[tuple[str, str]], wakes: int | None) -> None:
        self.text = text
        self.waiting = waiting
        self.given = given
        times = [one for one in (wakes, waiting[0][0] if waiting else None) if one is not None]
        self.wakes = min(times) if times else None


class Turns(Protocol):
    """Something that keeps a text for each key, and takes its turns."""

    def turn(self, key: Any, text: str | None, waiting: Waiting, rows: Waiting, time: int) -> Turn:
        """Let a key process its rows up to a time, microseconds like all; the rest waits."""


class Process:
    """A user's class, with what Spark or a test needs to run it; `read` makes a row of its text."""

    def __init__(
        self, made: type, read: Callable[[str], Row], outputs: Mapping[str, str], *, ordered: bool = True
    ) -> None:
        self._user: Any = made()
        self._states = states_of(made)
        self._kinds = {one.name: one.kind for one in self._states}
        self._read = read
        self._ordered = ordered
        self._now = Now({name: columns_of(ddl) for name, ddl in outputs.items()})

    def turn(self, key: Any, text: str | None, waiting: Waiting, rows: Waiting, time: int) -> Turn:
        """Let a key process its rows and timers up to a time, microseconds like all; the rest waits."""
        memory = Memory(self._kinds, text)
        self._begin(key, memory)
        if self._ordered:
            every = sorted(waiting + rows)
            due = next((at for at, (micros, _) in enumerate(every) if micros > time), len(every))
            for micros, row in every[:due]:
                self._ring(memory, micros, before=True)
                memory.now = micros
                self._user.on_event(self._read(row), self._now)
            left = every[due:]
        else:
            left = []
            for micros, row in rows:
                memory.now = micros
                self._user.on_event(self._read(row), self._now)
        self._ring(memory, time, before=False)
        memory.forget_expired(time)
        return Turn(memory.text(), left, self._now.given, memory.wakes())

    def _begin(self, key: Any, memory: Memory) -> None:
        self._now.key = key
        self._now.memory = memory
        self._now.given = []
        for one in self._states:
            one.memory = memory

    def _ring(self, memory: Memory, until: int, *, before: bool) -> None:
        while (name := memory.ringing(until, before=before)) is not None:
            memory.now = max(memory.now, memory.timers.pop(name))
            self._user.on_timer(name, self._now)


def states_of(made: type) -> list[State]:
    """The states that a class declares."""
    every = (value for one in reversed(made.__mro__) for value in vars(one).values())
    return [one for one in every if isinstance(one, State)]
