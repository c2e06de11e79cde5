"""The same from MariaDB: snapshot, changes, types, a kill; what is wrong in a sentence."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

import penstock as ps
from penstock.broker import Topics, read
from penstock.cdc import Capture, Captures
from penstock.cdc.supervisor import Supervisor
from penstock.errors import PenstockError, SetupError
from penstock.settings import Capture as Declared
from penstock.settings import Secret
from tests.cdc.mariadb import MariaDb
from tests.cdc.test_changes import caught_up, in_lake
from tests.conftest import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame

    from penstock.connectors.base import Context
    from penstock.settings import Settings
    from tests.conftest import Project


@pytest.fixture
def mariadb(tmp_path: Path) -> Iterator[MariaDb]:
    """A server of one test."""
    made = MariaDb(tmp_path / "mariadb")
    yield made
    made.close()


def told(settings: Settings, topic: str) -> list[dict[str, Any]]:
    """The row and the kind of every change in a topic."""
    changes = [one.json() for one in read(settings.kafka, topic) if one.value is not None]
    return [{"id": (one["after"] or one["before"])["id"], "op": one["op"]} for one in changes]


def test_a_table_of_mariadb_is_mirrored(mariadb: MariaDb, platform: Project, context: Context, tmp_path: Path) -> None:
    mariadb.sql(
        "CREATE DATABASE shop",
        "CREATE USER cdc@'%' IDENTIFIED BY 'secret'",
        "GRANT SELECT ON *.* TO cdc@'%'",
        "CREATE TABLE shop.items (id bigint PRIMARY KEY, name varchar(50), price decimal(10,2), day date,"
        " seen datetime(6), at timestamp(3) NULL, raw blob, much int unsigned)",
        "INSERT INTO shop.items VALUES (1, 'one', 12.50, '2026-02-28', '2026-02-28 23:59:59.123456',"
        " '2026-02-28 12:00:00.5', x'00ff', 4000000000), (2, 'two', NULL, NULL, NULL, NULL, NULL, NULL)",
    )
    (tmp_path / "password").write_text("secret", encoding="utf-8")
    declared = Declared(
        tables=("shop.items",),
        kind="mariadb",
        host="127.0.0.1",
        port=mariadb.port,
        database="shop",
        user="cdc",
        password=Secret(file=str(tmp_path / "password")),
    )
    capture = Capture(f"maria_{uuid.uuid4().hex[:8]}", declared)
    settings = replace(platform.settings, captures={capture.name: declared})
    with Captures(settings) as captures:
        with pytest.raises(SetupError, match="lacks the right"):
            captures.create(capture)
        mariadb.sql("GRANT SELECT, RELOAD, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO cdc@'%'")
        with pytest.raises(PenstockError, match="has no table"):
            captures.create(Capture(capture.name, replace(declared, tables=("shop.nothing",))))
        captures.create(capture)
        topic = capture.topic(capture.tables[0])
        topics = Topics(settings.kafka)
        wait_until(lambda: sum(topics.end_offsets(topic, committed=True).values()) >= 2)
        mariadb.sql("UPDATE shop.items SET name = 'first', id = 10 WHERE id = 1", "DELETE FROM shop.items WHERE id = 2")
        said: list[dict[str, Any]] = []
        supervisor = Supervisor(settings, [capture], said.append)
        supervisor.start()
        mariadb.kill()
        mariadb.sql("INSERT INTO shop.items (id, name) VALUES (3, 'three')")
        keys = [one.key for one in read(settings.kafka, topic)]
        wait_until(lambda: b'{"id":3}' in [one.key for one in read(settings.kafka, topic)], 120, f"{said} {keys}")
        supervisor.stop()
        captures.snapshot(capture, declared.tables)
        mariadb.sql("INSERT INTO shop.items (id, name) VALUES (4, 'four')")
        read_again = [{"id": 3, "op": "r"}, {"id": 10, "op": "r"}]
        wait_until(lambda: all(one in told(settings, topic) for one in read_again), 60, "the rows are read once more")
        pipeline = ps.Pipeline(f"mirror-{capture.name}")
        pipeline.source("items", ps.Changes(topic))

        @pipeline.flow
        def rows(items: DataFrame) -> DataFrame:
            return ps.rows_of(items)

        pipeline.sink(rows, ps.Iceberg(f"{capture.name}.items", key="id"))
        caught_up(pipeline, replace(context, settings=replace(context.settings, captures=settings.captures)))
        captures.delete(capture)
    found = sorted(tuple(one.values()) for one in in_lake(context, f"{capture.name}.items"))
    wanted = sorted(mariadb.sql("SELECT * FROM shop.items"))
    assert [(*row[:5], row[6], row[7]) for row in found] == [(*row[:5], row[6], row[7]) for row in wanted]
    assert found[-1][5].replace(tzinfo=None) == wanted[-1][5]
