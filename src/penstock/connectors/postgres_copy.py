"""COPY: rows as lines made by Spark, poured into a table; a line that is refused does not stop the others."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from penstock.connectors.base import quoted
from penstock.connectors.keyed import DELETED, deletes, in_order, shown
from penstock.connectors.postgres_types import copy_line, has_zero
from penstock.errors import CommitUnknownError, PenstockError, SetupError, TransientError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from penstock.connectors.postgres import Postgres
    from penstock.settings import Postgres as Settings

__all__ = ["DELETED", "ORDER", "SPREAD", "Refused", "away", "connect", "copied", "prepared", "said"]

ORDER = "__penstock_order"
SPREAD = "__penstock_spread"
_UNESCAPED = {"\\t": "\t", "\\n": "\n", "\\r": "\r", "\\\\": "\\"}


@dataclass(frozen=True)
class Refused:
    """A row that the table does not take, and why."""

    row: str
    why: str


def connect(settings: Settings, database: str | None, name: str, **options: Any) -> psycopg.Connection[Any]:
    """A connection of ours, known by its name."""
    if settings.password:
        options["password"] = settings.password.reveal()
    if settings.sslmode:
        options["sslmode"] = settings.sslmode
    return psycopg.connect(
        host=settings.host,
        port=settings.port,
        dbname=database or settings.database,
        user=settings.user,
        application_name=name,
        connect_timeout=10,
        autocommit=True,
        options="-c client_encoding=UTF8 -c DateStyle=ISO -c IntervalStyle=postgres",
        **options,
    )


def prepared(rows: DataFrame, sink: Postgres) -> DataFrame:
    """Each row as a `line` of COPY, numbered; a row that can't be one has `why` and itself as JSON in `row`."""
    from pyspark.sql import functions as F  # noqa: N812

    why = F.when(has_zero(rows.schema), F.lit("a text with a zero byte in it"))
    for column in quoted(sink.keys):
        why = F.coalesce(why, F.when(column.isNull(), F.lit("its key is empty")))
    given = F.to_json(F.struct(*quoted(shown(rows).columns)))
    if sink.keys:
        rows = rows.withColumn(DELETED, deletes(rows, sink.delete))
    rows = shown(in_order(rows))
    line = copy_line(rows.schema)
    spread = F.xxhash64(*quoted(sink.keys)) if sink.keys else F.monotonically_increasing_id()
    return rows.select(
        F.when(why.isNull(), line).alias("line"),
        why.alias("why"),
        F.when(why.isNotNull(), given).alias("row"),
        spread.alias(SPREAD),
        F.monotonically_increasing_id().alias(ORDER),
    )


def copied(
    connection: psycopg.Connection[Any], table: sql.Composable, columns: Sequence[str], pieces: Iterator[pa.RecordBatch]
) -> Iterator[Refused]:
    """Pour lines into a table, in the transaction that is open; what is refused comes back."""
    names = sql.SQL(", ").join(map(sql.Identifier, columns))
    statement = sql.SQL("COPY {} ({}) FROM STDIN").format(table, names)
    for piece in pieces:
        lines = piece.column("line").to_pylist()
        for why, row in zip(piece.column("why").to_pylist(), piece.column("row").to_pylist(), strict=True):
            if why is not None:
                yield Refused(row, why)
        yield from _poured(connection, statement, columns, [line for line in lines if line is not None])


def _poured(
    connection: psycopg.Connection[Any], statement: sql.Composed, columns: Sequence[str], lines: list[str]
) -> Iterator[Refused]:
    """All lines at once; if one is refused, half and half until it is found."""
    if not lines:
        return
    try:
        with connection.transaction(), connection.cursor() as cursor, cursor.copy(statement) as copy:
            copy.write("\n".join(lines) + "\n")
    except (psycopg.DataError, psycopg.IntegrityError) as error:
        if len(lines) == 1:
            fields = dict(zip(columns, map(_unescaped, lines[0].split("\t")), strict=True))
            fields.pop(DELETED, None)
            yield Refused(json.dumps(fields), (error.diag.message_primary or str(error)).splitlines()[0])
            return
        half = len(lines) // 2
        yield from _poured(connection, statement, columns, lines[:half])
        yield from _poured(connection, statement, columns, lines[half:])


def _unescaped(field: str) -> str | None:
    if field == "\\N":
        return None
    made, at = [], 0
    while at < len(field):
        pair = field[at : at + 2]
        made.append(_UNESCAPED.get(pair, field[at]))
        at += 2 if pair in _UNESCAPED else 1
    return "".join(made)


def away(error: psycopg.Error, where: str, doing: str) -> PenstockError:
    """An error of the connection as one of ours."""
    told = said(error)
    if any(sign in told for sign in ("authentication failed", "no password supplied", "does not exist", "pg_hba.conf")):
        return SetupError(
            f"PostgreSQL at {where} refuses us ({told}).",
            code="postgres-refused-us",
            remedy="Check user, password and database of the profile in penstock.toml.",
        )
    if doing == "writing":
        return CommitUnknownError(
            f"PostgreSQL at {where} went away while a batch was written ({told}).",
            code="postgres-away",
            remedy="It is tried again; what the mark says decides.",
        )
    return TransientError(
        f"PostgreSQL at {where} does not answer ({told}).",
        code="postgres-away",
        remedy="Start the local one with `penstock up postgres`, or check the profile.",
    )


def said(error: psycopg.Error) -> str:
    """What the database says, in a line."""
    return (error.diag.message_primary or str(error)).strip().splitlines()[0]
