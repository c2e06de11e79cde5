"""The console as a sink, for looking."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from penstock.connectors.base import BestEffortSink, Context

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import DataStreamWriter

__all__ = ["Console"]


@dataclass(frozen=True)
class Console(BestEffortSink):
    """Print the rows of each batch."""

    rows: int = 20

    system: ClassVar = "console"
    summary: ClassVar = "Rows printed batch by batch, for looking only."
    realtime: ClassVar = True
    exclusive: ClassVar = False

    def target(self) -> str:
        """There is one."""
        return "console:"

    def write(self, rows: DataFrame, context: Context) -> DataStreamWriter:
        """Spark's own console."""
        return rows.writeStream.format("console").option("numRows", self.rows).option("truncate", "false")
