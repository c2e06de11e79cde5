"""A process, one key after the other: rows in the order of their time, timers in between; without Spark."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

from penstock.errors import DeclarationError
from penstock.pipeline.durations import seconds
from penstock.pipeline.keyed.kinds import columns_of
from penstock.pipeline.keyed.memory import Memory
from penstock.pipeline.keyed.states import State

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.pipeline.keyed.kinds import Struct

__all__ = ["MAIN", "RAISED", "Now", "Process", "Turn", "Turns", "states_of", "version_of"]

MAIN, RAISED = "", "__raised"
_LONGEST = 2000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICRO = timedelta(microseconds=1)

Row = dict[str, Any]
Waiting = list[tuple[int, str]]


class Now:
    """Where a process stands: the key, the time, and what it can do."""

    def __init__(self, outputs: Mapping[str, Struct], *, rings: bool = True) -> None:
        self._outputs = outputs
        self._rings = rings
        self.key: Any = None
        self.given: list[tuple[str, str]] = []
        self.memory: Memory

    @property
    def time(self) -> datetime:
        """The time of the row, or of the timer."""
        if self.memory.now is None:
            raise ValueError("a row of the table has no time: name one, or give the table the stream's time column")
        return _EPOCH + self.memory.now * _MICRO

    def emit(self, row: Row, to: str = MAIN) -> None:
        """Give a row out, to a named output if one is named."""
        kind = self._outputs.get(to)
        if kind is None:
            raise ValueError(f"there is no output {to!r}: declare it, outputs={{{to!r}: 'id LONG'}}")
        self.given.append((to, json.dumps(kind.dump(row))))

    def timer(self, when: datetime | timedelta | str, name: str = "timer") -> None:
        """Let `on_timer` be called at a time, or so long from now; a timer of the same name is moved."""
        if not self._rings:
            raise ValueError("nobody hears a timer: write def on_timer(self, name, now)")
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
    """A user's class, with what Spark or a test needs to run it; `read` makes a row of its text.

    With `quarantine` a row that makes `on_event` raise is given out as RAISED, and leaves nothing else behind.
    """

    def __init__(
        self,
        made: type,
        read: Callable[[str], Row],
        outputs: Mapping[str, str],
        *,
        ordered: bool = True,
        quarantine: bool = False,
    ) -> None:
        self._user: Any = made()
        self._states = states_of(made)
        self._kinds = {one.name: one.kind for one in self._states}
        self._ttls = {one.name: one.ttl for one in self._states if one.ttl is not None}
        self._version = version_of(made)
        self._read = read
        self._ordered = ordered
        self._quarantine = quarantine
        self._now = Now({name: columns_of(ddl) for name, ddl in outputs.items()}, rings=hasattr(made, "on_timer"))

    def turn(self, key: Any, text: str | None, waiting: Waiting, rows: Waiting, time: int) -> Turn:
        """Let a key process its rows and timers up to a time, microseconds like all; the rest waits."""
        try:
            return self._turn(key, text, waiting, rows, time, self._event)
        except _RaisedError:
            if not self._quarantine:
                raise
            # Once more from the beginning, now ready to forget what such a row has done.
            return self._turn(key, text, waiting, rows, time, self._careful_event)

    def initial(self, key: Any, text: str | None, row: Row, micros: int | None) -> Turn:
        """Let a key take over a row of a table; without a time, none can be counted from."""
        memory = self._begin(key, text)
        memory.now = micros
        self._user.on_initial(row, self._now)
        if self._now.given:
            raise ValueError("on_initial gives nothing out: it only remembers")
        return Turn(memory.text(), [], [], memory.wakes())

    def _turn(
        self, key: Any, text: str | None, waiting: Waiting, rows: Waiting, time: int, event: Callable[[int, str], None]
    ) -> Turn:
        memory = self._begin(key, text)
        every = sorted(waiting + rows) if self._ordered else [*sorted(waiting), *rows]  # some wait if it was before
        due = len(every)
        if self._ordered:
            due = next((at for at, (micros, _) in enumerate(every) if micros > time), due)
        if due or not rows:
            memory.age(self._ttls, every[0][0] if due else time)
        for micros, row in every[:due]:
            if self._ordered:
                self._ring(micros, before=True)
            event(micros, row)
        self._ring(time, before=False)
        memory = self._now.memory
        memory.forget_expired(time)
        return Turn(self._text(memory), every[due:], self._now.given, memory.wakes())

    def _text(self, memory: Memory) -> str | None:
        try:
            return memory.text()
        except TypeError as error:  # a value that was changed in its place does not fit any more
            raise _RaisedError(str(error)) from error

    def _event(self, micros: int, told: str) -> None:
        self._now.memory.now = micros
        try:
            self._user.on_event(self._read(told), self._now)
        except Exception as error:
            if self._quarantine:
                raise _RaisedError from error
            raise

    def _careful_event(self, micros: int, told: str) -> None:
        now = self._now
        before, given = now.memory.text(), list(now.given)
        now.memory.now = micros
        try:
            self._user.on_event(self._read(told), now)
            now.memory.text()  # all that it remembers fits
        except Exception as error:  # noqa: BLE001
            self._begin(now.key, before).now = micros
            now.given = [*given, (RAISED, json.dumps([told, type(error).__name__, str(error)[:_LONGEST]]))]

    def _begin(self, key: Any, text: str | None) -> Memory:
        memory = Memory(self._kinds, text, self._version, getattr(self._user, "migrate", None))
        self._now.key = key
        self._now.memory = memory
        self._now.given = []
        for one in self._states:
            one.memory = memory
        return memory

    def _ring(self, until: int, *, before: bool) -> None:
        memory = self._now.memory
        while (name := memory.ringing(until, before=before)) is not None:
            memory.now = max(memory.now or 0, memory.timers.pop(name))
            self._user.on_timer(name, self._now)


class _RaisedError(Exception):
    """A method of the user's has raised."""


def version_of(made: type) -> int:
    """The version of what a class remembers: its `version`, or 1."""
    found = getattr(made, "version", 1)
    if not isinstance(found, int):
        raise DeclarationError(
            f"{made.__name__}.version is {type(found).__name__}, not a whole number.",
            code="declaration-wrong",
            remedy="It tells how its states have changed; give a state another name.",
        )
    return found


def states_of(made: type) -> list[State]:
    """The states that a class declares; one that stands for another of its name takes its place."""
    every = (value for one in reversed(made.__mro__) for value in vars(one).values())
    return list({one.name: one for one in every if isinstance(one, State)}.values())
