"""A source that is given rows and a sink that keeps them, in the place of the real ones."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.connectors.base import BAD, ORIGIN, Context, SinkConnector, SourceConnector

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import DataStreamWriter

__all__ = ["GivenRows", "KeptRows"]

_TICK = "__tick"


@dataclass(frozen=True)
class GivenRows(SourceConnector):
    """Rows of files in a folder, one file per batch; a row that only moves the time never reaches a flow."""

    name: str
    real: SourceConnector
    folder: str

    system: ClassVar = "given"
    summary: ClassVar = "Rows given by a test."

    def target(self) -> str:
        """The source that it stands for."""
        return self.real.target()

    def columns(self, context: Context) -> str:
        """What the real source would give, as DDL."""
        rows = self.real.stream(context).drop(BAD, ORIGIN)
        return ", ".join(f"`{one.name}` {one.dataType.simpleString()}" for one in rows.schema.fields)

    def add(self, rows: list[dict[str, Any]], tick: tuple[str, datetime] | None = None) -> None:
        """Write the rows of one batch, or a tick of the clock."""
        lines = [json.dumps({"row": row}, default=str) for row in rows]
        if tick is not None:
            lines.append(json.dumps({"row": {tick[0]: tick[1].isoformat()}, "tick": True}))
        folder = Path(self.folder)
        number = len(list(folder.glob("*.json")))
        fresh = folder / f".{number:06}"
        fresh.write_text("\n".join(lines) + "\n", encoding="utf-8")
        fresh.rename(folder / f"{number:06}.json")

    def stream(self, context: Context) -> DataFrame:
        """One file a batch."""
        reader = context.spark.readStream.option("maxFilesPerTrigger", 1).schema(self._schema(context))
        return self._decoded(reader.json(self.folder))

    def settled(self, rows: DataFrame, time: str | None) -> DataFrame:
        """Take the ticks out; the condition names the time, or Spark would take them out before they are seen."""
        from pyspark.sql import functions as F  # noqa: N812

        ticked = F.coalesce(F.col(_TICK), F.lit(False))
        if time is not None:
            ticked = ticked & (F.col(time) > F.lit("0001-01-02").cast("timestamp"))
        return rows.filter(~ticked).drop(_TICK)

    def recognises(self, told: dict[str, Any]) -> bool:
        """Spark names the folder."""
        return self.folder in (told.get("description") or "")

    def replay(self, context: Context, begin: Any, end: Any) -> DataFrame:
        """The files of a batch."""
        first = begin.get("logOffset", -1) + 1 if begin else 0
        paths = [str(Path(self.folder) / f"{number:06}.json") for number in range(first, end["logOffset"] + 1)]
        return self.settled(self._decoded(context.spark.read.schema(self._schema(context)).json(paths)), None)

    def _schema(self, context: Context) -> str:
        return f"row STRUCT<{self.columns(context).replace('` ', '`: ')}>, tick BOOLEAN, __corrupt STRING"

    def _decoded(self, loaded: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812

        bad = F.when(F.col("row").isNull(), F.lit("not a row of the source"))
        origin = F.struct(F.lit(self.name).alias("topic"), F.to_json("row").alias("value"))
        return loaded.select("row.*", F.col("tick").alias(_TICK), bad.alias(BAD), origin.alias(ORIGIN))


@dataclass(frozen=True)
class KeptRows(SinkConnector):
    """The rows of each batch; a batch that comes again after a crash takes the place of its first try."""

    real: SinkConnector
    batches: dict[int, list[dict[str, Any]]] = field(default_factory=dict, compare=False)

    system: ClassVar = "kept"
    summary: ClassVar = "Rows kept for a test."
    guarantee: ClassVar = "exactly-once"

    def target(self) -> str:
        """The sink that it stands for."""
        return self.real.target()

    def write(self, rows: DataFrame, context: Context) -> DataStreamWriter:
        """Collect each batch."""

        def keep(batch: DataFrame, number: int) -> None:
            self.batches[number] = [row.asDict(recursive=True) for row in batch.collect()]

        return rows.writeStream.foreachBatch(keep)

    def rows(self) -> list[dict[str, Any]]:
        """All rows so far, batch by batch."""
        return [row for number in sorted(self.batches) for row in self.batches[number]]
