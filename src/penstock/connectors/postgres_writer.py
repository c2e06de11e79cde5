"""A batch into PostgreSQL exactly once: COPY into a table of its own, then one transaction with the mark.

The row of the mark is locked first and looked at under the lock; a connection of an older process of the same query
is ended when ours opens. So of two processes only one can write a batch.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import errors, sql

from penstock.connectors.keyed import shown
from penstock.connectors.letters import dead_letters, envelope
from penstock.connectors.postgres_copy import away, connect, said
from penstock.connectors.postgres_stage import Stage
from penstock.connectors.writing import REBUILD, START_OVER, Batch, Letter, Mark, MarkedWriter, Opening, Successor
from penstock.errors import CommitUnknownError, DeclarationError, PenstockError, SetupError, StateError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame

    from penstock.connectors.base import BatchSink
    from penstock.connectors.postgres import Postgres
    from penstock.connectors.postgres_copy import Refused

__all__ = ["PostgresWriter"]

_MARKS = """
CREATE TABLE IF NOT EXISTS penstock_marks (
    query_id text NOT NULL,
    sink text NOT NULL,
    next bigint NOT NULL,
    digest text NOT NULL,
    run text NOT NULL,
    written_at timestamp with time zone NOT NULL DEFAULT now(),
    PRIMARY KEY (query_id, sink)
)
"""


class PostgresWriter(MarkedWriter, Successor):
    """All tables of one database that a query writes, in one transaction per batch."""

    def __init__(self, opening: Opening, sinks: Sequence[tuple[str, Postgres]]) -> None:
        self._opening = opening
        self._sinks = sinks
        self._settings = opening.context.settings.postgres
        self._database = sinks[0][1].database
        # The mark of a table that is built anew is not the one of the database's other tables.
        rebuilt = f":{sinks[0][1].table}" if opening.run == REBUILD else ""
        self._key = (opening.query_id, sinks[0][1].together() + rebuilt)
        self._connection: psycopg.Connection[Any] | None = None

    def mark(self) -> Mark | None:
        """The row of this query in the table of marks."""
        with self._told("reading the mark"):
            return self._mark(self._open())

    def write(self, rows: Mapping[str, DataFrame], batch: Batch) -> None:
        """Copy the rows of every table, merge them, mark the batch, commit."""
        refused: list[Letter] = []
        with self._told("writing"):
            connection = self._open()
            known = self._mark(connection) is not None
            stages, unique = [], f"{self._opening.query_id[:8]}_{batch.number}"
            for flow, sink in self._sinks:
                stage = Stage(connection, sink, shown(rows[flow]).schema, unique)
                stage.begin(known=known)
                refused += [self._letter(flow, one) for one in stage.ready(rows[flow], batch, self._settings)]
                stages.append((flow, stage))
            batch.reached("rows staged")
            with connection.transaction():
                mark = self._locked(connection)
                if mark is not None and mark.next != batch.number and self._opening.run != REBUILD:
                    raise CommitUnknownError(
                        "Another process has moved the mark of this query in PostgreSQL.",
                        code="mark-moved",
                        remedy="It is looked at again.",
                    )
                for flow, stage in stages:
                    refused += [self._letter(flow, one) for one in stage.copied()]
                    batch.reached("some rows sent")
                    stage.merge()
                batch.refuse(refused)
                self._note(connection, batch)
                batch.reached("all sent")
        batch.reached("transaction committed")
        for _, stage in stages:
            stage.end()

    def take_place_of(self, sink: BatchSink) -> None:
        """Exchange the rows in one transaction: rights, indexes and views of the table stay."""
        ((_, beside),) = self._sinks
        assert isinstance(sink, type(beside))
        old, new = sql.Identifier(*sink.path), sql.Identifier(*beside.path)
        with self._told("writing"), self._open().transaction():
            connection = self._open()
            names = connection.execute(
                "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped",
                (new.as_string(connection),),
            ).fetchall()
            columns = sql.SQL(", ").join(sql.Identifier(name) for (name,) in names)
            connection.execute(sql.SQL("DELETE FROM {}").format(old))
            connection.execute(sql.SQL("INSERT INTO {} ({}) SELECT {} FROM {}").format(old, columns, columns, new))
            connection.execute(sql.SQL("DROP TABLE {}").format(new))
            connection.execute("DELETE FROM penstock_marks WHERE query_id = %s AND sink = %s", self._key)

    def close(self) -> None:
        """End the connection; an open transaction is rolled back."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _open(self) -> psycopg.Connection[Any]:
        """A connection, after the one of any older process of this query is ended."""
        if self._connection is None or self._connection.closed:
            name = f"penstock-{self._opening.query_id}"
            made = connect(self._settings, self._database, name)
            try:
                self._begin(made, name)
            except BaseException:
                made.close()
                raise
            self._connection = made
        return self._connection

    def _begin(self, made: psycopg.Connection[Any], name: str) -> None:
        made.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = %s AND pid <> pg_backend_pid() AND datname = current_database()",
            (name,),
        )
        with made.transaction():
            made.execute("SELECT pg_advisory_xact_lock(hashtext('penstock_marks'))")
            made.execute(_MARKS)

    def _mark(self, connection: psycopg.Connection[Any]) -> Mark | None:
        asked = "SELECT next, digest, run FROM penstock_marks WHERE query_id = %s AND sink = %s"
        found = connection.execute(asked, self._key).fetchone()
        return Mark(*found) if found else None

    def _locked(self, connection: psycopg.Connection[Any]) -> Mark | None:
        """The mark, which nobody else of this query can move now until we are through."""
        connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (":".join(self._key),))
        return self._mark(connection)

    def _note(self, connection: psycopg.Connection[Any], batch: Batch) -> None:
        connection.execute(
            "INSERT INTO penstock_marks (query_id, sink, next, digest, run) VALUES (%s, %s, %s, %s, %s)"
            " ON CONFLICT (query_id, sink) DO UPDATE SET next = excluded.next, digest = excluded.digest,"
            " run = excluded.run, written_at = now()",
            (*self._key, batch.mark.next, batch.digest, self._opening.run),
        )

    def _letter(self, flow: str, refused: Refused) -> Letter:
        pipeline = self._opening.pipeline
        key, letter = envelope(pipeline, flow, "refused by postgres", refused.why, {"value": refused.row})
        return dead_letters(pipeline), key, letter

    @contextmanager
    def _told(self, doing: str) -> Iterator[None]:
        """What the database says, as one of our errors."""
        where = self._settings.url
        try:
            yield
        except PenstockError:
            raise
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            if (error.sqlstate or "").startswith("54"):  # a limit of the database, such as the length of a key
                raise _refused(error, where, doing) from error
            raise away(error, where, doing) from error
        except errors.UndefinedTable as error:
            raise StateError(
                f"A table is not there any more ({said(error)}).",
                code="table-gone",
                remedy=START_OVER,
            ) from error
        except errors.InsufficientPrivilege as error:
            raise SetupError(
                f"PostgreSQL at {where} forbids it ({said(error)}).",
                code="postgres-forbidden",
                remedy="Grant that right to the user of this profile.",
            ) from error
        except psycopg.Error as error:
            raise _refused(error, where, doing) from error


def _refused(error: psycopg.Error, where: str, doing: str) -> DeclarationError:
    return DeclarationError(
        f"PostgreSQL at {where} does not take it ({doing}: {said(error)}).",
        code="postgres-refused",
        remedy="Correct the flow's columns, or the table.",
    )
