"""Memory as a sink: a table of the session, for tests and notebooks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from penstock.connectors.base import Context, SinkConnector

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import DataStreamWriter

__all__ = ["Memory"]


@dataclass(frozen=True)
class Memory(SinkConnector):
    """Keep the rows in a table of the Spark session."""

    table: str

    system: ClassVar = "memory"
    summary: ClassVar = "Rows in a table of the Spark session; gone with the process."
    guarantee: ClassVar = "at-least-once"

    def target(self) -> str:
        """The table."""
        return f"memory:{self.table}"

    def write(self, rows: DataFrame, context: Context) -> DataStreamWriter:
        """Spark's own memory sink."""
        return rows.writeStream.format("memory")

    def query_name(self, usual: str) -> str:
        """Spark names the table after the query."""
        return self.table
