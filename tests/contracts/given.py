"""A sink with a query of its own: batches are written as the commit protocol writes them."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from penstock.connectors.writing import Batch, Letter, MarkedWriter, Opening, Writer, is_due

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame

    from penstock.connectors.base import BatchSink, Context
    from tests.contracts.rigs import Rig

COLUMNS = "id LONG, name STRING, gone BOOLEAN"


class Given:
    """A rig and the batches of one query."""

    def __init__(self, rig: Rig, context: Context, folder: Path) -> None:
        self.rig = rig
        self.context = context
        self.folder = folder
        self.query_id = str(uuid.uuid4())
        self.writers: list[Writer] = []

    def opened(self, *names: str, run: str = f"{7:015x}", sink: BatchSink | None = None) -> Writer:
        sinks = tuple((name, sink or self.rig.sink(name)) for name in names or ("a",))
        pipeline = f"contract-{self.rig.unique}"
        opening = Opening(self.context, pipeline, "q", self.query_id, run, sinks)
        self.writers.append(sinks[0][1].open(opening))
        return self.writers[-1]

    def write(self, writer: Writer, rows: dict[str, DataFrame], batch: Batch) -> list[Letter]:
        """As the commit protocol does it: ask, then write."""
        if isinstance(writer, MarkedWriter):
            assert is_due(writer.mark(), batch, "it", adopt=False)
        writer.write(rows, batch)
        return batch.refused()

    def batch(self, number: int, digest: str | None = None) -> Batch:
        return Batch(number, digest or f"{number:015x}", self.folder / f"staged-{uuid.uuid4().hex[:6]}")

    def frame(self, *rows: tuple[int, str] | tuple[int, str, bool]) -> DataFrame:
        return self.context.spark.createDataFrame([(*row, False)[:3] for row in rows], COLUMNS)

    def names(self, name: str = "a") -> list[str]:
        return sorted(row["name"] for row in self.rig.rows(name))
