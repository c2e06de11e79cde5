"""PostgreSQL: types that keep their values, names and texts that mean no harm, rows that are refused one by one."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

import penstock as ps
from penstock.errors import DeclarationError, StateError

if TYPE_CHECKING:
    from tests.contracts.given import Given
    from tests.contracts.rigs import PostgresRig

pytestmark = pytest.mark.parametrize("given", ["postgres"], indirect=True)

ODD = 'a "quoted" \\ back\\N\tslash,\nnew line\r{curly} \\.\nü€😀'


def rig(given: Given) -> PostgresRig:
    return given.rig  # type: ignore[return-value]


@pytest.mark.parametrize("writers", [1, 2])
def test_values_are_what_they_were(given: Given, writers: int) -> None:
    rows = given.context.spark.createDataFrame(
        [
            (
                *(1, Decimal("12345678901234567890.123456789012345678"), 1.5, True, ODD, b"\x00\xff\\x"),
                *(datetime(2026, 3, 29, 1, 30, 0, 123456, UTC), datetime(1969, 12, 31), date(2026, 2, 28)),
                *([ODD, None, ""], [1, None, 3], {"k": 1.5}, ("x", None), []),
            ),
            (2, *[None] * 13),
            (3, None, float("nan"), *[None] * 11),
        ],
        "id INT, `deci mal` DECIMAL(38,18), d DOUBLE, b BOOLEAN, text STRING, bytes BINARY, at TIMESTAMP,"
        " plain TIMESTAMP_NTZ, day DATE, texts ARRAY<STRING>, numbers ARRAY<BIGINT>, pairs MAP<STRING, DOUBLE>,"
        " nested STRUCT<a: STRING, b: INT>, empty ARRAY<STRING>",
    )
    writer = given.opened(sink=ps.Postgres(rig(given).table("a"), create=True, writers=writers))
    assert given.write(writer, {"a": rows}, given.batch(0)) == []
    table = rig(given).table("a")
    (found,) = rig(given).run(f"SELECT * FROM {table} WHERE id = 1")
    assert found == (
        *(1, Decimal("12345678901234567890.123456789012345678"), 1.5, True, ODD, b"\x00\xff\\x"),
        *(datetime(2026, 3, 29, 1, 30, 0, 123456, UTC), datetime(1969, 12, 31), date(2026, 2, 28)),
        *([ODD, None, ""], [1, None, 3], {"k": 1.5}, {"a": "x"}, []),
    )
    (found,) = rig(given).run(f"SELECT * FROM {table} WHERE id = 2")
    assert found == (2, *[None] * 13)
    kinds = dict(
        rig(given).run(
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
            f" WHERE attrelid = '{table}'::regclass AND attnum > 0"
        )
    )
    assert kinds["deci mal"] == "numeric(38,18)"
    assert kinds["at"] == "timestamp with time zone"
    assert kinds["texts"] == "text[]"
    assert kinds["nested"] == "jsonb"


def test_names_are_only_names(given: Given) -> None:
    evil = 'x"; DROP TABLE students; --'.replace('"', "'")
    rows = given.context.spark.createDataFrame([(1, "one")], f"id INT, `{evil}` STRING")
    rig(given).run("CREATE TABLE IF NOT EXISTS students (id int)")
    writer = given.opened(sink=ps.Postgres(rig(given).table("a"), key="id", create=True))
    given.write(writer, {"a": rows}, given.batch(0))
    given.write(writer, {"a": rows}, given.batch(1))
    assert rig(given).rows() == [{"id": 1, evil: "one"}]
    assert rig(given).run("SELECT count(*) FROM students") == [(0,)]


def test_a_row_that_is_refused_does_not_stop_the_others(given: Given) -> None:
    table = rig(given).table("a")
    rig(given).run(f"CREATE SCHEMA {table.partition('.')[0]}")
    rig(given).run(f"CREATE TABLE {table} (id int PRIMARY KEY, age smallint CHECK (age > 0), name text NOT NULL)")
    given_rows: list[tuple[int | None, int, str | None]] = [(n, n % 90 + 1, f"name {n}") for n in range(1000)]
    given_rows[300] = (300, 99999, "too large")
    given_rows[301] = (301, -1, "below nothing")
    given_rows[302] = (302, 1, None)
    given_rows[303] = (303, 1, "zero \x00 byte")
    given_rows[304] = (None, 1, "no key")
    rows = given.context.spark.createDataFrame(given_rows, "id INT, age INT, name STRING")
    writer = given.opened(sink=ps.Postgres(table, key="id"))
    letters = given.write(writer, {"a": rows.coalesce(1)}, given.batch(0))
    assert {row["id"] for row in rig(given).rows()} == set(range(1000)) - set(range(300, 305))
    told = {json.loads(letter["value"]).get("name"): letter["message"] for _, _, letter in letters}
    assert len(letters) == 5
    assert "out of range" in told["too large"]
    assert "check constraint" in told["below nothing"]
    assert "not-null" in told[None]
    assert told["no key"] == "its key is empty"
    assert "zero byte" in told["zero \x00 byte"]
    assert {letter["rule"] for _, _, letter in letters} == {"refused by postgres"}


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (None, "There is no table"),
        ("(id int, age int)", "has no column 'name'"),
        ("(id int, name text, gone boolean)", "no unique or exclusion constraint"),
    ],
)
def test_a_table_that_does_not_fit_is_told_in_a_sentence(given: Given, table: str | None, said: str) -> None:
    name = rig(given).table("a")
    rig(given).run(f"CREATE SCHEMA {name.partition('.')[0]}")
    if table:
        rig(given).run(f"CREATE TABLE {name} {table}")
    writer = given.opened(sink=ps.Postgres(name, key="id"))
    with pytest.raises(DeclarationError, match=said):
        given.write(writer, {"a": given.frame((1, "one"))}, given.batch(0))


def test_a_table_dropped_under_a_running_query_is_not_made_anew(given: Given) -> None:
    writer = given.opened()
    given.write(writer, {"a": given.frame((1, "one"))}, given.batch(0))
    rig(given).run(f"DROP TABLE {rig(given).table('a')}")
    with pytest.raises(StateError, match="is not there any more"):
        given.write(writer, {"a": given.frame((2, "two"))}, given.batch(1))


def test_columns_that_have_no_type_there_are_refused_before_the_start(given: Given) -> None:
    rows: Any = given.context.spark.sql("SELECT 1 AS id, INTERVAL 1 DAY AS long")
    with pytest.raises(DeclarationError, match="no type for column 'long'"):
        ps.Postgres("t").check(rows, given.context)
    with pytest.raises(DeclarationError, match="key column 'nr' is not in the flow"):
        ps.Postgres("t", key="nr").check(rows.select("id"), given.context)
