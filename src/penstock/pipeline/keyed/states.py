"""What a process remembers of a key: declared in its class, at hand in its methods as the state of the current key."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from penstock.errors import DeclarationError
from penstock.pipeline.declare import Place
from penstock.pipeline.durations import seconds
from penstock.pipeline.keyed.kinds import kind_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.pipeline.keyed.kinds import Kind
    from penstock.pipeline.keyed.memory import Memory

__all__ = ["ListState", "MapState", "State", "ValueState"]


class State(ABC):
    """A state of a process; `ttl` forgets it so long, in the process's time, after it was last written."""

    def __init__(self, kind: str, *, ttl: str | None = None) -> None:
        self.place = Place.of_caller()
        self.name = ""
        self.types = kind
        self.kind = self._made(kind)
        self.ttl = self._micros(ttl)
        self.memory: Memory | None = None

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def described(self) -> str:
        """What is kept, in words."""
        return f"{type(self).__name__.removesuffix('State').lower()} of {self.types}"

    @abstractmethod
    def _made(self, kind: str) -> Kind:
        """The type of all that is kept."""

    def clear(self) -> None:
        """Forget it."""
        self._now.forget(self.name)

    @property
    def _now(self) -> Memory:
        """What is remembered of the current key."""
        if self.memory is None:
            raise DeclarationError(
                f"State {self.name!r} has no key here.",
                code="state-outside",
                place=str(self.place),
                remedy="Use it in on_event, on_timer or on_initial.",
            )
        return self.memory

    def _read(self) -> Any:
        return self._now.read(self.name)

    def _write(self, value: Any) -> None:
        self._now.write(self.name, value, self.ttl)

    def _micros(self, ttl: str | None) -> int | None:
        length = seconds(ttl) if ttl is not None else None
        if ttl is not None and not length:
            raise DeclarationError(
                f"ttl={ttl!r} is not a duration.",
                code="declaration-wrong",
                place=str(self.place),
                remedy="Write it like '1 day'.",
            )
        return int(length * 1_000_000) if length else None


class ValueState(State):
    """One value: `small = ps.ValueState("BOOLEAN", ttl="1 hour")`, then `self.small.get()`, `self.small.set(True)`."""

    def _made(self, kind: str) -> Kind:
        return kind_of(kind)

    def get(self, default: Any = None) -> Any:
        """The value, or the default if there is none."""
        found = self._read()
        return default if found is None else found

    def set(self, value: Any) -> None:
        """Remember a value; None forgets it."""
        if value is None:
            self.clear()
        else:
            self._write(self.kind.kept(value))


class ListState(State):
    """Values in their order: `last = ps.ListState("DOUBLE")`, then `self.last.append(5.0)`, `for one in self.last`."""

    def _made(self, kind: str) -> Kind:
        return kind_of(f"ARRAY<{kind}>")

    def __iter__(self) -> Iterator[Any]:
        return iter(self.get())

    def __len__(self) -> int:
        return len(self._read() or ())

    def get(self) -> list[Any]:
        """The values."""
        return list(self._read() or ())

    def append(self, value: Any) -> None:
        """Add a value at the end."""
        added = self.kind.kept([value])
        found = self._read()
        if found is None:
            found = []
        found += added
        self._write(found)

    def set(self, values: Iterable[Any]) -> None:
        """Remember these values only."""
        kept = self.kind.kept(list(values))
        if kept:
            self._write(kept)
        else:
            self.clear()


class MapState(State):
    """Values by key: `days = ps.MapState("DATE", "LONG")`, then `self.days[today] = 1`, `self.days.get(today, 0)`."""

    def __init__(self, keys: str, values: str, *, ttl: str | None = None) -> None:
        super().__init__(f"{keys}, {values}", ttl=ttl)

    def _made(self, kind: str) -> Kind:
        return kind_of(f"MAP<{kind}>")

    def __getitem__(self, key: Any) -> Any:
        return (self._read() or {})[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        added = self.kind.kept({key: value})
        found = self._read()
        if found is None:
            found = {}
        found.update(added)
        self._write(found)

    def __delitem__(self, key: Any) -> None:
        found = self._read() or {}
        del found[key]
        if not found:
            self.clear()

    def __contains__(self, key: object) -> bool:
        return key in (self._read() or {})

    def __iter__(self) -> Iterator[Any]:
        return iter(dict(self._read() or {}))

    def __len__(self) -> int:
        return len(self._read() or {})

    def get(self, key: Any, default: Any = None) -> Any:
        """The value of a key, or the default."""
        return (self._read() or {}).get(key, default)

    def items(self) -> list[tuple[Any, Any]]:
        """All keys with their values."""
        return list((self._read() or {}).items())
