"""PostgreSQL as the database of a capture: rights, publication, slot, columns."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import errors, sql

from penstock.cdc.columns import Column
from penstock.cdc.database import Slot, SourceDatabase
from penstock.errors import DeclarationError, SetupError, TransientError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from penstock.cdc.capture import Capture, Database, Table

__all__ = ["PostgresDatabase"]

_PLAIN = {
    "boolean": "BOOLEAN",
    "smallint": "SMALLINT",
    "integer": "INT",
    "bigint": "BIGINT",
    "oid": "BIGINT",
    "real": "FLOAT",
    "double precision": "DOUBLE",
    "bytea": "BINARY",
    "timestamp with time zone": "TIMESTAMP",
}
_WRITTEN = {
    "date": ("DATE", "days"),
    "timestamp without time zone": ("TIMESTAMP_NTZ", "microseconds"),
    "time without time zone": ("STRING", "time"),
}
_LARGEST_PRECISION = 38
_LOST = "lost"


class PostgresDatabase(SourceDatabase):
    """A connection with the capture's own user."""

    def __init__(self, where: Database) -> None:
        self._where = where
        optional: dict[str, Any] = {"password": where.password.reveal()} if where.password else {}
        if where.sslmode:
            optional["sslmode"] = where.sslmode
        try:
            self._connection = psycopg.connect(
                host=where.host,
                port=where.port,
                dbname=where.name,
                user=where.user,
                application_name="penstock-cdc",
                connect_timeout=10,
                autocommit=True,
                **optional,
            )
        except psycopg.Error as error:
            raise _not_in(where, error) from error

    def check(self, capture: Capture) -> None:
        """The log is logical, we may replicate, every table is there with a key, and we may publish it."""
        with self._told():
            self._check_server()
            for table in capture.tables:
                self._check_table(table)

    def prepare(self, capture: Capture) -> None:
        """A publication of exactly these tables; whole rows before a change, where the capture wants them."""
        tables = sql.SQL(", ").join(_identifier(table) for table in capture.tables)
        name = sql.Identifier(capture.slot)
        with self._told(), self._connection.transaction():
            found = self._one("SELECT 1 FROM pg_publication WHERE pubname = %s", capture.slot)
            if found:
                self._do(sql.SQL("ALTER PUBLICATION {} SET TABLE {}").format(name, tables))
            else:
                self._do(sql.SQL("CREATE PUBLICATION {} FOR TABLE {}").format(name, tables))
            if capture.declared.before == "full":
                for table in capture.tables:
                    self._do(sql.SQL("ALTER TABLE {} REPLICA IDENTITY FULL").format(_identifier(table)))

    def clean(self, capture: Capture) -> None:
        """Drop the publication and the slot, and give the tables their usual replica identity back."""
        with self._told():
            self._one(
                "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots"
                " WHERE slot_name = %s AND active_pid IS NOT NULL",
                capture.slot,
            )
            self._drop_slot(capture.slot)
            if self._one("SELECT 1 FROM pg_publication WHERE pubname = %s", capture.slot):
                self._do(sql.SQL("DROP PUBLICATION {}").format(sql.Identifier(capture.slot)))
                for table in capture.tables if capture.declared.before == "full" else ():
                    if self._one("SELECT to_regclass(%s)", _regclass(table)):
                        self._do(sql.SQL("ALTER TABLE {} REPLICA IDENTITY DEFAULT").format(_identifier(table)))

    def columns(self, table: Table) -> tuple[Column, ...]:
        """As the catalogue has them, domains as what they are of."""
        with self._told():
            rows = self._connection.execute(
                """
                SELECT a.attname, format_type(coalesce(nullif(t.typbasetype, 0), t.oid),
                           CASE WHEN t.typbasetype = 0 THEN a.atttypmod ELSE t.typtypmod END),
                       coalesce(a.attnum = ANY (i.indkey), false)
                FROM pg_attribute a
                JOIN pg_type t ON t.oid = a.atttypid
                LEFT JOIN pg_index i ON i.indrelid = a.attrelid AND i.indisprimary
                WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped
                  AND a.attgenerated IN ('', 's')
                ORDER BY a.attnum
                """,
                (_regclass(table),),
            ).fetchall()
        if not rows:
            raise _unknown(table, self._where)
        return tuple(_column(name, kind, key=key) for name, kind, key in rows)

    def keys(self, table: Table, columns: Sequence[Column]) -> Iterable[tuple[Any, ...]]:
        """The key columns of all rows."""
        names = sql.SQL(", ").join(sql.Identifier(one.name) for one in columns)
        with self._told():
            return self._connection.execute(sql.SQL("SELECT {} FROM {}").format(names, _identifier(table)))

    def position(self) -> dict[str, Any]:
        """The log sequence number as a number."""
        with self._told():
            return {"lsn": int(self._one("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn"))}

    def slot(self, capture: Capture) -> Slot:
        """What the server says of the slot."""
        with self._told():
            found = self._connection.execute(
                """
                SELECT active, wal_status, confirmed_flush_lsn::text,
                       pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn)::bigint,
                       pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::bigint,
                       safe_wal_size
                FROM pg_replication_slots WHERE slot_name = %s
                """,
                (capture.slot,),
            ).fetchone()
        if found is None:
            remedy = f"There is no slot: `penstock cdc create {capture.name} --snapshot-again` makes it anew."
            return Slot(capture.name, capture.slot, "missing", None, None, None, None, remedy)
        active, wal, confirmed, behind, held, safe = found
        state = _LOST if wal == _LOST else "active" if active else "idle"
        return Slot(
            capture.name, capture.slot, state, confirmed, behind, held, None, _outlook(capture, state, wal, safe)
        )

    def close(self) -> None:
        """End the connection."""
        self._connection.close()

    def _check_server(self) -> None:
        level = self._one("SHOW wal_level")
        if level != "logical":
            raise SetupError(
                f"{self._where} writes its log with wal_level={level}, which holds no changes of rows.",
                code="wal-level",
                remedy="Run ALTER SYSTEM SET wal_level = 'logical' there and restart the server.",
            )
        if not self._one("SELECT rolreplication OR rolsuper FROM pg_roles WHERE rolname = current_user"):
            raise SetupError(
                f"User {self._where.user} of {self._where} may not replicate.",
                code="replication-right",
                remedy=f"Let an administrator run: ALTER ROLE {_quoted(self._where.user)} REPLICATION",
            )
        if not self._one("SELECT has_database_privilege(current_database(), 'CREATE')"):
            raise SetupError(
                f"User {self._where.user} may not create a publication in database {self._where.name}.",
                code="publication-right",
                remedy="Let an administrator run: GRANT CREATE ON DATABASE"
                f" {_quoted(self._where.name)} TO {_quoted(self._where.user)}",
            )

    def _check_table(self, table: Table) -> None:
        found = self._connection.execute(
            """
            SELECT c.relkind::text, pg_has_role(c.relowner, 'USAGE'), has_table_privilege(c.oid, 'SELECT'),
                   EXISTS (SELECT 1 FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary)
            FROM pg_class c WHERE c.oid = to_regclass(%s)
            """,
            (_regclass(table),),
        ).fetchone()
        if found is None or found[0] not in ("r", "p"):
            raise _unknown(table, self._where)
        _, owner, may_read, keyed = found
        if not (owner and may_read):
            raise SetupError(
                f"User {self._where.user} may not publish table {table}: only its owner may.",
                code="publication-right",
                remedy="Make the user a member of the role that owns it, with GRANT … TO, and let it read.",
            )
        if not keyed:
            raise DeclarationError(
                f"Table {table} has no primary key, so its changes have none either.",
                code="table-without-key",
                remedy=f"Give it one: ALTER TABLE {table} ADD PRIMARY KEY (…).",
            )

    def _drop_slot(self, name: str) -> None:
        for _ in range(50):
            try:
                self._one(
                    "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s", name
                )
            except errors.ObjectInUse:  # its reader is on its way out
                self._one("SELECT pg_sleep(0.1)")
            else:
                return

    def _one(self, query: str, *values: Any) -> Any:
        row = self._connection.execute(query, values).fetchone()
        return row[0] if row else None

    def _do(self, statement: sql.Composed) -> None:
        self._connection.execute(statement)

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except errors.InsufficientPrivilege as error:
            raise SetupError(
                f"{self._where} does not allow it: {_said(error)}.",
                code="publication-right",
                remedy="Give the capture's user the right, or name another user.",
            ) from error
        except psycopg.OperationalError as error:
            raise TransientError(
                f"{self._where} went away ({_said(error)}).", code="database-away", remedy="Try again when it is back."
            ) from error


def _column(name: str, kind: str, *, key: bool) -> Column:
    if kind.endswith("[]"):
        of = _column(name, kind[:-2], key=False)
        return Column(name, "STRING" if of.written else f"ARRAY<{of.kind}>", key=key)
    plain = re.sub(r"\(\d+\)", "", kind)
    if plain in _PLAIN:
        return Column(name, _PLAIN[plain], key=key)
    if plain in _WRITTEN:
        return Column(name, *_WRITTEN[plain], key=key)
    if number := re.fullmatch(r"numeric\((\d+),(\d+)\)", kind):
        precision, scale = map(int, number.groups())
        if precision <= _LARGEST_PRECISION and 0 <= scale <= precision:
            return Column(name, f"DECIMAL({precision},{scale})", key=key)
    return Column(name, "STRING", key=key)


def _outlook(capture: Capture, state: str, wal: str | None, safe: int | None) -> str:
    if state == _LOST:
        return f"Changes are lost: make a new snapshot with `penstock cdc create {capture.name} --snapshot-again`."
    if state == "active":
        return "The log moves on as it is read."
    if wal == "unreserved":
        return "It will be lost at the next checkpoint of the server: resume the capture now."
    if safe is None:
        return "The server keeps its log until the capture goes on, and in the end its disk is full."
    return f"After {safe >> 20} MiB more of log the slot is lost, and a new snapshot is needed."


def _not_in(where: Database, error: psycopg.Error) -> Exception:
    said = _said(error)
    if isinstance(error, errors.InvalidPassword | errors.InvalidAuthorizationSpecification) or re.search(
        r"password|authentication|role .* does not exist|no pg_hba", said
    ):
        return SetupError(
            f"{where} does not let user {where.user} in: {said}.",
            code="database-refused",
            remedy="Correct user and password of the capture.",
        )
    if "does not exist" in said:
        return DeclarationError(
            f"{where} is not there: {said}.", code="database-unknown", remedy="Correct the capture's database."
        )
    return TransientError(
        f"{where} does not answer ({said}).", code="database-away", remedy="Start it, or correct host and port."
    )


def _said(error: psycopg.Error) -> str:
    lines = str(error).strip().splitlines() or ["no reason given"]
    return re.sub(r"^(connection failed: )?.*?(FATAL|ERROR):\s*", "", lines[-1 if "FATAL" in lines[-1] else 0]).strip()


def _unknown(table: Table, where: Database) -> DeclarationError:
    return DeclarationError(
        f"{where} has no table {table}.", code="table-unknown", remedy="Correct the capture's tables."
    )


def _identifier(table: Table) -> sql.Identifier:
    return sql.Identifier(table.schema, table.name)


def _regclass(table: Table) -> str:
    return f"{_quoted(table.schema)}.{_quoted(table.name)}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
