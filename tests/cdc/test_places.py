"""The local PostgreSQL listens elsewhere after a start: its captures follow it, and go nowhere else."""

from __future__ import annotations

import signal
from contextlib import closing
from typing import TYPE_CHECKING

import psycopg

from penstock.cdc import Captures
from penstock.cdc.connect import Connect
from penstock.local.progress import Silent
from tests.conftest import wait_until

if TYPE_CHECKING:
    from tests.cdc.conftest import Shop
    from tests.conftest import Project


def moved(platform: Project, port: int) -> None:
    """Kill PostgreSQL and start it on another port."""
    before = platform.settings.postgres.port
    written = (platform.folder / "penstock.toml").read_text(encoding="utf-8")
    assert written.count(f"postgres = {before}\n") == 1
    new = written.replace(f"postgres = {before}\n", f"postgres = {port}\n")
    (platform.folder / "penstock.toml").write_text(new, encoding="utf-8")
    platform.processes()["postgres"].signal(signal.SIGKILL)
    wait_until(lambda: "postgres" not in platform.processes())
    platform.stack.up(("postgres",), Silent())
    assert platform.settings.postgres.port == port


def test_captures_follow_a_database_that_moved(shop: Shop, captures: Captures, platform: Project) -> None:
    shop.sql("INSERT INTO customers VALUES (1, 'Ada', NULL)")
    captures.create(shop.capture)
    shop.wait_for(1)
    old = platform.settings.postgres.port
    moved(platform, old + 5)
    try:
        with Captures(platform.settings) as now:
            assert now.restart(shop.capture).state == "running"
        with psycopg.connect(platform.settings.postgres.url) as connection:
            connection.execute(f"INSERT INTO {shop.name}.customers VALUES (2, 'Bob', NULL)")
        assert [one["after"]["name"] for one in shop.wait_for(2)] == ["Ada", "Bob"]
        with closing(Connect(platform.settings.connect)) as connect:
            told = connect.config(shop.capture.name)
        assert told is not None
        assert str(old) not in told["database.port"]
    finally:
        moved(platform, old)
