"""All that is remembered of one key: its states, timers and the rows whose time has not come."""

from __future__ import annotations

import heapq
import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.pipeline.keyed.kinds import Kind

__all__ = ["Memory", "Migrate"]

_STATES, _EXPIRES, _TIMERS, _VERSION = "states", "expires", "timers", "version"

Migrate: TypeAlias = "Callable[[dict[str, Any], int], dict[str, Any]]"


class Memory:
    """States by name, with when they are forgotten; timers by name, with when they ring. Times are microseconds.

    What another version of a class has written is given to `migrate` as JSON has it, with that version.
    """

    def __init__(
        self, kinds: Mapping[str, Kind], text: str | None = None, version: int = 1, migrate: Migrate | None = None
    ) -> None:
        self._kinds = kinds
        self._version = version
        self.now: int | None = 0
        self.states: dict[str, Any] = {}
        self.expires: dict[str, int] = {}
        self.timers: dict[str, int] = {}
        if text:
            told = json.loads(text, parse_float=Decimal)
            if migrate is not None and (before := told.get(_VERSION, 1)) != version:
                migrated = migrate(json.loads(text)[_STATES], before)
                self.states = {name: kinds[name].taken(one) for name, one in migrated.items()}
            else:
                self.states = {name: kinds[name].load(one) for name, one in told[_STATES].items() if name in kinds}
            self.expires = {name: at for name, at in told.get(_EXPIRES, {}).items() if name in kinds}
            self.timers = told.get(_TIMERS, {})

    def text(self) -> str | None:
        """As it is kept in Spark's state, None if there is nothing to remember."""
        if not self.states and not self.timers:
            return None
        told: dict[str, Any] = {_STATES: {name: self._kinds[name].dump(one) for name, one in self.states.items()}}
        if self.expires:
            told[_EXPIRES] = self.expires
        if self.timers:
            told[_TIMERS] = self.timers
        if self._version != 1:
            told[_VERSION] = self._version
        return json.dumps(told, separators=(",", ":"))

    def read(self, name: str) -> Any:
        """A state as it is now."""
        if name in self.expires and self.now is not None and self.expires[name] <= self.now:
            self.forget(name)
        return self.states.get(name)

    def write(self, name: str, value: Any, ttl: int | None) -> None:
        """Remember a state, from now on for its time to live; if there is no time yet, from the next look at it."""
        self.states[name] = value
        if ttl is not None and self.now is not None:
            self.expires[name] = self.now + ttl

    def age(self, ttls: Mapping[str, int], now: int) -> None:
        """Let states begin to age that live for a time and were kept without one."""
        for name in self.states:
            if name in ttls and name not in self.expires:
                self.expires[name] = now + ttls[name]

    def forget(self, name: str) -> None:
        """Forget a state."""
        self.states.pop(name, None)
        self.expires.pop(name, None)

    def forget_expired(self, now: int) -> None:
        """Forget the states whose time is over."""
        for name in [one for one, at in self.expires.items() if at <= now]:
            self.forget(name)

    def ringing(self, until: int, *, before: bool) -> str | None:
        """The first timer that rings up to a time, or before it."""
        if not self.timers:
            return None
        name = min(self.timers, key=lambda one: (self.timers[one], one))
        at = self.timers[name]
        return name if at < until or (at == until and not before) else None

    def wakes(self) -> int | None:
        """When something of it must be looked at, if no row comes before."""
        times = heapq.nsmallest(1, (*self.timers.values(), *self.expires.values()))
        return times[0] if times else None
