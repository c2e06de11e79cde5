"""Iceberg tables as a sink: Parquet by Spark, committed by PyIceberg with the mark."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from penstock.connectors.base import Context, TransactionalSink
from penstock.connectors.keyed import KeyedSink
from penstock.connectors.lake import check_columns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

    from penstock.connectors.iceberg_writer import IcebergWriter
    from penstock.connectors.writing import Opening

__all__ = ["Iceberg"]


@dataclass(frozen=True)
class Iceberg(KeyedSink, TransactionalSink):
    """One table, `namespace.name`, in the catalog of the settings; made from the flow's columns if it is not there.

    Without a `key` rows are appended. With one (a column, or several) a row takes the place of the one with its key,
    and `delete` is a SQL condition that makes a row delete its key instead. Columns that the flow gains are added.
    When little is waiting, `compact_at` small files are made one, and snapshots older than `keep_days`, or more than
    `keep_snapshots`, are let go.
    """

    table: str
    key: str | tuple[str, ...] | None = None
    delete: str | None = None
    compact_at: int = 50
    keep_days: float = 7.0
    keep_snapshots: int = 1_000

    system: ClassVar = "iceberg"
    summary: ClassVar = "Rows in an Iceberg table: appended, or by key with deletes; readable by any engine."
    sentence: ClassVar = "a batch is one snapshot with its mark in it: every row appears exactly once"

    def target(self) -> str:
        """The table."""
        return f"iceberg:{self.table}"

    def problems(self) -> Iterator[tuple[str, str]]:
        """Names without a namespace, deletes without a key."""
        yield from super().problems()
        if not re.fullmatch(r"\w+(\.\w+)+", self.table):
            yield f"{self.table!r} is not a table's name.", "Write namespace.name."
        if self.compact_at < 2:
            yield "compact_at must be at least 2.", "Leave it out for 50."
        if self.keep_snapshots < 1:
            yield "keep_snapshots must be at least 1.", "Leave it out for 1,000."

    def check(self, rows: DataFrame, context: Context) -> None:
        """Every column has a type there."""
        check_columns(rows)
        self.check_key(rows)

    def beside(self, unique: str) -> Iceberg:
        """A table in the same namespace."""
        return replace(self, table=f"{self.table}__{unique}")

    def open(self, opening: Opening) -> IcebergWriter:
        """The commits of one table."""
        from penstock.connectors.iceberg_writer import IcebergWriter

        ((flow, _),) = opening.sinks
        return IcebergWriter(opening, flow, self)
