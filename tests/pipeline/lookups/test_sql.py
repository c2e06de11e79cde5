"""A PostgreSQL table as a lookup asks it: one statement, types by name, names and values that mean no harm."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

import penstock as ps
from penstock.pipeline.lookups.answer import NOTHING
from penstock.pipeline.lookups.sql import SqlClient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.pipeline.lookups.answer import Answer
    from tests.conftest import Project

    Run = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture
def run(platform: Project) -> Run:
    def made(statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with psycopg.connect(platform.settings.postgres.url, autocommit=True) as connection:
            cursor = connection.execute(statement, values or None)
            return cursor.fetchall() if cursor.description else []

    return made


@pytest.fixture
def table(run: Run) -> Iterator[str]:
    """A schema and a table with quotes in their names."""
    schema = f'look"up {uuid.uuid4().hex[:6]}'
    name = schema.replace('"', '""')
    run(f'CREATE SCHEMA "{name}"')
    run(
        f'CREATE TABLE "{name}"."cust""omers" ("i""d" uuid PRIMARY KEY, "na\'m""e" text, born timestamptz,'
        " spent numeric(38, 18), codes char(3), words text[], nested jsonb)"
    )
    yield f'{schema}.cust"omers'
    run(f'DROP SCHEMA "{name}" CASCADE')


def quoted(table: str) -> str:
    return ".".join(f'"{part}"' for part in table.replace('"', '""').split("."))


def asked(platform: Project, lookup: ps.SqlLookup, *keys: Any) -> list[Answer]:
    client = SqlClient(lookup, platform.settings.postgres)
    questions = [key if isinstance(key, tuple) else (key,) for key in keys]
    answers = client.ask(questions)
    client.close()
    return [answers[question] for question in questions]


def test_rows_by_their_key_in_one_statement(platform: Project, run: Run, table: str) -> None:
    known = [str(uuid.uuid4()) for _ in range(3)]
    for number, key in enumerate(known):
        run(
            f"INSERT INTO {quoted(table)} VALUES (%s, %s, %s, %s, 'abc', ARRAY['x', NULL], %s)",
            *(
                key,
                f"{number} 'O\"Neill; --",
                "2026-03-29T01:30:00.123456+02:00",
                "12345678901234567890.123456789",
                "{}",
            ),
        )
    lookup = ps.SqlLookup(
        table,
        key='i"d',
        on="customer",
        returns="`na'm\"e` STRING, born TIMESTAMP, spent DECIMAL(38,18), words ARRAY<STRING>",
    )
    assert list(lookup.problems()) == []
    unknown = str(uuid.uuid4())
    evil = "'; DROP SCHEMA public CASCADE; --"
    *found, missing, refused, zero = asked(platform, lookup, *map(str.upper, known), unknown, evil, "zero \x00 byte")
    assert [json.loads(one.text or "")["na'm\"e"] for one in found] == [f"{n} 'O\"Neill; --" for n in range(3)]
    assert '"spent": 12345678901234567890.123456789000000000' in (found[0].text or "")
    assert json.loads(found[0].text or "")["words"] == ["x", None]
    assert missing == NOTHING
    assert refused.rule == zero.rule == "refused by postgres"
    assert "invalid input syntax for type uuid" in (refused.said or "")
    assert "NUL" in (zero.said or "")


def test_a_key_of_several_columns_that_must_be_unique(platform: Project, run: Run) -> None:
    name = f"prices_{uuid.uuid4().hex[:6]}"
    run(f"CREATE TABLE {name} (shop char(4), article int, price double precision)")
    run(f"INSERT INTO {name} VALUES ('a', 1, 1.5), ('b', 1, 2.5), ('b', 2, 3.5), ('b', 2, 4.5)")
    lookup = ps.SqlLookup(name, key=("shop", "article"), returns="price DOUBLE")
    one, other, none, several = asked(platform, lookup, ("a", "1"), ("b", "1"), ("a", "2"), ("b", "2"))
    assert (one.text, other.text, none) == ('{"price": 1.5}', '{"price": 2.5}', NOTHING)
    assert (several.rule, several.said) == ("wrong answer", f"postgres:{name} has several rows with this key")
    run(f"DROP TABLE {name}")


def test_a_statement_that_takes_too_long_gave_no_answer(platform: Project, run: Run) -> None:
    name = f"slow_{uuid.uuid4().hex[:6]}"
    run(f"CREATE VIEW {name} AS SELECT 1 AS id, pg_sleep(60)::text AS nap")
    lookup = ps.SqlLookup(name, key="id", returns="nap STRING", timeout="500 milliseconds", retries=1)
    (found,) = asked(platform, lookup, "1")
    assert (found.rule, found.passing) == ("no answer", True)
    assert found.said == f"postgres:{name} gave no answer: canceling statement due to statement timeout (2 tries)"
    run(f"DROP VIEW {name}")


def test_a_lost_connection_is_opened_anew(platform: Project, run: Run) -> None:
    name = f"customers_{uuid.uuid4().hex[:6]}"
    run(f"CREATE TABLE {name} AS SELECT 7 AS id, 'gold' AS tier")
    client = SqlClient(ps.SqlLookup(name, key="id", returns="tier STRING"), platform.settings.postgres)
    assert client.ask([("7",)])["7",].text == '{"tier": "gold"}'
    ended = run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'penstock lookup'")
    assert (True,) in ended
    assert client.ask([("7",)])["7",].text == '{"tier": "gold"}'
    client.close()
    run(f"DROP TABLE {name}")


@pytest.mark.parametrize(
    ("table", "key", "said"), [("nowhere", "id", "does not exist"), ("pg_class", "nr", "there is no column 'nr'")]
)
def test_a_table_that_does_not_fit_is_told_of(platform: Project, table: str, key: str, said: str) -> None:
    (found,) = asked(platform, ps.SqlLookup(table, key=key, returns="relname STRING"), "1")
    assert found.rule == "refused by postgres"
    assert said in (found.said or "")
