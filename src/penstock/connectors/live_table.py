"""The current rows of a captured table in files: a base, and a tail of what has changed since.

Whoever reads looks at the manifest first, so that every batch of a query has the newest version: `TableSource` does so
in Spark's workers, each time a plan with it is executed. A version that is being read stays for some minutes.
"""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from penstock.broker.topics import Topics
from penstock.connectors.base import BAD, ORIGIN, good_or_raise, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from penstock.connectors.base import Context
    from penstock.connectors.kafka import Kafka

__all__ = ["VALID_FROM", "VALID_TO", "LiveTable", "TableSource", "history_frame", "table_frame"]

VALID_FROM, VALID_TO = "valid_from", "valid_to"
_KEY, _BUCKET, _GONE, _ORDER, _READ = "__key", "__bucket", "__gone", "__order", "__read"
_BUCKETS = 4
_TAIL = 20_000  # rows, or a tenth of the base if that is more
_SMALL = 500_000  # rows: so large a table goes to every worker whole
_KEPT_SECONDS = 600.0


class LiveTable:
    """Brings the files of one table up to what its topic has: the last row of each key, or every version of it."""

    def __init__(self, folder: Path, topic: Kafka, context: Context, *, history: bool = False) -> None:
        self._history = history
        self._folder = folder
        self._topic = topic
        self._context = context

    def refresh(self) -> bool:
        """Take over what is new; False if nothing is."""
        name = self._topic.sole_topic
        ends = {
            str(part): at for part, at in Topics(self._context.settings.kafka).end_offsets(name, committed=True).items()
        }
        known = _manifest(self._folder)
        if known and known["ends"] == ends:
            return False
        begin = {name: known["ends"]} if known else {}
        fresh = self._changed(self._topic.between(self._context, begin, {name: ends}))
        version = (known["version"] if known else 0) + 1
        if not known:
            return self._base(self._folded(fresh), version, ends)
        if known["tail"]:
            fresh = fresh.unionByName(self._files(known["tail"], known.get("columns")), allowMissingColumns=True)
        if sum(ends.values()) - sum(known["ends"].values()) < _TAIL:
            fresh = fresh.coalesce(1)  # a few rows in one piece are quicker than a shuffle of them
        fresh = self._folded(fresh)
        place = self._folder / f"tail-{version}"
        fresh.coalesce(1).write.mode("overwrite").parquet(str(place))  # a process that was killed may have begun it
        if _count(place) > max(_TAIL, known["rows"] // 10):
            base = self._files(known["base"])
            if not self._history:
                base = base.join(self._files(place.name).select(_KEY), _KEY, "left_anti")
            return self._base(base.unionByName(self._files(place.name), allowMissingColumns=True), version, ends)
        told = {"version": version, "tail": place.name, "columns": fresh.schema.json(), "ends": ends}
        return self._publish({**known, **told})

    def _base(self, rows: DataFrame, version: int, ends: dict[str, int]) -> bool:
        from pyspark.sql import functions as F  # noqa: N812

        place = self._folder / f"base-{version}"
        kept = rows if self._history else rows.filter(~F.coalesce(F.col(_GONE), F.lit(False))).drop(_GONE)
        kept.repartition(_BUCKETS, _BUCKET).write.mode("overwrite").partitionBy(_BUCKET).parquet(str(place))
        told = {"version": version, "base": place.name, "tail": None, "ends": ends, "rows": _count(place)}
        return self._publish(told)

    def _changed(self, changes: DataFrame) -> DataFrame:
        """Of each change its row, or that it is gone."""
        from pyspark.sql import functions as F  # noqa: N812

        key = F.col(f"{ORIGIN}.key").cast("string")
        rows = changes.select(
            key.alias(_KEY),
            F.pmod(F.xxhash64(key), F.lit(_BUCKETS)).cast("int").alias(_BUCKET),
            (F.col("op") == "delete").alias(_GONE),
            F.struct(f"{ORIGIN}.timestamp", f"{ORIGIN}.offset").alias(_ORDER),
            *((F.col("op") == "read").alias(_READ), F.col("committed_at").alias(VALID_FROM)) if self._history else (),
            "after.*",
            BAD,
            ORIGIN,
        )
        return good_or_raise(rows, self._topic.where())

    def _folded(self, rows: DataFrame) -> DataFrame:
        """The last change of each key; all of them, if the table has a history."""
        from pyspark.sql import functions as F  # noqa: N812

        if self._history:
            return rows
        whole = F.struct(*quoted(rows.columns))
        return rows.groupBy(_KEY).agg(F.max_by(whole, _ORDER).alias("__last")).select("__last.*")

    def _files(self, name: str, columns: str | None = None) -> DataFrame:
        """Files of ours; if their columns are known Spark need not look into them first."""
        from pyspark.sql.types import StructType

        read = self._context.spark.read
        if columns is not None:
            read = read.schema(StructType.fromJson(json.loads(columns)))
        return read.parquet(str(self._folder / name))

    def _publish(self, told: dict[str, Any]) -> bool:
        fresh = self._folder / "manifest.new"
        fresh.write_text(json.dumps(told), encoding="utf-8")
        fresh.replace(self._folder / "manifest.json")
        for old in self._folder.glob("*-*"):
            if old.name not in (told["base"], told["tail"]) and time.time() - old.stat().st_mtime > _KEPT_SECONDS:
                shutil.rmtree(old, ignore_errors=True)
        return True


def table_frame(context: Context, folder: Path, schema: StructType) -> DataFrame:
    """The rows of a table that is kept in a folder, the newest ones each time that they are read."""
    return _hinted(_loaded(context, folder, schema), folder)


def history_frame(context: Context, folder: Path, schema: StructType) -> DataFrame:
    """Every version of the rows of a table, with the time that it was valid; open ends where that is not known."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import StructType

    whole = StructType([*schema.fields]).add(_KEY, "string").add(_GONE, "boolean").add(_READ, "boolean")
    order = StructType().add("timestamp", "timestamp").add("offset", "long")
    rows = _loaded(context, folder, whole.add(_ORDER, order).add(VALID_FROM, "timestamp"))
    by_key = Window.partitionBy(_KEY).orderBy(_ORDER)
    ends = F.lead(VALID_FROM).over(by_key)
    begins = F.when((F.row_number().over(by_key) > 1) | ~F.col(_READ), F.col(VALID_FROM))
    made = rows.select("*", begins.alias("__begins"), ends.alias(VALID_TO)).filter(~F.col(_GONE))
    return _hinted(made.select(*quoted(schema.names), F.col("__begins").alias(VALID_FROM), VALID_TO), folder)


def _loaded(context: Context, folder: Path, schema: StructType) -> DataFrame:
    context.spark.dataSource.register(TableSource)
    ddl = context.spark.createDataFrame([], schema)._jdf.schema().toDDL()
    return context.spark.read.format("penstock_table").schema(ddl).option("folder", str(folder)).load()


def _hinted(rows: DataFrame, folder: Path) -> DataFrame:
    known = _manifest(folder)
    return rows.hint("broadcast") if known and known["rows"] < _SMALL else rows


def _manifest(folder: Path) -> dict[str, Any] | None:
    try:
        told: dict[str, Any] = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return told


class TableSource(DataSource):
    """Spark's way to the files."""

    @classmethod
    def name(cls) -> str:
        """What it is called in a plan."""
        return "penstock_table"

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of the folder that is named in the options."""
        return _TableReader(Path(self.options["folder"]), schema)


class _TableReader(DataSourceReader):
    def __init__(self, folder: Path, schema: StructType) -> None:
        self._folder = folder
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """Always the same: a key stays in its bucket."""
        return [InputPartition(number) for number in range(_BUCKETS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one bucket, as the manifest says now."""
        import pyarrow as pa
        import pyarrow.compute as pc
        from pyspark.sql.pandas.types import to_arrow_schema

        known = _manifest(self._folder)
        if known is None:
            return
        wanted = to_arrow_schema(self._schema, timezone="UTC")
        tail = _read(self._folder / known["tail"]) if known["tail"] else None
        base = _read(self._folder / known["base"] / f"{_BUCKET}={partition.value}")
        history = _READ in wanted.names
        if base is not None and tail is not None and not history:
            base = base.filter(pc.invert(pc.is_in(base[_KEY], value_set=tail[_KEY].combine_chunks())))
        if tail is not None:
            tail = tail.filter(pc.equal(tail[_BUCKET], partition.value))
            tail = tail if history else tail.filter(pc.invert(tail[_GONE]))
        for rows in (base, tail):
            if rows is not None and rows.num_rows:
                columns = [
                    rows[one.name].cast(one.type) if one.name in rows.column_names else pa.nulls(len(rows), one.type)
                    for one in wanted
                ]
                yield from pa.table(columns, schema=wanted).to_batches(max_chunksize=10_000)


def _count(folder: Path) -> int:
    """The rows of a folder of files, by what the files say at their end."""
    from pyarrow import parquet

    return sum(int(parquet.read_metadata(path).num_rows) for path in folder.rglob("part-*.parquet"))


def _read(folder: Path) -> pa.Table | None:
    from pyarrow import parquet

    files = sorted(folder.glob("part-*.parquet"))
    tables = [parquet.ParquetFile(path).read() for path in files]
    tables = [one for one in tables if one.num_rows]
    if not tables:
        return None
    import pyarrow as pa

    return pa.concat_tables(tables, promote_options="default")
