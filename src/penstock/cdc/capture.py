"""A capture: which tables of which database, under which names."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from penstock.errors import DeclarationError
from penstock.settings import FILE
from penstock.settings import Capture as Declared

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.settings import Secret, Settings

__all__ = ["Capture", "Database", "Table", "capture", "find_capture"]

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")  # a part of a slot's name, which PostgreSQL keeps short and small
_CHOICES = {
    "kind": ("postgres", "mysql", "mariadb"),
    "snapshot": ("initial", "schema-only", "never"),
    "before": ("full", "key"),
    "schema_changes": ("evolve", "ignore", "stop"),
    "keep": ("latest", "all"),
}
_PORTS = {"postgres": 5432, "mysql": 3306, "mariadb": 3306}


@dataclass(frozen=True)
class Database:
    """Where a database is, and who we are there."""

    kind: str
    host: str
    port: int
    name: str
    user: str
    password: Secret | None
    sslmode: str | None

    def __str__(self) -> str:
        return f"{self.kind} at {self.host}:{self.port}/{self.name}"


@dataclass(frozen=True)
class Table:
    """A table by its schema (in MySQL the database) and name."""

    schema: str
    name: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"


@dataclass(frozen=True)
class Capture:
    """A named capture: `shop` of table `public.orders` writes the topic `shop.public.orders`."""

    name: str
    declared: Declared

    @property
    def tables(self) -> tuple[Table, ...]:
        """The tables in their order."""
        return tuple(Table(*one.split(".")) for one in self.declared.tables)

    def topic(self, table: Table) -> str:
        """The topic of a table's changes."""
        return f"{self.name}.{table}"

    @property
    def heartbeat_topic(self) -> str:
        """Where the connector says now and then that it lives."""
        return f"__debezium-heartbeat.{self.name}"

    @property
    def slot(self) -> str:
        """The replication slot and the publication in PostgreSQL."""
        return f"penstock_{self.name}"

    def database(self, settings: Settings) -> Database:
        """The database, by default the PostgreSQL of the profile."""
        one, here = self.declared, settings.postgres
        if one.kind == "postgres" and one.host is None:
            name, user = one.database or here.database, one.user or here.user
            password = one.password or (here.password if one.user is None else None)
            return Database("postgres", here.host, one.port or here.port, name, user, password, here.sslmode)
        missing = [each for each in ("host", "database", "user") if getattr(one, each) is None]
        if missing:
            raise self._wrong(f"it has no {missing[0]}", f"Add {missing[0]} = …")
        port = one.port or _PORTS[one.kind]
        return Database(one.kind, str(one.host), port, str(one.database), str(one.user), one.password, one.sslmode)

    def check(self) -> Capture:
        """Refuse what can't be meant."""
        if not _NAME.fullmatch(self.name):
            raise self._wrong("its name is not one", "Use up to 40 small letters, digits and underscores.")
        for each, choices in _CHOICES.items():
            if (given := getattr(self.declared, each)) not in choices:
                raise self._wrong(f"{each} can't be {given!r}", f"Choose one of {', '.join(choices)}.")
        if not self.declared.tables:
            raise self._wrong("it has no tables", 'Name them: tables = ["public.orders"].')
        for table in self.declared.tables:
            if not re.fullmatch(r"[^.\s]+\.[^.\s]+", table):
                raise self._wrong(f"{table!r} is not a table", "Write schema.table, in MySQL database.table.")
        if not 1 <= self.declared.partitions <= 1000 or not 1 <= self.declared.heartbeat_seconds <= 3600:
            raise self._wrong("partitions or heartbeat_seconds is out of range", "Use 1 to 1000, and 1 to 3600.")
        return self

    def _wrong(self, problem: str, remedy: str) -> DeclarationError:
        return DeclarationError(f"Capture {self.name!r}: {problem}.", code="capture-wrong", remedy=remedy)


def capture(name: str, *, tables: Sequence[str], **options: Any) -> Capture:
    """Declare a capture in Python, with the words of `[captures.NAME]` in penstock.toml."""
    known = {one.name for one in fields(Declared)}
    for each in options:
        if each not in known:
            near = difflib.get_close_matches(each, known, 1)
            remedy = f"Did you mean {near[0]!r}?" if near else f"It has {', '.join(sorted(known))}."
            raise DeclarationError(f"A capture has no {each!r}.", code="capture-wrong", remedy=remedy)
    return Capture(name, Declared(tables=tuple(tables), **options)).check()


def find_capture(settings: Settings, name: str) -> Capture:
    """The capture of that name in penstock.toml."""
    if name not in settings.captures:
        near = difflib.get_close_matches(name, settings.captures, 1)
        remedy = f"Did you mean {near[0]!r}?" if near else f"Add [captures.{name}] with its tables to {FILE}."
        raise DeclarationError(f"There is no capture {name!r}.", code="capture-unknown", remedy=remedy)
    return Capture(name, settings.captures[name]).check()
