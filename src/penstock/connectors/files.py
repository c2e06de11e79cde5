"""Folders of files as a source and as a sink."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from penstock.connectors.base import BAD, ORIGIN, Context, SinkConnector, SourceConnector

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import DataStreamWriter

__all__ = ["Files"]

_KINDS = ("json", "csv", "parquet")


@dataclass(frozen=True)
class Files(SourceConnector, SinkConnector):
    """A folder of JSON lines, CSV or Parquet; a source takes new files as they come."""

    folder: str
    kind: str = "json"
    schema: str | None = None
    files_per_batch: int | None = None

    system: ClassVar = "files"
    summary: ClassVar = "Files in a folder; as a sink each batch's files appear once, by Spark's own log of files."
    guarantee: ClassVar = "exactly-once"
    updates: ClassVar = False

    def target(self) -> str:
        """The folder."""
        return f"files:{self.folder}"

    def problems(self) -> Iterator[tuple[str, str]]:
        """Kinds there are not."""
        if self.kind not in _KINDS:
            yield (f"kind={self.kind!r} is not a kind of file.", f"Write one of {', '.join(_KINDS)}.")

    def stream(self, context: Context) -> DataFrame:
        """New files as they come; a line that does not fit the schema is bad."""
        from pyspark.sql import functions as F  # noqa: N812

        reader = context.spark.readStream.format(self.kind)
        if self.files_per_batch:
            reader = reader.option("maxFilesPerTrigger", self.files_per_batch)
        path = F.col("_metadata.file_path").alias("topic")
        if self.kind == "parquet":
            loaded = reader.schema(self.schema or "").load(self.folder)
            bad, raw = F.lit(None).cast("string"), F.lit(None).cast("string")
        else:
            loaded = (
                reader.schema(f"{self.schema}, __corrupt STRING")
                .option("columnNameOfCorruptRecord", "__corrupt")
                .load(self.folder)
            )
            bad = F.when(F.col("__corrupt").isNotNull(), F.lit(f"not {self.kind.upper()} of the schema"))
            raw = F.col("__corrupt")
        origin = F.struct(path, raw.alias("value"))
        shown = [name for name in loaded.columns if name != "__corrupt"]
        return loaded.select(*shown, bad.alias(BAD), origin.alias(ORIGIN))

    def write(self, rows: DataFrame, context: Context) -> DataStreamWriter:
        """A file or more per batch."""
        return rows.writeStream.format(self.kind).option("path", self.folder)
