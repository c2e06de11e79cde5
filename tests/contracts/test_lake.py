"""Iceberg and Delta: types, columns that are added, small files made one, old ones let go, a table rolled back."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

import penstock as ps
from penstock.connectors.iceberg_writer import open_catalog
from penstock.connectors.lake import local_path
from penstock.errors import DeclarationError, StateError

if TYPE_CHECKING:
    from penstock.connectors.base import BatchSink
    from tests.contracts.given import Given

BOTH = pytest.mark.parametrize("given", ["iceberg", "delta"], indirect=True)
KEYED = pytest.mark.parametrize("given", ["iceberg-keyed", "delta-keyed"], indirect=True)


@BOTH
def test_values_are_what_they_were(given: Given) -> None:
    at = datetime(2026, 3, 29, 1, 30, 0, 123456, UTC)
    rows = given.context.spark.createDataFrame(
        [
            (1, Decimal("1.10"), 1.5, True, "ü€😀", b"\x00", at, date(2026, 2, 28), ["a", None], {"k": 1}, ("x", 2)),
            (2, *[None] * 10),
        ],
        "id INT, amount DECIMAL(18,2), d DOUBLE, b BOOLEAN, text STRING, bytes BINARY, at TIMESTAMP, day DATE,"
        " texts ARRAY<STRING>, pairs MAP<STRING, INT>, nested STRUCT<a: STRING, b: INT>",
    )
    given.write(given.opened(), {"a": rows}, given.batch(0))
    found = {row["id"]: row for row in given.rig.rows()}
    first = found[1]
    assert first["at"].astimezone(UTC) == at
    assert (first["amount"], first["d"], first["b"]) == (Decimal("1.10"), 1.5, True)
    assert (first["text"], bytes(first["bytes"]), first["day"]) == ("ü€😀", b"\x00", date(2026, 2, 28))
    assert (first["texts"], dict(first["pairs"]), first["nested"]) == (["a", None], {"k": 1}, {"a": "x", "b": 2})
    assert set(found[2].values()) == {2, None}


@pytest.mark.parametrize("given", ["iceberg", "iceberg-keyed", "delta", "delta-keyed"], indirect=True)
def test_a_column_that_the_flow_gains_is_added(given: Given) -> None:
    writer = given.opened()
    given.write(writer, {"a": given.frame((1, "one"))}, given.batch(0))
    more = given.frame((2, "two")).selectExpr("*", "name || '!' AS loud")
    given.write(writer, {"a": more}, given.batch(1))
    given.write(writer, {"a": given.frame((3, "three"))}, given.batch(2))
    assert {row["id"]: row["loud"] for row in given.rig.rows()} == {1: None, 2: "two!", 3: None}


@BOTH
def test_small_files_are_made_one_and_old_ones_let_go(given: Given) -> None:
    name = given.rig.sink().table  # type: ignore[attr-defined]
    sink: BatchSink
    if isinstance(given.rig.sink(), ps.Iceberg):
        sink = ps.Iceberg(name, compact_at=4, keep_days=0)
    else:
        sink = ps.Delta(name, compact_at=4, keep_days=0)
    writer: Any = given.opened(sink=sink)
    for number in range(3):
        given.write(writer, {"a": given.frame((number, f"row {number}")).coalesce(1)}, given.batch(number))
        assert writer.compact() == 0
    given.write(writer, {"a": given.frame((3, "row 3")).coalesce(1)}, given.batch(3))
    assert writer.compact() == 4
    assert writer.expire() >= 4
    assert given.names() == [f"row {number}" for number in range(4)]
    assert writer.mark() == given.batch(3).mark  # the mark outlives the snapshot it came with
    given.write(writer, {"a": given.frame((4, "row 4"))}, given.batch(4))
    assert given.names() == [f"row {number}" for number in range(5)]


@pytest.mark.parametrize("given", ["iceberg"], indirect=True)
def test_a_table_of_many_snapshots_keeps_some_and_their_files(given: Given) -> None:
    name = given.rig.sink().table  # type: ignore[attr-defined]
    sink = ps.Iceberg(name, key="id", keep_snapshots=3)
    writer: Any = given.opened(sink=sink)
    for number in range(12):
        rows = given.frame((1, f"version {number}"), (number + 2, f"row {number}"))
        given.write(writer, {"a": rows}, given.batch(number))
    assert writer.expire() > 0
    table = open_catalog(given.context.settings.lake).load_table(name)
    assert len(table.snapshots()) == 4  # the newest, and three before it
    for snapshot in table.snapshots():
        assert table.scan(snapshot_id=snapshot.snapshot_id).to_arrow().num_rows > 0
    assert given.names() == sorted([*(f"row {number}" for number in range(12)), "version 11"])
    folder = local_path(table.location())
    needed = {local_path(one).name for one in table.inspect.all_files().column("file_path").to_pylist()}
    assert {one.name for one in folder.rglob("*.parquet")} == needed
    lists = {local_path(one.manifest_list).name for one in table.snapshots()}
    assert {one.name for one in folder.rglob("snap-*.avro")} == lists
    assert writer.expire() == 0
    given.write(writer, {"a": given.frame((1, "last"))}, given.batch(12))
    assert "last" in given.names()


@KEYED
def test_many_keys_over_several_files(given: Given) -> None:
    writer = given.opened()
    spark = given.context.spark
    for number in range(3):
        low = number * 100
        rows = spark.range(low, low + 100).selectExpr("id", f"'old {number}' AS name", "false AS gone")
        given.write(writer, {"a": rows}, given.batch(number))
    changes = spark.range(50, 250, 2).selectExpr("id", "'new' AS name", "id % 10 = 0 AS gone")
    given.write(writer, {"a": changes}, given.batch(3))
    found = {row["id"]: row["name"] for row in given.rig.rows()}
    wanted = {n: f"old {n // 100}" for n in range(300)} | dict.fromkeys(range(50, 250, 2), "new")
    for n in range(50, 250, 10):
        del wanted[n]
    assert found == wanted


@KEYED
def test_a_row_without_a_key_is_a_letter(given: Given) -> None:
    rows = given.context.spark.createDataFrame([(None, "nobody", False), (1, "one", False)], given.frame().schema)
    ((topic, _, letter),) = given.write(given.opened(), {"a": rows}, given.batch(0))
    assert given.names() == ["one"]
    assert topic.endswith("-dead-letters")
    assert (letter["message"], letter["stage"]) == ("its key is empty", "a")


@pytest.mark.parametrize("given", ["iceberg"], indirect=True)
def test_a_table_that_is_rolled_back_is_noticed(given: Given) -> None:
    writer = given.opened()
    for number in range(3):
        given.write(writer, {"a": given.frame((number, f"row {number}"))}, given.batch(number))
    table = open_catalog(given.context.settings.lake).load_table(given.rig.sink().table)  # type: ignore[attr-defined]
    first = table.history()[0].snapshot_id
    table.manage_snapshots().set_current_snapshot(snapshot_id=first).commit()
    assert given.names() == ["row 0"]
    with pytest.raises(StateError, match="rows between are missing"):
        given.write(writer, {"a": given.frame((3, "row 3"))}, given.batch(3))


@KEYED
def test_keys_with_odd_signs_have_one_row(given: Given) -> None:
    keys = ["it's", 'a "quote"', "back\\slash", "tab\t", "nb\u00a0sp", "ü"]
    sink: BatchSink
    name = given.rig.sink().table  # type: ignore[attr-defined]
    sink = ps.Iceberg(name, key="na me") if isinstance(given.rig.sink(), ps.Iceberg) else ps.Delta(name, key="na me")
    writer = given.opened(sink=sink)
    for number in range(2):
        rows = given.context.spark.createDataFrame([(key, number) for key in keys], "`na me` STRING, n INT")
        given.write(writer, {"a": rows}, given.batch(number))
    assert {row["na me"]: row["n"] for row in given.rig.rows()} == dict.fromkeys(keys, 1)
    assert len(given.rig.rows()) == len(keys)


@pytest.mark.parametrize("given", ["delta"], indirect=True)
def test_a_column_of_another_type_is_refused(given: Given) -> None:
    writer = given.opened()
    given.write(writer, {"a": given.frame((1, "one"))}, given.batch(0))
    with pytest.raises(DeclarationError, match="Column 'name' of Delta table"):
        given.write(writer, {"a": given.frame((2, "2")).selectExpr("id", "id AS name", "gone")}, given.batch(1))
