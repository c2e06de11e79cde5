"""A database schema and a capture of it, both of one test."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from penstock.broker import read
from penstock.cdc import Capture, Captures
from penstock.settings import Capture as Declared
from tests.conftest import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.connectors.base import Context
    from tests.conftest import Project


class Shop:
    """A schema with a capture that is not created yet."""

    def __init__(self, platform: Project, tables: tuple[str, ...] = ("customers",), **options: Any) -> None:
        self.name = f"shop_{uuid.uuid4().hex[:8]}"
        self.platform = platform
        declared = Declared(tables=tuple(f"{self.name}.{one}" for one in tables), **options)
        self.capture = Capture(self.name, declared)
        self.settings = replace(platform.settings, captures={self.name: declared})
        where = self.settings.postgres
        self._address = f"host={where.host} port={where.port} user={where.user} dbname={where.database}"
        self.sql(f"CREATE SCHEMA {self.name}")
        self.sql("CREATE TABLE customers (id bigint PRIMARY KEY, name text, city text)")

    def sql(self, *statements: str) -> list[tuple[Any, ...]]:
        """Run statements in one transaction; the rows of the last one."""
        with psycopg.connect(self._address, options=f"-c search_path={self.name}") as connection:
            done = [connection.execute(one) for one in statements]
            return done[-1].fetchall() if done[-1].description else []

    def topic(self, table: str = "customers") -> str:
        """The topic of a table."""
        return f"{self.name}.{self.name}.{table}"

    def changes(self, table: str = "customers") -> list[dict[str, Any]]:
        """What the topic of a table has, without end marks."""
        return [one.json() for one in read(self.settings.kafka, self.topic(table)) if one.value is not None]

    def wait_for(self, count: int, table: str = "customers") -> list[dict[str, Any]]:
        """The changes once there are so many."""
        wait_until(lambda: len(self.changes(table)) >= count, 60, f"{count} changes of {table}")
        return self.changes(table)

    def into(self, context: Context) -> Context:
        """A context that knows the capture."""
        return replace(context, settings=replace(context.settings, captures=self.settings.captures))

    def close(self) -> None:
        """Remove all of it."""
        with Captures(self.settings) as captures:
            captures.delete(self.capture)
        self.sql(f"DROP SCHEMA {self.name} CASCADE")


@pytest.fixture
def shop(platform: Project) -> Iterator[Shop]:
    """A shop whose capture is gone after the test."""
    made = Shop(platform)
    yield made
    made.close()


@pytest.fixture
def captures(shop: Shop) -> Iterator[Captures]:
    """What can be done with the capture of the shop."""
    with Captures(shop.settings) as made:
        yield made
