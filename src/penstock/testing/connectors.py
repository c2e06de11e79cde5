"""A source and a table that are given rows and a sink that keeps them, in the place of the real ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.connectors.base import BAD, ORIGIN, Context, SinkConnector, SourceConnector
from penstock.connectors.memory import Memory

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import DataStreamWriter

__all__ = ["GivenRows", "KeptRows", "given_rows", "plain"]


@dataclass(frozen=True)
class GivenRows(Memory):
    """Rows of a test with the columns of the real source or table."""

    real: SourceConnector | None = None

    system: ClassVar = "given"
    summary: ClassVar = "Rows given by a test."
    is_table: ClassVar = True

    def target(self) -> str:
        """What it stands for."""
        return self.real.target() if self.real else super().target()

    def table(self, context: Context) -> DataFrame:
        """All rows that were given so far."""
        return self._decoded(context.spark.read.schema(self._schema()).json(str(self._made()))).drop(BAD, ORIGIN)


def given_rows(name: str, real: SourceConnector, context: Context) -> GivenRows:
    """Stand for a real connector: its columns are asked of it, its rows are not."""
    return GivenRows(name, real.columns(context), real=real)


@dataclass(frozen=True)
class KeptRows(SinkConnector):
    """The rows of each batch; a batch that comes again after a crash takes the place of its first try."""

    real: SinkConnector
    batches: dict[int, list[dict[str, Any]]] = field(default_factory=dict, compare=False)

    system: ClassVar = "kept"
    summary: ClassVar = "Rows kept for a test."
    guarantee: ClassVar = "exactly-once"
    shared: ClassVar = True
    realtime: ClassVar = True
    takes_late: ClassVar = True

    def target(self) -> str:
        """The sink that it stands for."""
        return self.real.target()

    def write(self, rows: DataFrame, context: Context) -> DataStreamWriter:
        """Collect each batch, once the real sink has found nothing wrong with the columns."""
        self.real.write(rows, context)
        return rows.writeStream.foreachBatch(lambda batch, number: self.write_batch(batch, number, context))

    def write_batch(self, rows: DataFrame, number: int, context: Context) -> None:
        """Collect one batch."""
        self.batches[number] = [plain(row.asDict(recursive=True)) for row in rows.collect()]

    def encoded(self, rows: DataFrame) -> DataFrame:
        """As the real sink would have it."""
        return self.real.encoded(rows)

    def rows(self) -> list[dict[str, Any]]:
        """All rows so far, batch by batch."""
        return [row for number in sorted(self.batches) for row in self.batches[number]]


def plain(value: Any) -> Any:
    """A value as a test wants it: times are in UTC and say so, wherever the test runs."""
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, list) else value
