"""Delta tables as a sink: Parquet by Spark, committed by `deltalake` with the mark as an application transaction."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from penstock.connectors.base import Context, TransactionalSink
from penstock.connectors.keyed import KeyedSink
from penstock.connectors.lake import check_columns, local_path

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame

    from penstock.connectors.delta_writer import DeltaWriter
    from penstock.connectors.writing import Opening

__all__ = ["Delta"]


@dataclass(frozen=True)
class Delta(KeyedSink, TransactionalSink):
    """One table, a path or a name below the warehouse of the settings; made from the flow's columns if not there.

    Without a `key` rows are appended. With one (a column, or several) a row takes the place of the one with its key,
    and `delete` is a SQL condition that makes a row delete its key instead. Columns that the flow gains are added.
    When little is waiting, `compact_at` small files are made one, and files unneeded for `keep_days` are removed.
    """

    table: str
    key: str | tuple[str, ...] | None = None
    delete: str | None = None
    compact_at: int = 50
    keep_days: float = 7.0

    system: ClassVar = "delta"
    summary: ClassVar = "Rows in a Delta table: appended, or by key with deletes; readable by any engine."
    sentence: ClassVar = "a batch is one version of the table with its mark in it: every row appears exactly once"

    def target(self) -> str:
        """The table."""
        return f"delta:{self.table}"

    def place(self, context: Context) -> Path:
        """The folder of the table."""
        named = local_path(self.table)
        return named if named.is_absolute() else local_path(context.settings.lake.warehouse) / named

    def problems(self) -> Iterator[tuple[str, str]]:
        """Places that are none, deletes without a key."""
        yield from super().problems()
        if not self.table.strip() or "://" in self.table.removeprefix("file://"):
            yield f"{self.table!r} is not a folder.", "Write a path that driver and executors see."
        if self.compact_at < 2:
            yield "compact_at must be at least 2.", "Leave it out for 50."

    def beside(self, unique: str) -> Delta:
        """A folder beside it."""
        return replace(self, table=f"{self.table.rstrip('/')}__{unique}")

    def check(self, rows: DataFrame, context: Context) -> None:
        """Every column has a type there."""
        check_columns(rows)
        self.check_key(rows)

    def open(self, opening: Opening) -> DeltaWriter:
        """The commits of one table."""
        from penstock.connectors.delta_writer import DeltaWriter

        ((flow, _),) = opening.sinks
        return DeltaWriter(opening, flow, self)
