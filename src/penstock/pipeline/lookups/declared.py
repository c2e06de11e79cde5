"""Lookups as a pipeline declares them: which service, what it answers, how long it is waited for and remembered."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import quote, urlsplit

from penstock.errors import DeclarationError
from penstock.pipeline.declare import Flow, Place
from penstock.pipeline.durations import seconds
from penstock.pipeline.keyed.kinds import columns_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock.pipeline.declare import Expectation
    from penstock.pipeline.lookups.answer import Client
    from penstock.settings import Postgres, Secret

__all__ = ["HttpLookup", "Lookup", "SqlLookup", "lookup_flow"]

_MISSING = ("null", "dead letter")
_COLUMN = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True, kw_only=True)
class Lookup(ABC):
    """What every lookup has.

    `returns` are the columns that are added to a row. `cache` is how long an answer is remembered, None asks in every
    batch; at most `cache_entries` are. A request that takes longer than `timeout`, or fails in passing, comes again
    `retries` times, later each time; then the columns are those of `fallback`, or the row is a dead letter. `missing`
    is what becomes of a row that the service does not know: "null" leaves the columns empty, or "dead letter".
    """

    returns: str
    cache: str | None = "1 minute"
    cache_entries: int = 100_000
    timeout: str = "2 seconds"
    retries: int = 2
    fallback: Mapping[str, Any] | None = None
    missing: str = "null"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.target()!r})"

    @property
    @abstractmethod
    def asks_by(self) -> tuple[str, ...]:
        """The columns of the input that make the question."""

    @abstractmethod
    def target(self) -> str:
        """The service in a word, without anything secret."""

    @abstractmethod
    def client(self, postgres: Postgres) -> Client:
        """What asks the service, made where it is asked."""

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that are added."""
        return tuple(name for name, _ in columns_of(self.returns).fields)

    def problems(self) -> Iterator[tuple[str, str]]:
        """What is wrong with the options, each with its remedy; found without Spark."""
        for name, value in (("cache", self.cache), ("timeout", self.timeout)):
            if value is not None and not seconds(value):
                yield f"{name}={value!r} is not a duration.", "Write it like '2 seconds' or '10 minutes'."
        for name, least in (("cache_entries", 1), ("retries", 0)):
            if getattr(self, name) < least:
                yield f"{name} must be at least {least}.", "Leave it out for the usual."
        if self.missing not in _MISSING:
            yield f"missing={self.missing!r} is not known.", f"Write one of {', '.join(_MISSING)}."
        try:
            names = self.names
        except DeclarationError as error:
            yield error.problem, error.remedy
            return
        for name in self.fallback or {}:
            if name not in names:
                yield f"fallback has {name!r}, which is not returned.", f"It may have {', '.join(names)}."


@dataclass(frozen=True, repr=False)
class HttpLookup(Lookup):
    """A GET to `url` for each question: `HttpLookup("http://crm/customers/{customer_id}", returns="name STRING")`.

    `{customer_id}` is the column of that name. The answer is a JSON object, of which the returned columns are taken;
    404 means that there is none. `concurrency` requests are under way at once in each Python worker. Values of
    `headers` may be `Secret(env="TOKEN")`, revealed where the service is asked.
    """

    url: str
    headers: Mapping[str, str | Secret] = field(default_factory=dict, kw_only=True)
    concurrency: int = field(default=16, kw_only=True)

    @property
    def asks_by(self) -> tuple[str, ...]:
        """The names in the address, each once."""
        return tuple(dict.fromkeys(_COLUMN.findall(self.url)))

    def target(self) -> str:
        """The address without user, password and query."""
        parts = urlsplit(self.url)
        return f"http:{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    def address(self, values: Mapping[str, str]) -> str:
        """The address with the values of a row, none of which can change its shape."""
        return _COLUMN.sub(lambda found: quote(values[found[1]], safe=""), self.url)

    @property
    def in_path(self) -> tuple[str, ...]:
        """The columns that are parts of the path."""
        return tuple(_COLUMN.findall(urlsplit(self.url).path))

    def client(self, postgres: Postgres) -> Client:
        """Requests side by side."""
        from penstock.pipeline.lookups.http import HttpClient

        return HttpClient(self)

    def problems(self) -> Iterator[tuple[str, str]]:
        """Also addresses that are none, or that ask every row the same."""
        yield from super().problems()
        try:
            parts = urlsplit(self.url)
        except ValueError as error:
            yield f"The address of the lookup can't be read ({error}).", "Write http://host/path/{column}."
            return
        if parts.scheme not in ("http", "https") or not parts.netloc:
            yield f"{self.target()[5:]!r} is not an address.", "Write http://… or https://…"
        if "@" in parts.netloc:
            yield "A password does not belong into an address.", "Give a header: headers={'Authorization': Secret(…)}."
        if "{" in parts.netloc:
            yield "The host of a lookup is the same for every row.", "Put columns into the path or the query."
        if not self.asks_by or not all(self.asks_by):
            yield "The address names no column.", "Write one in braces: http://host/customers/{customer_id}."
        if not 1 <= self.concurrency <= 256:
            yield "concurrency must be from 1 to 256.", "Leave it out for 16."


@dataclass(frozen=True, repr=False)
class SqlLookup(Lookup):
    """A row of a PostgreSQL table: `SqlLookup("customers", key="id", on="customer_id", returns="tier STRING")`.

    `table` is `name` or `schema.name` in the database of the profile (or another one of the same server), `key` its
    unique column, or several, and `on` the columns of the input that have its value, if they are called otherwise. All
    questions of a batch are one statement. The returned columns are columns of the table.
    """

    table: str
    key: str | tuple[str, ...] = field(kw_only=True)
    on: str | tuple[str, ...] | None = field(default=None, kw_only=True)
    database: str | None = field(default=None, kw_only=True)

    @property
    def path(self) -> tuple[str, ...]:
        """Schema and name."""
        return tuple(self.table.split("."))

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns of the key."""
        return (self.key,) if isinstance(self.key, str) else tuple(self.key)

    @property
    def asks_by(self) -> tuple[str, ...]:
        """The columns of the input that have the key."""
        on = self.key if self.on is None else self.on
        return (on,) if isinstance(on, str) else tuple(on)

    def target(self) -> str:
        """The table."""
        return f"postgres:{self.database + '/' if self.database else ''}{self.table}"

    def client(self, postgres: Postgres) -> Client:
        """One connection."""
        from penstock.pipeline.lookups.sql import SqlClient

        return SqlClient(self, postgres)

    def problems(self) -> Iterator[tuple[str, str]]:
        """Also names that are none, and keys that do not go together."""
        yield from super().problems()
        if len(self.path) > 2 or not all(self.path):
            yield f"{self.table!r} is not a table's name.", "Write name or schema.name."
        if not self.keys or len(self.keys) != len(self.asks_by):
            yield "key and on do not have the same number of columns.", "Write key='id', on='customer_id'."


def lookup_flow(name: str, given: str, lookup: Lookup, expectations: tuple[Expectation, ...]) -> Flow:
    """The flow of a lookup."""
    place = Place.of_caller()
    if not isinstance(lookup, Lookup):
        raise DeclarationError(
            f"{lookup!r} is no lookup.",
            code="declaration-wrong",
            place=str(place),
            remedy="Give one such as ps.HttpLookup('http://host/customers/{customer_id}', returns='tier STRING').",
        )
    return Flow(
        name=name,
        function=partial(_not_called, name),
        inputs=(given,),
        expectations=expectations,
        emit="final",
        place=place,
        returns=lookup.returns,
        lookup=lookup,
    )


def _not_called(name: str, *inputs: Any) -> NoReturn:
    raise DeclarationError(
        f"{name!r} is a lookup, not a function.", code="lookup-called", remedy="Try it in a penstock.testing.Trial."
    )
