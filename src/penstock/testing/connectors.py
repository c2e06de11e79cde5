"""A source and a table that are given rows and a sink that keeps them, in the place of the real ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.connectors.base import (
    BAD,
    ORIGIN,
    Context,
    IdempotentSink,
    MessageSink,
    SinkConnector,
    SourceConnector,
    TableConnector,
)
from penstock.connectors.memory import Memory
from penstock.connectors.writing import Batch, Writer
from penstock.pipeline.declare import Table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from penstock.connectors.writing import Opening
    from penstock.pipeline.declare import Source

__all__ = ["GivenRows", "KeptRows", "given_rows", "plain"]


@dataclass(frozen=True)
class GivenRows(Memory, TableConnector):
    """Rows of a test with the columns of the real source or table."""

    real: SourceConnector | None = None

    system: ClassVar = "given"
    summary: ClassVar = "Rows given by a test."

    def target(self) -> str:
        """What it stands for."""
        return self.real.target() if self.real else super().target()

    def table(self, context: Context) -> DataFrame:
        """All rows that were given so far."""
        return self._decoded(context.spark.read.schema(self._schema()).json(str(self._made()))).drop(BAD, ORIGIN)


def given_rows(read: Source | Table, context: Context) -> GivenRows:
    """Stand for a real connector: its columns are asked of it, its rows are not."""
    if isinstance(read, Table):
        return GivenRows(read.name, read.connector.table_columns(context), real=read.connector)
    return GivenRows(read.name, read.connector.columns(context), real=read.connector)


@dataclass(frozen=True)
class KeptRows(IdempotentSink, MessageSink):
    """The rows of each batch; a batch that comes again after a crash takes the place of its first try."""

    real: SinkConnector
    batches: dict[int, list[dict[str, Any]]] = field(default_factory=dict, compare=False)

    system: ClassVar = "kept"
    summary: ClassVar = "Rows kept for a test."
    sentence: ClassVar = "a batch that comes again takes the place of its first try"
    realtime: ClassVar = True

    def target(self) -> str:
        """The sink that it stands for."""
        return self.real.target()

    @property
    def sole_topic(self) -> str:
        """The topic of the real sink."""
        return self.real.sole_topic if isinstance(self.real, MessageSink) else self.target()

    def check(self, rows: DataFrame, context: Context) -> None:
        """Ask the real sink."""
        self.real.check(rows, context)

    def open(self, opening: Opening) -> Keeping:
        """Collect each batch."""
        return Keeping([(flow, sink) for flow, sink in opening.sinks if isinstance(sink, KeptRows)])

    def open_topic(self, context: Context) -> None:
        """There is none."""

    def encoded(self, rows: DataFrame, context: Context) -> DataFrame:
        """As the real sink would have it."""
        return self.real.encoded(rows, context) if isinstance(self.real, MessageSink) else rows

    def rows(self) -> list[dict[str, Any]]:
        """All rows so far, batch by batch."""
        return [row for number in sorted(self.batches) for row in self.batches[number]]


class Keeping(Writer):
    """Collects the rows of each batch."""

    def __init__(self, sinks: list[tuple[str, KeptRows]]) -> None:
        self._sinks = sinks

    def write(self, rows: Mapping[str, DataFrame], batch: Batch) -> None:
        """Collect one batch."""
        for flow, sink in self._sinks:
            sink.batches[batch.number] = [plain(row.asDict(recursive=True)) for row in rows[flow].collect()]

    def close(self) -> None:
        """Nothing is held."""


def plain(value: Any) -> Any:
    """A value as a test wants it: times are in UTC and say so, wherever the test runs."""
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, list) else value
