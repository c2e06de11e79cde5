"""PostgreSQL tables as a sink: rows and the mark in one transaction of the database."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from penstock.connectors.base import Context, TransactionalSink
from penstock.connectors.keyed import KeyedSink
from penstock.connectors.postgres_types import sql_type
from penstock.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

    from penstock.connectors.postgres_writer import PostgresWriter
    from penstock.connectors.writing import Opening

__all__ = ["Postgres"]

_NAME = re.compile(r"[^\x00\"]{1,63}")


@dataclass(frozen=True)
class Postgres(KeyedSink, TransactionalSink):
    """One table, `name` or `schema.name`, in the database of the profile (or another one of the same server).

    Without a `key` rows are appended. With one (a column, or several) a row takes the place of the one with its key,
    and `delete` is a SQL condition that makes a row delete its key instead: `delete="op = 'd'"`. `create` makes the
    table from the flow's columns if it is not there. `writers` is how many connections fill a batch side by side; it
    becomes visible at once all the same.
    """

    table: str
    key: str | tuple[str, ...] | None = None
    delete: str | None = None
    create: bool = False
    database: str | None = None
    writers: int = 1

    system: ClassVar = "postgres"
    summary: ClassVar = "Rows in a PostgreSQL table: appended, or by key with deletes; written by COPY."
    sentence: ClassVar = "a batch is committed with its mark in one transaction: every row appears exactly once"

    def target(self) -> str:
        """The table."""
        return f"postgres:{self.database + '/' if self.database else ''}{'.'.join(self.path)}"

    @property
    def path(self) -> tuple[str, ...]:
        """Schema and name."""
        return tuple(self.table.split("."))

    def together(self) -> str:
        """All tables of one database in one transaction."""
        return f"postgres:{self.database or ''}"

    def problems(self) -> Iterator[tuple[str, str]]:
        """Names that PostgreSQL can't have, deletes without a key."""
        yield from super().problems()
        if len(self.path) > 2 or not all(_NAME.fullmatch(part) for part in self.path):
            yield f"{self.table!r} is not a table's name.", "Write name or schema.name."
        if self.writers < 1:
            yield "writers must be at least 1.", "Leave it out for one."

    def beside(self, unique: str) -> Postgres:
        """A table in the same schema, filled by one connection."""
        *schema, name = self.path
        return replace(self, table=".".join([*schema, f"{name[:50]}__{unique}"]), create=True)

    def check(self, rows: DataFrame, context: Context) -> None:
        """Every column has a type there, every key column is one of them."""
        for one in rows.schema.fields:
            sql_type(one.dataType, one.name)
            if not _NAME.fullmatch(one.name) or len(one.name.encode()) > 63:
                raise DeclarationError(
                    f"{one.name!r} can't be a column's name in PostgreSQL.",
                    code="column-name",
                    remedy="Rename it in the flow: at most 63 bytes.",
                )
        self.check_key(rows)

    def open(self, opening: Opening) -> PostgresWriter:
        """One connection for all tables of a query."""
        from penstock.connectors.postgres_writer import PostgresWriter

        sinks = [(flow, sink) for flow, sink in opening.sinks if isinstance(sink, Postgres)]
        return PostgresWriter(opening, sinks)
