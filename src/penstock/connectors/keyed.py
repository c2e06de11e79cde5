"""Sinks whose rows have a key: the last row of a key counts, and a row may delete its key."""

from __future__ import annotations

import shutil
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.connectors.base import BatchSink, quoted
from penstock.connectors.letters import dead_letters, envelope
from penstock.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

    from penstock.connectors.writing import Batch, Letter, Opening

__all__ = [
    "DELETED",
    "ORDERED",
    "POSITION",
    "REMOVED",
    "VERSION",
    "Keyed",
    "KeyedSink",
    "deletes",
    "in_order",
    "keyed",
    "refused_letters",
    "shown",
]

REMOVED, POSITION = "__deleted", "__position"  # what `ps.rows_of` says of a row, never written
ORDERED = "__order"  # what `ps.view` says: of the rows of a key in one batch the highest counts
DELETED = "__penstock_deleted"
VERSION = "__penstock_version"
_ORDER = "__penstock_order"
_SMALL = 128 << 20  # bytes of a batch that are taken into memory here


class KeyedSink(BatchSink):
    """A sink with a `key`, one column or several, and a condition by which a row deletes."""

    key: str | tuple[str, ...] | None
    delete: str | None

    @property
    def keys(self) -> tuple[str, ...]:
        """The key columns."""
        return (self.key,) if isinstance(self.key, str) else tuple(self.key or ())

    def takes_changes(self) -> bool:
        """Only by a key."""
        return bool(self.keys)

    def problems(self) -> Iterator[tuple[str, str]]:
        """Deletes without a key."""
        if self.delete and not self.keys:
            yield "A row can only be deleted by a key.", "Name it: key='id'."

    def check_key(self, rows: DataFrame) -> None:
        """Every key column is there, and the condition is one."""
        if missing := set(self.keys) - set(rows.columns):
            raise DeclarationError(
                f"The key column {sorted(missing)[0]!r} is not in the flow.",
                code="key-missing",
                remedy="Name one of its columns.",
            )
        if self.delete:
            rows.filter(self.delete)
        if REMOVED in rows.columns and not self.keys:
            raise DeclarationError(
                "Some rows delete others, which takes a key.",
                code="key-missing",
                remedy="Give the sink the key of the table: key='id'.",
            )


def shown(rows: DataFrame) -> DataFrame:
    """The rows without what is said about them."""
    return rows.drop(REMOVED, POSITION, ORDERED)


def in_order(rows: DataFrame) -> DataFrame:
    """The rows in the order in which they count, for a sink that takes one after the other."""
    if ORDERED not in rows.columns:
        return rows
    if rows.isStreaming:
        raise DeclarationError(
            "The rows of a view have an order, which Spark's own writer does not keep.",
            code="sink-unordered",
            remedy="Leave guarantee='at-least-once' out, or write to another sink.",
        )
    return rows.orderBy(ORDERED)


def deletes(rows: DataFrame, delete: str | None) -> Column:
    """Whether a row deletes its key: by the sink's condition, or as a change of a captured table says."""
    from pyspark.sql import functions as F  # noqa: N812

    said = F.coalesce(F.expr(delete), F.lit(False)) if delete else F.lit(False)
    return said | F.coalesce(F.col(REMOVED), F.lit(False)) if REMOVED in rows.columns else said


@dataclass(frozen=True)
class Keyed:
    """A batch by key: of each key its last row with DELETED and VERSION; and the rows that have no key, as JSON."""

    last: DataFrame
    without_key: list[str]
    folder: Path
    few: pa.Table | None = None  # the same as `last`, if it is small enough to be merged here

    def remove(self) -> None:
        """Give the space back."""
        shutil.rmtree(self.folder, ignore_errors=True)


def keyed(rows: DataFrame, keys: tuple[str, ...], delete: str | None, batch: Batch, order: str | None = None) -> Keyed:
    """Compute the rows once, then find the last one of each key, by an order of the rows' own or as they come."""
    from pyspark.sql import functions as F  # noqa: N812

    folder = batch.folder / f"keyed-{uuid.uuid4().hex[:8]}"
    version = F.expr(order) if order else F.lit(None).cast("long")
    marked = rows.withColumns({DELETED: deletes(rows, delete), VERSION: version})
    place = F.col(ORDERED) if ORDERED in rows.columns else F.lit(0)
    by = F.struct(VERSION, place.alias("place"), F.monotonically_increasing_id().alias("row"))
    marked = shown(marked.withColumn(_ORDER, by))
    marked.write.option("compression", "none").parquet(str(folder))
    kept = rows.sparkSession.read.schema(marked.schema).parquet(str(folder))
    empty = F.lit(False)
    for column in quoted(keys):
        empty = empty | column.isNull()
    few = _few(folder, keys, [*shown(rows).columns, DELETED, VERSION])
    if few is not None:
        return Keyed(_last(kept.filter(~empty), keys, shown(rows).columns), [], folder, few)
    without = kept.filter(empty).select(F.to_json(F.struct(*quoted(shown(rows).columns)))).collect()
    return Keyed(_last(kept.filter(~empty), keys, shown(rows).columns), [row[0] for row in without], folder)


def _last(rows: DataFrame, keys: tuple[str, ...], columns: list[str]) -> DataFrame:
    """Of each key its last row."""
    from pyspark.sql import functions as F  # noqa: N812

    whole = F.struct(*quoted([*columns, DELETED, VERSION]))
    return rows.groupBy(*quoted(keys)).agg(F.max_by(whole, F.col(_ORDER)).alias("__last")).select("__last.*")


def _few(folder: Path, keys: tuple[str, ...], columns: list[str]) -> pa.Table | None:
    """The last row of each key without Spark, if there are few rows that all have one key of a plain type."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import parquet

    files = sorted(folder.glob("part-*.parquet"))
    if len(keys) != 1 or not files or sum(one.stat().st_size for one in files) > _SMALL:
        return None
    rows = pa.concat_tables([parquet.ParquetFile(one).read() for one in files])
    key = rows[keys[0]]
    if not (pa.types.is_integer(key.type) or pa.types.is_string(key.type)) or key.null_count:
        return None
    order = rows[_ORDER].combine_chunks()
    places = {name: pc.struct_field(order, name) for name in (VERSION, "place", "row")}
    if rows.num_rows == 0:
        return rows.select(columns)
    by = [(name, "ascending", "at_start") for name in places]
    sorted_rows = rows.take(pc.sort_indices(pa.table(places), sort_keys=by))
    numbered = pa.table({"key": sorted_rows[keys[0]], "at": pa.array(range(rows.num_rows))})
    last = numbered.group_by("key").aggregate([("at", "max")])["at_max"]
    return sorted_rows.take(last).select(columns)


def refused_letters(opening: Opening, flow: str, rows: list[str], system: str) -> list[Letter]:
    """Rows without a key in their envelopes."""
    letters = []
    for row in rows:
        key, letter = envelope(opening.pipeline, flow, f"refused by {system}", "its key is empty", {"value": row})
        letters.append((dead_letters(opening.pipeline), key, letter))
    return letters
