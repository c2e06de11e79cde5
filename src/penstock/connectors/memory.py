"""Memory as a source and as a sink: rows of this process, for tests and notebooks."""

from __future__ import annotations

import atexit
import functools
import json
import shutil
import tempfile
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.connectors.base import BAD, ORIGIN, BestEffortSink, Context, SourceConnector
from penstock.connectors.file_log import files_of_batch, is_log_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import DataStreamWriter

__all__ = ["Memory"]


@functools.cache
def _root() -> Path:
    """One folder of this process for all memories; gone with it."""
    root = Path(tempfile.mkdtemp(prefix="penstock-memory-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    return root


def _folder() -> str:
    return str(_root() / uuid.uuid4().hex)


@dataclass(frozen=True)
class Memory(SourceConnector, BestEffortSink):
    """As a sink a table of the Spark session; as a source the rows that `add` was given, a batch for each call."""

    name: str
    schema: str | None = None
    folder: str = field(default_factory=_folder, compare=False, repr=False)

    system: ClassVar = "memory"
    summary: ClassVar = "Rows in memory of this process; gone with it."
    lasting: ClassVar = False

    def target(self) -> str:
        """The table."""
        return f"memory:{self.name}"

    def problems(self) -> Iterator[tuple[str, str]]:
        """Names that can't be a table's."""
        if not self.name.isidentifier():
            yield (f"{self.name!r} can't be a table's name.", "Use letters, digits and _.")

    def add(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Give rows; they are read as one batch."""
        lines = [json.dumps({"row": row}, default=str) for row in rows]
        place = self._made()
        number = len(list(place.glob("*.json")))
        fresh = place / f".{number:06}"
        fresh.write_text("\n".join(lines) + "\n", encoding="utf-8")
        fresh.rename(place / f"{number:06}.json")

    def stream(self, context: Context) -> DataFrame:
        """The rows of each call of `add`."""
        reader = context.spark.readStream.option("maxFilesPerTrigger", 1).schema(self._schema())
        return self._decoded(reader.json(str(self._made())))

    def recognises(self, told: Mapping[str, Any]) -> bool:
        """The log names files of the folder."""
        return is_log_of(told, self.folder)

    def replay(self, context: Context, told: Mapping[str, Any]) -> DataFrame:
        """The rows of a batch."""
        return self._decoded(context.spark.read.schema(self._schema()).json(files_of_batch(told)))

    def write(self, rows: DataFrame, context: Context) -> DataStreamWriter:
        """Spark's own memory sink."""
        return rows.writeStream.format("memory")

    def query_name(self, usual: str) -> str:
        """Spark names the table after the query."""
        return self.name

    def _made(self) -> Path:
        place = Path(self.folder)
        place.mkdir(exist_ok=True)
        return place

    def _schema(self) -> str:
        return f"row STRUCT<{self.schema}>, __corrupt STRING"

    def _decoded(self, loaded: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812

        bad = F.when(F.col("row").isNull(), F.lit("not a row of the schema"))
        value = F.to_json("row").alias("value")
        return loaded.select("row.*", bad.alias(BAD), F.struct(F.lit(self.name).alias("topic"), value).alias(ORIGIN))
