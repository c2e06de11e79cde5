"""Debezium's envelope as rows: what was done, the row before and after it, where it stands in the database's log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.connectors.base import BAD, ORIGIN
from penstock.connectors.formats import PlainFormat
from penstock.errors import DeclarationError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from penstock.cdc.columns import Column as TableColumn
    from penstock.cdc.columns import Known

__all__ = ["COLUMNS_CHANGED", "TRUNCATED", "ChangeRows"]

COLUMNS_CHANGED = "the columns of a captured table changed: "
TRUNCATED = "a captured table was emptied: "
_CORRUPT = "__corrupt"
_PARSED = "__parsed"
_KEY = "__key"
# The text is parsed once: a row as a map tells the names of its columns too, and a variant what it was written as.
_ROW = "MAP<STRING, VARIANT>"
_ENVELOPE = f"""
op STRING, before {_ROW}, after {_ROW}, ts_us BIGINT, {_CORRUPT} STRING,
source STRUCT<lsn: BIGINT, txId: BIGINT, gtid: STRING, file: STRING, pos: BIGINT, ts_us: BIGINT>
"""
_OPTIONS = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
_DONE = {"c": "insert", "u": "update", "d": "delete", "r": "read"}
_NO_TEXT = ("BOOLEAN", "SMALLINT", "INT", "BIGINT")
_FRACTIONS = ("FLOAT", "DOUBLE")
_AS_TEXT = ("DECIMAL", "TIMESTAMP")
_FILE_SHIFT = 1 << 32  # a binlog file's number stands above a place in it


@dataclass(frozen=True)
class ChangeRows(PlainFormat):
    """Changes of one table; a row with columns that nobody knows stops the query, so that they can be learnt.

    If `careful`, so does one that lacks a column or has another type; else it is taken, or a dead letter.
    """

    table: str
    known: Known
    careful: bool = True

    def decode(self, raw: DataFrame) -> DataFrame:
        """One row per change: op, before, after, key, position, transaction, committed_at, captured_at."""
        from pyspark.sql import functions as F  # noqa: N812

        read = raw.filter(F.col("value").isNotNull())  # a key's end mark for compaction says nothing new
        read = read.withColumn(_PARSED, F.from_json(F.col("value").cast("string"), _ENVELOPE, _OPTIONS))
        read = read.withColumns({f"__{side}": self._row(F.col(f"{_PARSED}.{side}")) for side in ("before", "after")})
        read = read.withColumn(_KEY, F.from_json(F.col(f"{ORIGIN}.key").cast("string"), _ROW))
        source = f"{_PARSED}.source"
        file = F.regexp_extract(F.col(f"{source}.file"), r"(\d+)$", 1).try_cast("bigint")
        position = F.coalesce(F.col(f"{source}.lsn"), file * _FILE_SHIFT + F.col(f"{source}.pos"))
        # A snapshot is before the change that stands where it was taken.
        position = position - F.when(F.col(f"{_PARSED}.op") == "r", 1).otherwise(0)
        done = F.create_map(*(F.lit(word) for pair in _DONE.items() for word in pair))
        kept = [name for name in raw.columns if name != "value"]
        return read.select(
            F.element_at(done, F.col(f"{_PARSED}.op")).alias("op"),
            F.col("__before").alias("before"),
            F.col("__after").alias("after"),
            self._row(F.col(_KEY), keys=True).alias("key"),
            position.alias("position"),
            F.coalesce(F.col(f"{source}.gtid"), F.col(f"{source}.txId").cast("string")).alias("transaction"),
            F.timestamp_micros(F.col(f"{source}.ts_us")).alias("committed_at"),
            F.timestamp_micros(F.col(f"{_PARSED}.ts_us")).alias("captured_at"),
            self._bad().alias(BAD),
            *kept,
        )

    def encode(self, rows: DataFrame) -> Column:
        """Nobody writes changes in the name of a database."""
        raise DeclarationError("Changes can't be written.", code="sink-unknown", remedy="Write rows as JSON instead.")

    def _bad(self) -> Column:
        from pyspark.sql import functions as F  # noqa: N812

        names = F.map_keys(F.col(f"{_PARSED}.after"))
        wrong = F.lit(False)
        for side in ("after", "before"):
            for one in self.known.columns:
                wrong = wrong | _is_wrong(F.col(f"{_PARSED}.{side}")[one.name], F.col(f"__{side}")[one.name], one)
        if self.careful:
            shapes = F.array(*(F.array(*map(F.lit, shape)) for shape in self.known.shapes))
            changed = names.isNotNull() & ~F.array_contains(shapes, names)
            stops = changed if self.known.tolerant else changed | wrong
        else:
            columns = F.array(*(F.lit(one.name) for one in self.known.columns))
            stops = F.size(F.array_except(names, columns)) > 0
        told = (F.lit(f"{COLUMNS_CHANGED}{self.table} "), F.coalesce(F.to_json(names), F.lit("[]")))
        op = F.col(f"{_PARSED}.op")
        bad = (
            F.when(op == "t", F.raise_error(F.lit(f"{TRUNCATED}{self.table}")).cast("string"))
            .when(stops, F.raise_error(F.concat(*told)).cast("string"))
            .when(F.col(_PARSED).isNull() | F.col(f"{_PARSED}.{_CORRUPT}").isNotNull() | op.isNull(), "not a change")
        )
        if self.known.tolerant or not self.careful:  # else it has stopped the query; Spark would look twice
            bad = bad.when(wrong, F.lit("not a row of the table's columns"))
        return bad.when(F.col(f"{ORIGIN}.key").isNull(), F.lit("no key"))

    def _row(self, told: Column, *, keys: bool = False) -> Column:
        """The struct with each column as what it is; null of what is not of its type."""
        from pyspark.sql import functions as F  # noqa: N812

        chosen = [one for one in self.known.columns if one.key or not keys]
        return F.when(told.isNotNull(), F.struct(*(_value(told[one.name], one).alias(one.name) for one in chosen)))


def _value(told: Column, column: TableColumn) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    if column.kind == "BINARY":
        return F.try_to_binary(F.try_variant_get(told, "$", "STRING"), F.lit("base64"))
    if column.raw_kind.startswith(_AS_TEXT):  # Spark's own way from a variant plans a cast for each value
        return F.try_variant_get(told, "$", "STRING").try_cast(column.raw_kind)
    raw = F.try_variant_get(told, "$", column.raw_kind)
    if column.written == "days":
        return F.date_from_unix_date(raw)
    if column.written == "microseconds":
        return F.timestamp_micros(raw).cast("timestamp_ntz")
    if column.written == "time":
        return F.date_format(F.timestamp_micros(raw), "HH:mm:ss.SSSSSS")
    return raw


def _is_wrong(told: Column, value: Column, column: TableColumn) -> Column:
    """Whether there is something that is not of the column's type; a text is no number, also if it looks like one."""
    from pyspark.sql import functions as F  # noqa: N812

    wrong = value.isNull()  # looked at first: most values are there, and then nothing else is
    if column.raw_kind in _NO_TEXT:
        wrong = wrong | (F.schema_of_variant(told) == "STRING")
    elif column.raw_kind in _FRACTIONS:
        text = F.try_variant_get(told, "$", "STRING")
        wrong = wrong | (F.schema_of_variant(told) == "STRING") & ~text.isin("NaN", "Infinity", "-Infinity")
    return wrong & told.isNotNull() & ~F.is_variant_null(told)
