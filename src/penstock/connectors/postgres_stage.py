"""A table beside the one that is written: a batch is poured into it, checked by it, and merged out of it."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from penstock.connectors.in_workers import as_text, raise_first
from penstock.connectors.postgres_copy import DELETED, ORDER, SPREAD, Refused, away, connect, copied, prepared
from penstock.connectors.postgres_types import sql_type
from penstock.connectors.staged import Staged
from penstock.connectors.writing import START_OVER
from penstock.errors import DeclarationError, StateError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from penstock.connectors.postgres import Postgres
    from penstock.connectors.writing import Batch
    from penstock.settings import Postgres as Settings

__all__ = ["Stage"]


class Stage:
    """One sink's rows of one batch, in the transaction that is open."""

    def __init__(self, connection: psycopg.Connection[Any], sink: Postgres, schema: StructType, unique: str) -> None:
        self._connection = connection
        self._sink = sink
        self._schema = schema
        self._target = sql.Identifier(*sink.path)
        self._name = f"penstock_{unique}_{zlib.crc32(sink.table.encode())}"
        self._parts = [sql.Identifier(self._name)]
        self._staged: Staged | None = None

    @property
    def _columns(self) -> list[str]:
        return [*self._schema.names, *([DELETED] if self._sink.keys else [])]

    def begin(self, *, known: bool) -> None:
        """Make the table if that was asked for and it was never there."""
        there = self._columns_there()
        if there is None:
            if known:
                raise StateError(
                    f"Table {self._sink.table} is not there any more, but batches were written to it.",
                    code="table-gone",
                    remedy=START_OVER,
                )
            if not self._sink.create:
                raise DeclarationError(
                    f"There is no table {self._sink.table}.",
                    code="table-unknown",
                    remedy="Create it, or let the sink do it: ps.Postgres(…, create=True).",
                )
            self._create()
            there = set(self._schema.names)
        missing = [name for name in self._schema.names if name not in there]
        if missing and self._sink.create:
            self._add(missing)
        elif missing:
            raise DeclarationError(
                f"Table {self._sink.table} has no column {missing[0]!r}.",
                code="column-unknown",
                remedy=f"Add it, or leave it out of the flow; the table has {', '.join(sorted(there))}. A sink with"
                " create=True adds it by itself.",
            )

    def ready(self, rows: DataFrame, batch: Batch, settings: Settings) -> list[Refused]:
        """All of Spark's work: lines on disk and, with several writers, in tables of the database."""
        self._staged = batch.once(self._name, lambda: Staged(prepared(rows, self._sink), batch.folder / self._name))
        return self._poured_by_workers(rows.sparkSession, settings) if self._sink.writers > 1 else []

    def copied(self) -> Iterator[Refused]:
        """Pour the lines that are on disk into a table of the transaction that is open."""
        if self._sink.writers == 1 and self._staged is not None:
            _make(self._connection, sql.SQL("TEMP"), self._target, self._parts[0], self._schema.names)
            yield from copied(self._connection, self._parts[0], self._columns, self._staged.pieces())

    def _poured_by_workers(self, spark: SparkSession, settings: Settings) -> list[Refused]:
        """Lines poured in by several connections of Spark's workers, each into a table of its own."""
        sink, target, columns, name = self._sink, self._target, self._columns, self._name
        names = self._schema.names
        assert self._staged is not None
        lines = (
            spark.read.parquet(str(self._staged.folder)).repartition(sink.writers, SPREAD).sortWithinPartitions(ORDER)
        )

        def pour(pieces: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            import pyarrow as pa
            from pyspark import TaskContext

            context = TaskContext.get()
            assert context is not None
            number, error = context.partitionId(), None
            part = sql.Identifier(f"{name}_{number}")
            found: list[Refused] = []
            try:
                with connect(settings, sink.database, f"{name}-writer") as own, own.transaction():
                    own.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(part))
                    _make(own, sql.SQL("UNLOGGED"), target, part, names)
                    found = list(copied(own, part, columns, pieces))
            except psycopg.OperationalError as raised:
                error = as_text(away(raised, settings.url, "reading the mark"))
            told = [(number, None, None, error), *((number, one.row, one.why, None) for one in found)]
            kinds = [("part", pa.int32()), ("row", pa.string()), ("why", pa.string()), ("error", pa.string())]
            schema = pa.schema(kinds)
            yield pa.RecordBatch.from_pylist([dict(zip(schema.names, one, strict=True)) for one in told], schema)

        told = lines.mapInArrow(pour, "part INT, row STRING, why STRING, error STRING").collect()
        raise_first(one["error"] for one in told)
        self._parts = [sql.Identifier(f"{name}_{part}") for part in sorted({one["part"] for one in told})]
        return [Refused(one["row"], one["why"]) for one in told if one["why"] is not None]

    def merge(self) -> None:
        """Bring the rows into the table, the last one of each key, and drop what they were in."""
        if not self._parts:
            return
        names = sql.SQL(", ").join(map(sql.Identifier, self._schema.names))
        rows = sql.SQL(" UNION ALL ").join(sql.SQL("SELECT * FROM {}").format(part) for part in self._parts)
        if self._sink.keys:
            self._upsert(names, rows)
        else:
            self._connection.execute(
                sql.SQL("INSERT INTO {} ({}) SELECT {} FROM ({}) AS rows").format(self._target, names, names, rows)
            )
        for part in self._parts:
            self._connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(part))

    def end(self) -> None:
        """Give the space of the lines back."""
        if self._staged is not None:
            self._staged.remove()

    def _upsert(self, names: sql.Composed, rows: sql.Composed) -> None:
        keys = sql.SQL(", ").join(map(sql.Identifier, self._sink.keys))
        order, deleted = sql.Identifier(ORDER), sql.Identifier(DELETED)
        last = sql.SQL("SELECT DISTINCT ON ({0}) * FROM ({1}) AS rows ORDER BY {0}, {2} DESC").format(keys, rows, order)
        self._connection.execute(
            sql.SQL("DELETE FROM {} AS kept USING ({}) AS last WHERE last.{} AND {}").format(
                self._target,
                last,
                deleted,
                sql.SQL(" AND ").join(
                    sql.SQL("kept.{0} = last.{0}").format(sql.Identifier(key)) for key in self._sink.keys
                ),
            )
        )
        others = [sql.Identifier(name) for name in self._schema.names if name not in self._sink.keys]
        changed = sql.SQL(", ").join(sql.SQL("{0} = excluded.{0}").format(name) for name in others)
        action = sql.SQL("DO UPDATE SET {}").format(changed) if others else sql.SQL("DO NOTHING")
        self._connection.execute(
            sql.SQL("INSERT INTO {} ({}) SELECT {} FROM ({}) AS last WHERE NOT last.{} ON CONFLICT ({}) {}").format(
                self._target, names, names, last, deleted, keys, action
            )
        )

    def _columns_there(self) -> set[str] | None:
        found = self._connection.execute(
            "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped",
            (self._target.as_string(self._connection),),
        ).fetchall()
        return {row[0] for row in found} or None

    def _add(self, names: list[str]) -> None:
        """Columns that the flow has gained."""
        for one in self._schema.fields:
            if one.name in names:
                kind = sql.SQL(sql_type(one.dataType, one.name))
                self._connection.execute(
                    sql.SQL("ALTER TABLE {} ADD COLUMN IF NOT EXISTS {} {}").format(
                        self._target, sql.Identifier(one.name), kind
                    )
                )

    def _create(self) -> None:
        columns = [
            sql.SQL("{} {}").format(sql.Identifier(one.name), sql.SQL(sql_type(one.dataType, one.name)))
            for one in self._schema.fields
        ]
        if self._sink.keys:
            columns.append(sql.SQL("PRIMARY KEY ({})").format(sql.SQL(", ").join(map(sql.Identifier, self._sink.keys))))
        if len(self._sink.path) == 2:
            schema = sql.Identifier(self._sink.path[0])
            self._connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(schema))
        self._connection.execute(sql.SQL("CREATE TABLE {} ({})").format(self._target, sql.SQL(", ").join(columns)))


def _make(
    connection: psycopg.Connection[Any],
    kind: sql.SQL,
    target: sql.Identifier,
    part: sql.Identifier,
    names: list[str],
) -> None:
    """A table with the types and checks of the one that is written, for those columns that are, and the order."""
    like = sql.SQL("CREATE {} TABLE {} (LIKE {} INCLUDING CONSTRAINTS)").format(kind, part, target)
    connection.execute(like)
    there = connection.execute(
        "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped",
        (part.as_string(connection),),
    ).fetchall()
    for (name,) in there:
        if name not in names:
            connection.execute(sql.SQL("ALTER TABLE {} DROP COLUMN {}").format(part, sql.Identifier(name)))
    connection.execute(
        sql.SQL("ALTER TABLE {} ADD COLUMN {} boolean, ADD COLUMN {} bigint GENERATED ALWAYS AS IDENTITY").format(
            part, sql.Identifier(DELETED), sql.Identifier(ORDER)
        )
    )
