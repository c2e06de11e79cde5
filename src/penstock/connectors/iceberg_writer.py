"""A batch into Iceberg exactly once: files first, then one commit of them and the mark, only if nobody else committed.

The mark lies in the table's properties, so that it outlives the snapshot, and in the snapshot, where people look.
"""

from __future__ import annotations

import json
import uuid
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    ServerError,
    ServiceUnavailableError,
    TableAlreadyExistsError,
    TooManyRequestsError,
)
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, GreaterThanOrEqual, LessThanOrEqual
from pyiceberg.io.pyarrow import parquet_files_to_data_files
from sqlalchemy.exc import OperationalError

from penstock.connectors.base import quoted
from penstock.connectors.iceberg_expiry import files_to_remove, old_snapshots
from penstock.connectors.keyed import DELETED, VERSION, keyed, refused_letters, shown
from penstock.connectors.lake import LakeWriter, arrow_schema, local_path, write_parquet
from penstock.connectors.writing import START_OVER, Batch, Mark, Opening, Successor
from penstock.errors import CommitUnknownError, DeclarationError, StateError, TransientError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table, Transaction
    from pyspark.sql import DataFrame

    from penstock.connectors.base import BatchSink
    from penstock.connectors.iceberg import Iceberg
    from penstock.settings import Lake

__all__ = ["IcebergWriter", "open_catalog"]

_SMALL = 32 << 20
# A commit writes a file of metadata: older ones go by themselves.
_TIDY = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "100"}


def open_catalog(lake: Lake) -> Catalog:
    """The catalog of the settings; without any, one in SQLite beside the tables."""
    options = {name: value if isinstance(value, str) else value.reveal() for name, value in lake.catalog.items()}
    place = local_path(lake.warehouse)
    if not options:
        place.mkdir(parents=True, exist_ok=True)
        options = {"type": "sql", "uri": f"sqlite:///{place / 'catalog.db'}"}
    return load_catalog("penstock", **{"warehouse": f"file://{place}", **options})


class IcebergWriter(LakeWriter, Successor):
    """The commits of one query to one table."""

    def __init__(self, opening: Opening, flow: str, sink: Iceberg) -> None:
        self._opening = opening
        self._flow = flow
        self._sink = sink
        self._property = f"penstock.mark.{opening.query_id}"
        self._catalog: Catalog | None = None
        self._table: Table | None = None
        super().__init__()

    def mark(self) -> Mark | None:
        """What the table says; a table that was rolled back says what its snapshot says."""
        with self._told():
            self._table = self._load()
            if self._table is None:
                return None
            told = self._table.properties.get(self._property)
            return self._rolled_back(self._table) or (Mark(**json.loads(told)) if told else None)

    def write(self, rows: Mapping[str, DataFrame], batch: Batch) -> None:
        """Write files, then commit them on the table as it was when the mark was read."""
        whole = rows[self._flow]
        given = shown(whole)
        with self._told():
            table = self._table or self._create(given)
            folder = f"{table.location()}/data/{batch.number:08}-{uuid.uuid4().hex[:8]}"
            removed: list[DataFile] = []
            if self._sink.keys:
                changes = batch.once("keyed", lambda: keyed(whole, self._sink.keys, self._sink.delete, batch))
                batch.refuse(refused_letters(self._opening, self._flow, changes.without_key, "iceberg"))
                merged = self._merged_here(table, given, changes.few, folder) if changes.few is not None else None
                made, removed = merged or self._merged(table, changes.last, folder)
            else:
                made = batch.once("files", lambda: write_parquet(given, folder))
            batch.reached("rows staged")
            mark = {"next": batch.mark.next, "digest": batch.digest, "run": self._opening.run}
            told = {f"penstock.{name}": str(value) for name, value in mark.items()}
            told["penstock.query"] = self._opening.query_id
            self._commit(table, given, made, removed, told, {self._property: json.dumps(mark)}, batch)
            batch.reached("transaction committed")
            if self._sink.keys:
                changes.remove()

    def take_place_of(self, sink: BatchSink) -> None:
        """Rename both tables; the old one is dropped."""
        assert isinstance(sink, type(self._sink))
        old = f"{self._sink.table}_old"
        with self._told():
            catalog = self._opened()
            catalog.rename_table(sink.table, old)
            catalog.rename_table(self._sink.table, sink.table)
            catalog.drop_table(old)

    def compact(self) -> int:
        """Make small files one, if there are enough of them; return how many there were."""
        table = self._load()
        if table is None:
            return 0
        planned = [one for one in table.scan().plan_files() if not one.delete_files]  # deletes of another engine stay
        small = [one.file for one in planned if one.file.file_size_in_bytes < _SMALL]
        if len(small) < self._sink.compact_at:
            return 0
        read = self._read(table, small)
        folder = f"{table.location()}/data/compact-{uuid.uuid4().hex[:8]}"
        size = sum(one.file_size_in_bytes for one in small)
        made = write_parquet(read.coalesce(max(1, size // (8 * _SMALL))), folder)
        with table.transaction() as change:
            self._replace(change, table, made, small, {"penstock.maintenance": "compaction"})
        return len(small)

    def expire(self) -> int:
        """Let go of snapshots that are old enough, and of the files that nobody needs then; return how many files."""
        table = self._load()
        if table is None:
            return 0
        old = old_snapshots(table, self._sink.keep_days, self._sink.keep_snapshots)
        if not old:
            return 0
        data, metadata = files_to_remove(table, old)
        table.maintenance.expire_snapshots().by_ids([one.snapshot_id for one in old]).commit()
        for path in data | metadata:
            table.io.delete(path)
        return len(data)

    def close(self) -> None:
        """Forget what was read; the next look loads the table anew."""
        self._table = None

    def _load(self) -> Table | None:
        try:
            table = self._opened().load_table(self._sink.table)
        except (NoSuchTableError, NoSuchNamespaceError):
            return None
        if not table.location().startswith(("file:", "/")):
            raise DeclarationError(
                f"Iceberg table {self._sink.table} lies at {table.location()}, where the driver can't look.",
                code="iceberg-elsewhere",
                remedy="Use a warehouse on a disk that driver and executors share.",
            )
        if table.spec().fields:
            raise DeclarationError(
                f"Iceberg table {self._sink.table} has partitions, which this sink can't write.",
                code="iceberg-partitions",
                remedy="Write to a table without partitions.",
            )
        # Only in this object: a commit that finds another before it must fail, so that the mark is looked at again.
        table.metadata.properties["commit.retry.num-retries"] = "0"
        return table

    def _opened(self) -> Catalog:
        if self._catalog is None:
            self._catalog = open_catalog(self._opening.context.settings.lake)
        return self._catalog

    def _create(self, rows: DataFrame) -> Table:
        catalog = self._opened()
        namespace = self._sink.table.rpartition(".")[0]
        with suppress(NamespaceAlreadyExistsError):
            catalog.create_namespace(namespace)
        try:
            catalog.create_table(self._sink.table, schema=arrow_schema(rows.schema), properties=_TIDY)
        except TableAlreadyExistsError as error:
            raise CommitUnknownError(
                f"Table {self._sink.table} was made by somebody else meanwhile.",
                code="iceberg-moved",
                remedy="It is looked at again.",
            ) from error
        table = self._load()
        assert table is not None
        return table

    def _commit(
        self,
        table: Table,
        rows: DataFrame,
        made: list[str],
        removed: list[DataFile],
        told: dict[str, str],
        properties: dict[str, str],
        batch: Batch,
    ) -> None:
        with table.transaction() as change:
            self._evolve(change, table, rows)
            change.set_properties(properties)
            self._replace(change, table, made, removed, told)
            batch.reached("all sent")

    def _evolve(self, change: Transaction, table: Table, rows: DataFrame) -> None:
        """Add the columns that the flow has gained."""
        wanted = arrow_schema(rows.schema)
        known = {one.name for one in table.schema().fields}
        if set(wanted.names) - known:
            with change.update_schema() as update:
                update.union_by_name(wanted)

    def _replace(
        self, change: Transaction, table: Table, made: list[str], removed: list[DataFile], told: dict[str, str]
    ) -> None:
        if change.table_metadata.name_mapping() is None:
            mapping = change.table_metadata.schema().name_mapping.model_dump_json()
            change.set_properties({"schema.name-mapping.default": mapping})
        update = change.update_snapshot(snapshot_properties=told)
        with update.overwrite() if removed else update.fast_append() as snapshot:
            for one in removed:
                snapshot.delete_data_file(one)
            paths = (f"file://{path}" for path in made)
            for one in parquet_files_to_data_files(table.io, change.table_metadata, paths):
                snapshot.append_data_file(one)

    def _merged(self, table: Table, last: DataFrame, folder: str) -> tuple[list[str], list[DataFile]]:
        """New files for the rows that change, and for those that shared a file with one; the files they replace."""
        from pyspark.sql import functions as F  # noqa: N812

        keys = self._sink.keys
        # Spark sees a path as it reads it; the catalog has it as it was told.
        candidates = {local_path(one.file.file_path).name: one.file for one in self._near(table, last)}
        fresh = last.filter(~F.col(DELETED)).drop(DELETED, VERSION)
        touched: list[DataFile] = []
        if candidates:
            before = self._read(table, list(candidates.values()))
            name = F.element_at(F.split(F.col("_metadata.file_path"), "/"), -1).alias("__file")
            hit = before.select(*quoted(keys), name).join(last.select(*quoted(keys)), list(keys), "left_semi")
            touched = [candidates[row[0]] for row in hit.select("__file").distinct().collect()]
        if touched:
            kept = self._read(table, touched).join(last.select(*quoted(keys)), list(keys), "left_anti")
            fresh = kept.unionByName(fresh, allowMissingColumns=True)
        return write_parquet(fresh, folder), touched

    def _merged_here(
        self, table: Table, rows: DataFrame, last: pa.Table, folder: str
    ) -> tuple[list[str], list[DataFile]] | None:
        """The same without Spark, whose jobs would take longer than the work; None if there is too much of it."""
        key = self._sink.keys[0]
        low, high = pc.min_max(last[key]).as_py().values()
        candidates = [one.file for one in self._between(table, low, high)] if last.num_rows else []
        if sum(one.file_size_in_bytes for one in candidates) > _SMALL:
            return None
        keys = last[key].combine_chunks()
        wanted = _united(table.schema().as_arrow(), arrow_schema(rows.schema))
        parts, touched = [_shaped(last.filter(pc.invert(last[DELETED])), wanted)], []
        for one in candidates:
            before = parquet.ParquetFile(local_path(one.file_path)).read()
            changed = pc.is_in(before[key], value_set=keys.cast(before.schema.field(key).type))
            if pc.any(changed).as_py():
                touched.append(one)
                parts.append(_shaped(before.filter(pc.invert(changed)), wanted))
        made = pa.concat_tables(parts)
        if not made.num_rows:
            return [], touched
        local_path(folder).mkdir(parents=True)
        path = local_path(folder) / f"part-{uuid.uuid4().hex}.parquet"
        parquet.write_table(made, path, compression="zstd")
        return [str(path)], touched

    def _near(self, table: Table, last: DataFrame) -> list[Any]:
        """The files that may have a key of the batch, by the smallest and the largest of the first key column."""
        from pyspark.sql import functions as F  # noqa: N812

        column = quoted([self._sink.keys[0]])[0]
        low, high = last.agg(F.min(column), F.max(column)).collect()[0]
        return self._between(table, low, high)

    def _between(self, table: Table, low: Any, high: Any) -> list[Any]:
        first = self._sink.keys[0]
        if low is None:
            return []
        wanted: BooleanExpression = AlwaysTrue()
        if isinstance(low, int | str) and not isinstance(low, bool) and "." not in first:
            at_least, at_most = GreaterThanOrEqual(first, low), LessThanOrEqual(first, high)  # type: ignore[arg-type,call-arg]
            wanted = And(at_least, at_most)
        found = list(table.scan(row_filter=wanted).plan_files())
        if any(one.delete_files for one in found):
            raise StateError(
                f"Table {self._sink.table} has delete files, written by another engine.",
                code="iceberg-deletes",
                remedy="Rewrite its data files with that engine first.",
            )
        return found

    def _read(self, table: Table, files: list[DataFile]) -> DataFrame:
        """Rows of some files by Spark, with all columns that the table has."""
        from pyspark.sql.pandas.types import from_arrow_schema

        columns = from_arrow_schema(table.schema().as_arrow(), prefer_timestamp_ntz=True)
        spark = self._opening.context.spark
        return spark.read.schema(columns).parquet(*(str(local_path(one.file_path)) for one in files))

    def _rolled_back(self, table: Table) -> Mark | None:
        """The mark of the newest snapshot of ours, if a newer one of ours is not part of the table any more."""
        ours = [one for one in table.snapshots() if _of(one, "penstock.query") == self._opening.query_id]
        if not ours:
            return None
        parents = {one.snapshot_id: one.parent_snapshot_id for one in table.snapshots()}
        current = table.current_snapshot()
        here: set[int] = set()
        at = current.snapshot_id if current else None
        while at is not None and at in parents:
            here.add(at)
            at = parents[at]
        kept = [one for one in ours if one.snapshot_id in here]
        if len(kept) == len(ours):
            return None
        if not kept:
            return Mark(0, "")
        newest = max(kept, key=lambda one: one.sequence_number or 0)
        return Mark(int(_of(newest, "penstock.next") or 0), str(_of(newest, "penstock.digest")))

    @contextmanager
    def _told(self) -> Iterator[None]:
        """What PyIceberg says, as one of our errors."""
        name = self._sink.table
        try:
            yield
        except (CommitFailedException, CommitStateUnknownException) as error:
            raise CommitUnknownError(
                f"The commit to Iceberg table {name} was not taken: {error}.",
                code="iceberg-moved",
                remedy="It is looked at and tried again.",
            ) from error
        except (OperationalError, OSError, ServerError, ServiceUnavailableError, TooManyRequestsError) as error:
            raise TransientError(
                f"The catalog of Iceberg table {name} does not answer ({str(error).splitlines()[0]}).",
                code="iceberg-away",
                remedy="Check [profiles.….lake] in penstock.toml.",
            ) from error
        except (NoSuchTableError, NoSuchNamespaceError) as error:
            raise StateError(
                f"Iceberg table {name} was dropped while it was written.",
                code="table-gone",
                remedy=START_OVER,
            ) from error
        except (ValueError, TypeError, pa.ArrowInvalid) as error:
            raise DeclarationError(
                f"Iceberg table {name} does not take the flow's columns ({str(error).splitlines()[0]}).",
                code="iceberg-refused",
                remedy="Correct the flow, or the table.",
            ) from error


def _of(snapshot: Any, name: str) -> str | None:
    return snapshot.summary.additional_properties.get(name) if snapshot.summary else None


def _united(known: pa.Schema, gained: pa.Schema) -> pa.Schema:
    """The columns of a table, and those that a flow has gained."""
    return pa.schema([*known, *(one for one in gained if one.name not in known.names)])


def _shaped(rows: pa.Table, wanted: pa.Schema) -> pa.Table:
    """Rows with these columns, in this order; what they lack is empty."""
    columns = [
        rows[one.name].cast(one.type) if one.name in rows.column_names else pa.nulls(rows.num_rows, one.type)
        for one in wanted
    ]
    return pa.table(columns, schema=pa.schema([pa.field(one.name, one.type) for one in wanted]))
