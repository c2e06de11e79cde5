"""The types of Spark as Python values and as JSON, told from their DDL without Spark."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import TYPE_CHECKING, Any

from penstock.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Kind", "Struct", "columns_of", "holds", "kind_of"]

_TOKEN = re.compile(r"\s*(?:(`(?:[^`]|``)+`)|([A-Za-z_][\w]*)|(\d+)|([<>(),:]))")
_WHOLE = {"TINYINT": 8, "BYTE": 8, "SMALLINT": 16, "SHORT": 16, "INT": 32, "INTEGER": 32, "BIGINT": 64, "LONG": 64}
_REAL = ("FLOAT", "REAL", "DOUBLE")
_LARGEST_FLOAT = 3.4028235677973366e38
_WIDE = Context(prec=100)


@dataclass(frozen=True)
class Kind:
    """A type: `load` makes a value of what JSON says, `dump` the other way; what does not fit is refused."""

    name: str

    plain = True  # JSON has the value as it is
    decimal = False  # numbers must not become floats

    def load(self, told: Any) -> Any:
        """A value from JSON."""
        return told

    def dump(self, value: Any) -> Any:
        """A value for JSON."""
        if value is not None and not self._fits(value):
            raise TypeError(f"{value!r:.100} is not a {self.name}")
        return value

    def kept(self, value: Any) -> Any:
        """A value as it comes back from where it is kept, and no other's."""
        return self.load(self.dump(value))

    def taken(self, told: Any) -> Any:
        """A value that is of this type, or as JSON has it."""
        try:
            return self.kept(self.load(told))
        except (TypeError, ValueError, AttributeError, ArithmeticError):
            return self.kept(told)

    def _fits(self, value: Any) -> bool:
        if self.name in _WHOLE:
            limit = 1 << (_WHOLE[self.name] - 1)
            return type(value) is int and -limit <= value < limit
        return type(value) is bool if self.name == "BOOLEAN" else isinstance(value, str)


class _Real(Kind):
    plain = False

    def load(self, told: Any) -> Any:
        return None if told is None else float(told)

    def dump(self, value: Any) -> Any:
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError(f"{value!r:.100} is not a {self.name}")
        found = float(value)
        if self.name != "DOUBLE" and _LARGEST_FLOAT < abs(found) < float("inf"):
            raise TypeError(f"{value!r:.100} is too large for a {self.name}")
        return found if found - found == 0 else {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(found)]


@dataclass(frozen=True)
class _Text(Kind):
    """Types that JSON has as text."""

    type: Any
    read: Callable[[str], Any]
    write: Callable[[Any], str]

    plain = False

    def load(self, told: Any) -> Any:
        return None if told is None else self.read(told)

    def dump(self, value: Any) -> Any:
        if value is None:
            return None
        if type(value) is not self.type:
            raise TypeError(f"{value!r:.100} is not a {self.name}")
        return self.write(value)


@dataclass(frozen=True)
class _Decimal(Kind):
    """Rounded to its scale, as Spark does; what has more digits before the point is refused."""

    digits: int = 10
    scale: int = 0

    plain = False
    decimal = True

    def load(self, told: Any) -> Any:
        return None if told is None else Decimal(told)

    def dump(self, value: Any) -> Any:
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, Decimal | int) or not Decimal(value).is_finite():
            raise TypeError(f"{value!r:.100} is not a {self.name}")
        rounded = Decimal(value).quantize(Decimal(1).scaleb(-self.scale), ROUND_HALF_UP, _WIDE)
        if rounded.copy_abs() >= 10 ** (self.digits - self.scale):
            raise TypeError(f"{value!r:.100} is too large for a {self.name}({self.digits}, {self.scale})")
        return f"{rounded:f}"


@dataclass(frozen=True)
class _Array(Kind):
    items: Kind

    @property
    def plain(self) -> bool:  # type: ignore[override]
        return self.items.plain

    @property
    def decimal(self) -> bool:  # type: ignore[override]
        return self.items.decimal

    def load(self, told: Any) -> Any:
        return told if told is None or self.plain else [self.items.load(one) for one in told]

    def dump(self, value: Any) -> Any:
        if value is not None and not isinstance(value, list | tuple):
            raise TypeError(f"{value!r:.100} is not a {self.name}")
        return None if value is None else [self.items.dump(one) for one in value]


@dataclass(frozen=True)
class _Map(Kind):
    keys: Kind
    values: Kind

    plain = False

    @property
    def decimal(self) -> bool:  # type: ignore[override]
        return self.keys.decimal or self.values.decimal

    def load(self, told: Any) -> Any:
        if told is None:
            return None
        return {self.keys.load(_from_text(self.keys, key)): self.values.load(one) for key, one in told.items()}

    def dump(self, value: Any) -> Any:
        if value is not None and not isinstance(value, dict):
            raise TypeError(f"{value!r:.100} is not a {self.name}")
        return None if value is None else {_as_text(self.keys.dump(k)): self.values.dump(v) for k, v in value.items()}


@dataclass(frozen=True)
class Struct(Kind):
    """Named fields, as a dict."""

    fields: tuple[tuple[str, Kind], ...]

    @property
    def plain(self) -> bool:  # type: ignore[override]
        """Whether no field needs a change."""
        return all(kind.plain for _, kind in self.fields)

    @property
    def decimal(self) -> bool:  # type: ignore[override]
        """Whether a field is a decimal."""
        return any(kind.decimal for _, kind in self.fields)

    def load(self, told: Any) -> Any:
        """All fields, null where JSON has none."""
        return None if told is None else {name: kind.load(told.get(name)) for name, kind in self.fields}

    def dump(self, value: Any) -> Any:
        """The fields that are there; one that is not known is refused."""
        if value is None:
            return None
        if not isinstance(value, dict):
            raise TypeError(f"{value!r:.100} is not a {self.name}")
        made = {}
        for name, kind in self.fields:
            try:
                made[name] = kind.dump(value.get(name))
            except TypeError as error:
                raise TypeError(f"{name}: {error}") from None
        if len(value) > len(made) or not value.keys() <= made.keys():
            raise TypeError(f"{', '.join(sorted(map(str, value.keys() - made.keys())))} is not among its columns")
        return made

    def reader(self) -> Callable[[str], dict[str, Any]]:
        """From the text that Spark makes of a row, with all its fields, to the row."""
        changed = [(name, kind.load) for name, kind in self.fields if not kind.plain]
        numbers: dict[str, Any] = {"parse_float": Decimal} if self.decimal else {}

        def read(text: str) -> dict[str, Any]:
            row: dict[str, Any] = json.loads(text, **numbers)
            for name, load in changed:
                row[name] = load(row.get(name))
            return row

        return read


def kind_of(ddl: str) -> Kind:
    """The type that a DDL says: `BIGINT`, `ARRAY<STRING>`, `STRUCT<at: TIMESTAMP, amount: DECIMAL(10, 2)>`."""
    words = _Words(ddl)
    found = words.kind()
    words.end()
    return found


def columns_of(ddl: str) -> Struct:
    """The columns that a DDL says: `id LONG, at TIMESTAMP`."""
    words = _Words(ddl)
    fields = words.fields("")
    words.end()
    return Struct("STRUCT", fields)


def holds(wanted: Kind, kept: Kind) -> bool:
    """Whether every value that was kept as one type can be read as another: the same, wider, or with more fields."""
    if wanted.name in _WHOLE and kept.name in _WHOLE:
        return _WHOLE[wanted.name] >= _WHOLE[kept.name]
    if isinstance(wanted, _Real):
        return isinstance(kept, _Real)
    if isinstance(wanted, _Array) and isinstance(kept, _Array):
        return holds(wanted.items, kept.items)
    if isinstance(wanted, _Map) and isinstance(kept, _Map):
        return holds(wanted.keys, kept.keys) and holds(wanted.values, kept.values)
    if isinstance(wanted, Struct) and isinstance(kept, Struct):
        fields = dict(wanted.fields)
        return all(name in fields and holds(fields[name], kind) for name, kind in kept.fields)
    if isinstance(wanted, _Decimal) and isinstance(kept, _Decimal):
        return wanted.scale >= kept.scale and wanted.digits - wanted.scale >= kept.digits - kept.scale
    return wanted == kept


class _Words:
    """A DDL, word by word."""

    def __init__(self, ddl: str) -> None:
        self._ddl = ddl
        self._words: list[str] = []
        at = 0
        while ddl[at:].strip():
            match = _TOKEN.match(ddl, at)
            if match is None:
                raise self.wrong()
            self._words.append(match.group().strip())
            at = match.end()
        self._words.reverse()

    def kind(self) -> Kind:
        name = self._next().upper()
        if name == "ARRAY":
            return _Array(name, *self._parts(1))
        if name == "MAP":
            return _Map(name, *self._parts(2))
        if name == "STRUCT":
            self._expect("<")
            made = Struct(name, self.fields(":"))
            self._expect(">")
            return made
        if name in ("DECIMAL", "NUMERIC"):
            return _Decimal("DECIMAL", *self._numbers())
        if name in _REAL:
            return _Real(name)
        if name in _TEXTS:
            return _TEXTS[name]
        if name in _WHOLE or name in ("STRING", "BOOLEAN", "VARCHAR", "CHAR"):
            self._skip_brackets()
            return Kind("STRING" if name in ("VARCHAR", "CHAR") else name)
        raise self.wrong(f"{name} is not a type that is known here")

    def fields(self, between: str) -> tuple[tuple[str, Kind], ...]:
        found = []
        while True:
            name = self._next()
            if self._peek() == ":":
                self._next()
            elif between:
                raise self.wrong()
            name = name[1:-1].replace("``", "`") if name.startswith("`") else name
            found.append((name, self.kind()))
            if self._peek().upper() == "NOT":  # NOT NULL
                self._next()
                self._next()
            if self._peek() != ",":
                return tuple(found)
            self._next()

    def end(self) -> None:
        if self._words:
            raise self.wrong()

    def wrong(self, said: str = "it can't be read") -> DeclarationError:
        return DeclarationError(
            f"{self._ddl!r} does not say types: {said}.",
            code="type-wrong",
            remedy="Write them as Spark does: 'id LONG, words ARRAY<STRING>'.",
        )

    def _parts(self, count: int) -> list[Kind]:
        self._expect("<")
        found = []
        for number in range(count):
            if number:
                self._expect(",")
            found.append(self.kind())
        self._expect(">")
        return found

    def _skip_brackets(self) -> None:
        self._numbers()

    def _numbers(self) -> list[int]:
        """What is in the brackets, if there are any."""
        found = []
        if self._peek() == "(":
            while (word := self._next()) != ")":
                found += [int(word)] if word.isdigit() else []
        return found

    def _peek(self) -> str:
        return self._words[-1] if self._words else ""

    def _next(self) -> str:
        if not self._words:
            raise self.wrong()
        return self._words.pop()

    def _expect(self, word: str) -> None:
        if self._next() != word:
            raise self.wrong()


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def _time_text(value: datetime) -> str:
    moment = value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _as_text(key: Any) -> str:
    return key if isinstance(key, str) else json.dumps(key)


def _from_text(kind: Kind, key: str) -> Any:
    return key if isinstance(kind, _Text | _Decimal) or kind.name == "STRING" else json.loads(key)


_TEXTS = {
    "TIMESTAMP": _Text("TIMESTAMP", datetime, _time, _time_text),
    "TIMESTAMP_NTZ": _Text(
        "TIMESTAMP_NTZ", datetime, datetime.fromisoformat, lambda one: one.isoformat(timespec="microseconds")
    ),
    "DATE": _Text("DATE", date, date.fromisoformat, date.isoformat),
    "BINARY": _Text("BINARY", bytes, base64.b64decode, lambda one: base64.b64encode(one).decode()),
}
