"""Questions to PostgreSQL: all of a batch in one statement, rows as JSON."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from penstock.connectors.postgres_copy import connect, said
from penstock.pipeline.durations import seconds
from penstock.pipeline.lookups.answer import NOTHING, Answer, Client
from penstock.pipeline.lookups.back_off import back_off

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.pipeline.lookups.answer import Question
    from penstock.pipeline.lookups.declared import SqlLookup
    from penstock.settings import Postgres

__all__ = ["SqlClient"]


class SqlClient(Client):
    """The connection of one Python worker to one database."""

    def __init__(self, lookup: SqlLookup, settings: Postgres) -> None:
        self._lookup = lookup
        self._settings = settings
        self._milliseconds = int((seconds(lookup.timeout) or 0.0) * 1000)
        self._connection: psycopg.Connection[Any] | None = None
        self._statement: sql.Composed | None = None

    def ask(self, questions: Sequence[Question]) -> Mapping[Question, Answer]:
        """One statement for all; after a lost connection another one."""
        tries = self._lookup.retries + 1
        for tried in range(1, tries + 1):
            try:
                return self._found(list(questions))
            except psycopg.OperationalError as error:
                self.close()
                told = said(error)
            except psycopg.Error as error:
                self.close()
                refused = self._failed("refused by postgres", f"says: {said(error)}")
                return dict.fromkeys(questions, refused)
            if tried < tries:
                time.sleep(back_off(tried))
        often = f" ({tries} tries)" if tries > 1 else ""
        return dict.fromkeys(questions, self._failed("no answer", f"gave no answer: {told}{often}", passing=True))

    def close(self) -> None:
        """End the connection; the next question opens another."""
        if self._connection is not None:
            with suppress(psycopg.Error):
                self._connection.close()
        self._connection = self._statement = None

    def _found(self, questions: list[Question]) -> dict[Question, Answer]:
        """The rows of these keys; if a value can't be a key, half and half until it is found."""
        connection, statement = self._opened()
        try:
            rows = connection.execute(statement, [list(column) for column in zip(*questions, strict=True)]).fetchall()
        except psycopg.DataError as error:
            if len(questions) == 1:
                return {questions[0]: self._failed("refused by postgres", f"says: {said(error)}")}
            half = len(questions) // 2
            return self._found(questions[:half]) | self._found(questions[half:])
        found = dict.fromkeys(questions, NOTHING)
        for number, text in rows:
            question = questions[number - 1]
            several = self._failed("wrong answer", "has several rows with this key")
            found[question] = Answer(text) if found[question] == NOTHING else several
        return found

    def _opened(self) -> tuple[psycopg.Connection[Any], sql.Composed]:
        if self._connection is None or self._statement is None:
            limits = {"tcp_user_timeout": self._milliseconds}
            self._connection = connect(self._settings, self._lookup.database, "penstock lookup", **limits)
            self._connection.execute("SELECT set_config('statement_timeout', %s, false)", [str(self._milliseconds)])
            self._statement = self._composed(self._connection)
        return self._connection, self._statement

    def _composed(self, connection: psycopg.Connection[Any]) -> sql.Composed:
        """The statement; values are cast to the type that a key has there, so that its index is used."""
        lookup = self._lookup
        table = sql.Identifier(*lookup.path)
        of_type = "SELECT format_type(atttypid, -1) FROM pg_attribute WHERE attrelid = %s::regclass AND attname = %s"
        matched = []
        for number, name in enumerate(lookup.keys):
            kind = connection.execute(of_type, [table.as_string(), name]).fetchone()
            if kind is None:
                raise psycopg.ProgrammingError(f"there is no column {name!r}")
            given = sql.SQL("CAST({} AS {})").format(sql.Identifier("wanted", f"k{number}"), sql.SQL(kind[0]))
            matched.append(sql.SQL("{} = {}").format(sql.Identifier("there", name), given))
        return sql.SQL(
            "SELECT wanted.number, (SELECT to_jsonb(answer) FROM (SELECT {columns}) AS answer)::text"
            " FROM unnest({values}) WITH ORDINALITY AS wanted({names}, number) JOIN {table} AS there ON {matched}"
        ).format(
            columns=sql.SQL(", ").join(sql.Identifier("there", name) for name in lookup.names),
            values=sql.SQL(", ").join(sql.SQL("%s::text[]") for _ in lookup.keys),
            names=sql.SQL(", ").join(sql.Identifier(f"k{number}") for number in range(len(lookup.keys))),
            table=table,
            matched=sql.SQL(" AND ").join(matched),
        )

    def _failed(self, rule: str, told: str, *, passing: bool = False) -> Answer:
        return Answer(rule=rule, said=f"{self._lookup.target()} {told}", passing=passing)
