"""A batch into Delta exactly once: files first, then one version with them and the mark, only if nobody else wrote one.

The mark is three application transactions of the table: the batch that comes next, its digest and its run as numbers.
"""

from __future__ import annotations

import json
import re
import shutil
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING

from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, SchemaMismatchError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction
from pyarrow import parquet

from penstock.connectors.keyed import DELETED, keyed, refused_letters, shown
from penstock.connectors.lake import LakeWriter, arrow_schema, write_parquet
from penstock.connectors.staged import Staged
from penstock.connectors.writing import START_OVER, Batch, Mark, Opening, Successor
from penstock.errors import CommitUnknownError, DeclarationError, StateError, TransientError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame

    from penstock.connectors.base import BatchSink
    from penstock.connectors.delta import Delta

__all__ = ["DeltaWriter"]

_SMALL = 32 << 20


class DeltaWriter(LakeWriter, Successor):
    """The commits of one query to one table."""

    def __init__(self, opening: Opening, flow: str, sink: Delta) -> None:
        self._opening = opening
        self._flow = flow
        self._sink = sink
        self._place: Path = sink.place(opening.context)
        self._table: DeltaTable | None = None
        super().__init__()

    def mark(self) -> Mark | None:
        """What the newest version of the table says."""
        with self._told():
            self._table = self._load()
            return self._mark(self._table) if self._table is not None else None

    def write(self, rows: Mapping[str, DataFrame], batch: Batch) -> None:
        """Write files, then commit them on the table as it was when the mark was read."""
        whole = rows[self._flow]
        given = shown(whole)
        with self._told():
            table = self._evolved(self._table or self._create(given), given)
            if self._sink.keys:
                self._merge(table, whole, batch)
                return
            folder = self._place / f"{batch.number:08}-{uuid.uuid4().hex[:8]}"
            made = batch.once("files", lambda: write_parquet(given, str(folder)))
            batch.reached("rows staged")
            actions: list[AddAction | RemoveAction] = [self._added(path) for path in made]
            batch.reached("all sent")
            self._append(table, actions, batch)
            batch.reached("transaction committed")

    def take_place_of(self, sink: BatchSink) -> None:
        """Rename both folders; the old one is removed."""
        assert isinstance(sink, type(self._sink))
        place = sink.place(self._opening.context)
        old = self._place.with_name(f"{self._place.name}_old")
        place.rename(old)
        self._place.rename(place)
        shutil.rmtree(old)

    def compact(self) -> int:
        """Make small files one, if there are enough of them; return how many there were."""
        table = self._load()
        if table is None or sum(size < _SMALL for size in _sizes(table)) < self._sink.compact_at:
            return 0
        return int(table.optimize.compact()["numFilesRemoved"])

    def expire(self) -> int:
        """Remove files that no version needs that is young enough; return how many."""
        table = self._load()
        if table is None:
            return 0
        hours = int(self._sink.keep_days * 24)
        removed = table.vacuum(retention_hours=hours, dry_run=False, enforce_retention_duration=False)
        table.create_checkpoint()
        return len(removed)

    def close(self) -> None:
        """Forget what was read; the next look loads the table anew."""
        self._table = None

    def _load(self) -> DeltaTable | None:
        place = str(self._place)
        return DeltaTable(place) if DeltaTable.is_deltatable(place) else None

    def _create(self, rows: DataFrame) -> DeltaTable:
        self._place.mkdir(parents=True, exist_ok=True)
        return DeltaTable.create(str(self._place), schema=Schema.from_arrow(arrow_schema(rows.schema)))

    def _evolved(self, table: DeltaTable, rows: DataFrame) -> DeltaTable:
        """Add the columns that the flow has gained."""
        if table.metadata().partition_columns:
            raise DeclarationError(
                f"Delta table {self._sink.table} has partitions, which this sink can't write.",
                code="delta-partitions",
                remedy="Write to a table without partitions.",
            )
        known = {one.name: one.type for one in table.schema().fields}
        wanted = Schema.from_arrow(arrow_schema(rows.schema))
        for one in wanted.fields:
            if one.name in known and known[one.name] != one.type:
                raise DeclarationError(
                    f"Column {one.name!r} of Delta table {self._sink.table} is {known[one.name]}, not {one.type}.",
                    code="delta-refused",
                    remedy="Cast it in the flow, or give the column another name.",
                )
        gained = [one for one in wanted.fields if one.name not in known]
        if gained:
            table.alter.add_columns(gained, commit_properties=CommitProperties(max_commit_retries=0))
        return table

    def _names(self) -> tuple[str, str, str]:
        name = f"penstock-{self._opening.query_id}"
        return name, f"{name}-digest", f"{name}-run"

    def _mark(self, table: DeltaTable) -> Mark | None:
        found = [table.transaction_version(name) for name in self._names()]
        if found[0] is None:
            return None
        return Mark(found[0], f"{found[1] or 0:015x}", f"{found[2] or 0:015x}")

    def _properties(self, batch: Batch) -> CommitProperties:
        values = (batch.mark.next, _number(batch.digest), _number(self._opening.run))
        marks = [Transaction(name, value) for name, value in zip(self._names(), values, strict=True)]
        told = {"penstock.query": self._opening.query_id, "penstock.batch": str(batch.number)}
        # No retries: a commit that finds another before it must fail, so that the mark is looked at again.
        return CommitProperties(app_transactions=marks, custom_metadata=told, max_commit_retries=0)

    def _append(self, table: DeltaTable, actions: list[AddAction | RemoveAction], batch: Batch) -> None:
        table.create_write_transaction(
            actions, mode="append", schema=table.schema(), commit_properties=self._properties(batch)
        )

    def _added(self, path: str) -> AddAction:
        """A file as the log of the table tells of it."""
        there = self._place / path
        stats = json.dumps({"numRecords": parquet.read_metadata(there).num_rows})
        inside = str(there.relative_to(self._place))
        return AddAction(inside, there.stat().st_size, {}, int(there.stat().st_mtime * 1000), True, stats)

    def _merge(self, table: DeltaTable, rows: DataFrame, batch: Batch) -> None:
        keys = self._sink.keys
        changes = batch.once("keyed", lambda: keyed(rows, keys, self._sink.delete, batch))
        batch.refuse(refused_letters(self._opening, self._flow, changes.without_key, "delta"))
        staged = Staged(changes.last, batch.folder / f"delta-{uuid.uuid4().hex[:8]}")
        try:
            batch.reached("rows staged")
            same = " AND ".join(f"kept.{_quoted(key)} = last.{_quoted(key)}" for key in keys)
            columns = {_quoted(name): f"last.{_quoted(name)}" for name in shown(rows).columns}
            merging = table.merge(
                staged.reader(),
                predicate=same,
                source_alias="last",
                target_alias="kept",
                commit_properties=self._properties(batch),
            )
            batch.reached("all sent")
            (
                merging.when_matched_delete(f"last.{_quoted(DELETED)}")
                .when_matched_update(columns)
                .when_not_matched_insert(columns, predicate=f"NOT last.{_quoted(DELETED)}")
                .execute()
            )
            if self._mark(table) != batch.mark:  # nothing was to be changed, so nothing was committed
                self._append(table, [], batch)
            batch.reached("transaction committed")
        finally:
            staged.remove()
        changes.remove()

    def _refused(self, error: Exception) -> DeclarationError:
        return DeclarationError(
            f"Delta table {self._sink.table} does not take it ({_said(error)}).",
            code="delta-refused",
            remedy="Correct the flow's columns, or the table.",
        )

    @contextmanager
    def _told(self) -> Iterator[None]:
        """What `deltalake` says, as one of our errors."""
        name = self._sink.table
        try:
            yield
        except CommitFailedError as error:
            if not re.search(r"conflict|attempt|concurrent|already exists", str(error), re.IGNORECASE):
                raise self._refused(error) from error
            raise CommitUnknownError(
                f"The commit to Delta table {name} was not taken ({_said(error)}).",
                code="delta-moved",
                remedy="It is looked at and tried again.",
            ) from error
        except TableNotFoundError as error:
            raise StateError(
                f"Delta table {name} was dropped while it was written.",
                code="table-gone",
                remedy=START_OVER,
            ) from error
        except (SchemaMismatchError, DeltaError) as error:
            raise self._refused(error) from error
        except OSError as error:
            raise TransientError(
                f"Delta table {name} can't be reached ({_said(error)}).", code="delta-away", remedy="Check its folder."
            ) from error


def _number(hexadecimal: str) -> int:
    return int(hexadecimal[:15], 16)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _said(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:300]


def _sizes(table: DeltaTable) -> list[int]:
    import pyarrow as pa

    return [int(size) for size in pa.table(table.get_add_actions()).column("size_bytes").to_pylist()]
