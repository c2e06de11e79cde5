"""MySQL and MariaDB as the database of a capture: log settings, rights, columns."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pymysql
from pymysql.constants import ER

from penstock.cdc.columns import Column
from penstock.cdc.database import Slot, SourceDatabase
from penstock.errors import DeclarationError, SetupError, TransientError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from penstock.cdc.capture import Capture, Database, Table

__all__ = ["MysqlDatabase"]

_RIGHTS = ("SELECT", "RELOAD", "REPLICATION SLAVE")
_OTHER_NAMES = {"REPLICATION SLAVE": ("REPLICATION SLAVE", "REPLICATION REPLICA")}
_CLIENT = ("REPLICATION CLIENT", "BINLOG MONITOR", "SLAVE MONITOR", "REPLICA MONITOR")
_LARGEST_PRECISION = 38
_PLAIN = {
    "tinyint": "SMALLINT",
    "smallint": "SMALLINT",
    "mediumint": "INT",
    "int": "INT",
    "bigint": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "year": "INT",
    "timestamp": "TIMESTAMP",
    **dict.fromkeys(("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"), "BINARY"),
}
_UNSIGNED = {"tinyint": "SMALLINT", "smallint": "INT", "mediumint": "INT", "int": "BIGINT", "bigint": "DECIMAL(20,0)"}
_WRITTEN = {"date": ("DATE", "days"), "datetime": ("TIMESTAMP_NTZ", "microseconds"), "time": ("STRING", "time")}


class MysqlDatabase(SourceDatabase):
    """A connection with the capture's own user."""

    def __init__(self, where: Database) -> None:
        self._where = where
        optional: dict[str, Any] = {"password": where.password.reveal()} if where.password else {}
        try:
            self._connection = pymysql.connect(
                host=where.host,
                port=where.port,
                user=where.user,
                database=where.name,
                connect_timeout=10,
                autocommit=True,
                **optional,
            )
        except pymysql.Error as error:
            raise _not_in(where, error) from error

    def check(self, capture: Capture) -> None:
        """The log has whole rows, we may read it, every table is there with a key."""
        with self._told():
            self._check_server()
            for table in capture.tables:
                kinds = self._rows(
                    "SELECT table_type FROM information_schema.tables WHERE table_schema = %s AND table_name = %s",
                    table.schema,
                    table.name,
                )
                if not kinds or kinds[0][0] != "BASE TABLE":
                    raise _unknown(table, self._where)
                if not any(column.key for column in self.columns(table)):
                    raise DeclarationError(
                        f"Table {table} has no primary key, so its changes have none either.",
                        code="table-without-key",
                        remedy=f"Give it one: ALTER TABLE {table} ADD PRIMARY KEY (…).",
                    )

    def prepare(self, capture: Capture) -> None:
        """Nothing: the log is there for everybody."""

    def clean(self, capture: Capture) -> None:
        """Nothing: the log forgets by itself."""

    def columns(self, table: Table) -> tuple[Column, ...]:
        """As the catalogue has them."""
        with self._told():
            rows = self._rows(
                "SELECT column_name, column_type, column_key FROM information_schema.columns"
                " WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position",
                table.schema,
                table.name,
            )
        if not rows:
            raise _unknown(table, self._where)
        return tuple(_column(name, kind.lower(), key=key == "PRI") for name, kind, key in rows)

    def keys(self, table: Table, columns: Sequence[Column]) -> Iterable[tuple[Any, ...]]:
        """The key columns of all rows."""
        names = ", ".join(_quoted(one.name) for one in columns)
        with self._told():
            return self._rows(f"SELECT {names} FROM {_quoted(table.schema)}.{_quoted(table.name)}")  # noqa: S608

    def position(self) -> dict[str, Any]:
        """The file and the place in it."""
        with self._told():
            logs = self._rows("SHOW BINARY LOGS")
        return {"file": logs[-1][0], "pos": int(logs[-1][1])}

    def slot(self, capture: Capture) -> Slot:
        """There are no slots: only how much log the server keeps for everybody."""
        with self._told():
            held = sum(int(row[1]) for row in self._rows("SHOW BINARY LOGS"))
            days = self._rows("SHOW VARIABLES LIKE 'binlog_expire_logs_seconds'")
        seconds = int(float(days[0][1])) if days else 0
        outlook = (
            f"The server keeps its log for {seconds / 3600:g} h: after a longer pause a new snapshot is needed."
            if seconds
            else "The server keeps its log until it is purged by hand."
        )
        return Slot(capture.name, "binlog", "active", None, None, held, None, outlook)

    def close(self) -> None:
        """End the connection."""
        self._connection.close()

    def _check_server(self) -> None:
        wanted = {"log_bin": ("ON", "1"), "binlog_format": ("ROW",), "binlog_row_image": ("FULL",)}
        asked = "SHOW VARIABLES WHERE Variable_name IN ('log_bin', 'binlog_format', 'binlog_row_image')"
        settings = {name.lower(): value for name, value in self._rows(asked)}
        for name, good in wanted.items():
            if settings.get(name, "").upper() not in good:
                raise SetupError(
                    f"{self._where} has {name}={settings.get(name, 'nothing')}: its log does not hold whole rows.",
                    code="binlog",
                    remedy=f"Set {name}={good[0]} in the server's settings and restart it.",
                )
        granted = " ".join(row[0] for row in self._rows("SHOW GRANTS")).upper()
        if "ALL PRIVILEGES ON *.*" in granted:
            return
        lacking = [one for one in _RIGHTS if not any(name in granted for name in _OTHER_NAMES.get(one, (one,)))]
        lacking += [] if any(name in granted for name in _CLIENT) else [_CLIENT[0]]
        if lacking:
            raise SetupError(
                f"User {self._where.user} of {self._where} lacks the right {lacking[0]}.",
                code="replication-right",
                remedy=f"Let an administrator run: GRANT {', '.join(lacking)} ON *.* TO '{self._where.user}'",
            )

    def _rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._connection.cursor() as cursor:
            cursor.execute(query, values or None)
            return list(cursor.fetchall())

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except pymysql.OperationalError as error:
            raise _not_in(self._where, error) from error


def _column(name: str, kind: str, *, key: bool) -> Column:
    plain, unsigned = kind.split("(")[0].split(" ")[0], "unsigned" in kind
    if kind == "tinyint(1)" or kind == "bit(1)":
        return Column(name, "SMALLINT" if plain == "tinyint" else "BOOLEAN", key=key)
    if plain in _WRITTEN:
        return Column(name, *_WRITTEN[plain], key=key)
    if unsigned and plain in _UNSIGNED:
        return Column(name, _UNSIGNED[plain], key=key)
    if plain in _PLAIN:
        return Column(name, _PLAIN[plain], key=key)
    if number := re.match(r"(?:decimal|numeric)\((\d+),(\d+)\)", kind):
        precision, scale = map(int, number.groups())
        if precision <= _LARGEST_PRECISION:
            return Column(name, f"DECIMAL({precision},{scale})", key=key)
    return Column(name, "STRING", key=key)


def _not_in(where: Database, error: pymysql.Error) -> Exception:
    code = error.args[0] if error.args else 0
    said = str(error.args[1]) if len(error.args) > 1 else str(error)
    if code in (ER.ACCESS_DENIED_ERROR, ER.DBACCESS_DENIED_ERROR, ER.SPECIFIC_ACCESS_DENIED_ERROR):
        return SetupError(
            f"{where} does not let user {where.user} do that: {said}.",
            code="database-refused",
            remedy="Correct user and password of the capture, or its rights.",
        )
    if code == ER.BAD_DB_ERROR:
        return DeclarationError(f"{where} is not there.", code="database-unknown", remedy="Correct its database.")
    return TransientError(
        f"{where} does not answer ({said}).", code="database-away", remedy="Start it, or correct host and port."
    )


def _unknown(table: Table, where: Database) -> DeclarationError:
    return DeclarationError(
        f"{where} has no table {table}.", code="table-unknown", remedy="Correct the capture's tables."
    )


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
