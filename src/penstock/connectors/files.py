"""Folders of files as a source, a table and a sink."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.connectors.base import BAD, ORIGIN, BestEffortSink, Context, TableConnector, good_or_raise, quoted
from penstock.connectors.file_log import files_of_batch, is_log_of
from penstock.connectors.frozen import frozen_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import DataStreamWriter

__all__ = ["Files"]

_KINDS = ("json", "csv", "parquet")
_CORRUPT = "__corrupt"


@dataclass(frozen=True)
class Files(TableConnector, BestEffortSink):
    """A folder of JSON lines, CSV or Parquet; a source takes new files as they come.

    Without a `schema` a source learns its columns from the files that are there and freezes them in `schemas/`.
    `header` is for CSV: whether each file begins with the names of its columns.
    """

    folder: str
    kind: str = "json"
    schema: str | None = None
    files_per_batch: int | None = None
    header: bool = False

    system: ClassVar = "files"
    summary: ClassVar = "Files in a folder; as a sink each batch's files appear once, by Spark's own log of files."
    guarantee: ClassVar = "exactly-once"
    sentence: ClassVar = (
        "who reads the folder with Spark sees each batch once; other readers may see files of a failed try"
    )

    def target(self) -> str:
        """The folder."""
        return f"files:{self.folder}"

    def problems(self) -> Iterator[tuple[str, str]]:
        """Kinds there are not."""
        if self.kind not in _KINDS:
            yield (f"kind={self.kind!r} is not a kind of file.", f"Write one of {', '.join(_KINDS)}.")

    def takes_changes(self) -> bool:
        """A file can't be changed."""
        return False

    def stream(self, context: Context) -> DataFrame:
        """New files as they come; a line that does not fit the schema is bad."""
        reader = context.spark.readStream.format(self.kind).options(**self._options()).schema(self._schema(context))
        if self.files_per_batch:
            reader = reader.option("maxFilesPerTrigger", self.files_per_batch)
        return self._decoded(reader.load(self.folder))

    def table(self, context: Context) -> DataFrame:
        """All files that are there; a line that does not fit the schema stops the query."""
        from pyspark.sql import functions as F  # noqa: N812

        return good_or_raise(self._decoded(self._read(context, self.folder)), F.lit(self.target()))

    def recognises(self, told: Mapping[str, Any]) -> bool:
        """The log names files of the folder."""
        return is_log_of(told, self.folder)

    def replay(self, context: Context, told: Mapping[str, Any]) -> DataFrame:
        """The files of a batch."""
        return self._decoded(self._read(context, *files_of_batch(told)))

    def write(self, rows: DataFrame, context: Context) -> DataStreamWriter:
        """A file or more per batch."""
        options = {"header": "true"} if self.header else {}
        return rows.writeStream.format(self.kind).options(**options).option("path", self.folder)

    def _read(self, context: Context, *paths: str) -> DataFrame:
        reader = context.spark.read.format(self.kind).options(**self._options()).schema(self._schema(context))
        return reader.load(list(paths))

    def columns(self, context: Context) -> str:
        """The columns, declared or learnt once."""
        return self.schema or frozen_schema(context, self.target(), lambda: self._ddl(context))

    def _schema(self, context: Context) -> str:
        columns = self.columns(context)
        return columns if self.kind == "parquet" else f"{columns}, {_CORRUPT} STRING"

    def _ddl(self, context: Context) -> str:
        reader = context.spark.read.format(self.kind).options(**self._options()).option("inferSchema", "true")
        return str(reader.option("inferTimestamp", "true").load(self.folder)._jdf.schema().toDDL())

    def _options(self) -> dict[str, str]:
        return {"columnNameOfCorruptRecord": _CORRUPT, "header": "true" if self.header else "false"}

    def _decoded(self, loaded: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812

        path = F.col("_metadata.file_path").alias("topic")
        shown = [name for name in loaded.columns if name != _CORRUPT]
        raw = F.col(_CORRUPT) if _CORRUPT in loaded.columns else F.lit(None).cast("string")
        bad = F.when(raw.isNotNull(), F.lit(f"not {self.kind.upper()} of the schema")).alias(BAD)
        value = F.coalesce(raw, F.to_json(F.struct(*quoted(shown)))).alias("value")
        return loaded.select(*quoted(shown), bad, F.struct(path, value).alias(ORIGIN))
