"""Captures are created, looked at, paused and removed; what is wrong is said before anything is made."""

from __future__ import annotations

import json
import os
import threading
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from penstock.cdc import Capture, Captures
from penstock.cdc.capture import capture as declare
from penstock.cdc.connect import Connect, first_sentence
from penstock.cdc.debezium import connector_config
from penstock.errors import DeclarationError, PenstockError, SetupError, StateError, TransientError
from penstock.local import postgres
from penstock.local.progress import Silent
from penstock.settings import Connect as ConnectSettings
from penstock.settings import Secret
from tests.cdc.conftest import Shop
from tests.conftest import own_ports, wait_until

if TYPE_CHECKING:
    from tests.conftest import Project


def left_over(shop: Shop) -> list[tuple[object, ...]]:
    """What a capture has made in the database."""
    return shop.sql(
        f"SELECT slot_name::text FROM pg_replication_slots WHERE slot_name = '{shop.capture.slot}'"
        f" UNION ALL SELECT pubname::text FROM pg_publication WHERE pubname = '{shop.capture.slot}'"
    )


def rows_read(shop: Shop, key: int) -> int:
    """How often a snapshot has told of a row."""
    return sum(one["op"] == "r" and one["after"]["id"] == key for one in shop.changes())


def test_snapshot_then_changes(shop: Shop, captures: Captures) -> None:
    shop.sql("INSERT INTO customers VALUES (1, 'Ada', 'London'), (2, 'Bob', NULL)")
    assert captures.status(shop.capture).state == "absent"
    assert captures.create(shop.capture).state == "running"
    shop.wait_for(2)
    shop.sql("UPDATE customers SET city = 'Bern' WHERE id = 1", "DELETE FROM customers WHERE id = 2")
    shop.sql("UPDATE customers SET id = 3 WHERE id = 1")
    found = shop.wait_for(6)
    assert sorted(one["op"] for one in found) == ["c", "d", "d", "r", "r", "u"]
    updated = next(one for one in found if one["op"] == "u")
    assert (updated["before"]["city"], updated["after"]["city"]) == ("London", "Bern")


def test_paused_changes_come_later(shop: Shop, captures: Captures) -> None:
    captures.create(shop.capture)
    assert captures.pause(shop.capture).state == "paused"
    shop.sql("INSERT INTO customers VALUES (1, 'Ada', NULL)")
    slot = captures.slot(shop.capture)
    assert slot.behind_bytes is not None
    assert slot.behind_bytes > 0
    assert captures.resume(shop.capture).state == "running"
    shop.wait_for(1)


def test_deleting_leaves_nothing(shop: Shop, captures: Captures) -> None:
    captures.create(shop.capture)
    wait_until(lambda: len(left_over(shop)) == 2)
    captures.delete(shop.capture)
    captures.delete(shop.capture)  # nothing to do
    assert left_over(shop) == []
    assert captures.status(shop.capture).state == "absent"
    identity = shop.sql("SELECT relreplident::text FROM pg_class WHERE relname = 'customers' ORDER BY oid DESC")
    assert identity[0] == ("d",)


def test_an_idle_slot_moves(shop: Shop, captures: Captures) -> None:
    quick = Capture(shop.name, replace(shop.capture.declared, heartbeat_seconds=1))
    captures.create(quick)
    wait_until(lambda: captures.slot(quick).confirmed is not None)
    before = captures.slot(quick).confirmed
    shop.sql("CREATE TABLE other (id int)", "INSERT INTO other SELECT generate_series(1, 1000)")
    wait_until(lambda: captures.slot(quick).confirmed != before, 30, "the slot moves without a captured change")
    assert captures.slot(quick).behind_seconds is not None


def test_a_table_that_is_new_is_snapshotted(shop: Shop, captures: Captures) -> None:
    captures.create(shop.capture)
    shop.sql("CREATE TABLE orders (id int PRIMARY KEY, amount numeric(10,2))", "INSERT INTO orders VALUES (7, 1.50)")
    wider = Capture(
        shop.name, replace(shop.capture.declared, tables=(*shop.capture.declared.tables, f"{shop.name}.orders"))
    )
    captures.create(wider)
    assert shop.wait_for(1, "orders")[0]["after"] == {"id": 7, "amount": "1.50"}
    assert len(shop.changes("orders")) == 1


def test_snapshots_on_demand_while_rows_change(shop: Shop, captures: Captures) -> None:
    shop.sql("INSERT INTO customers SELECT n, 'new', NULL FROM generate_series(1, 3000) n")
    captures.create(shop.capture)
    shop.wait_for(3000)
    over = threading.Event()

    def change() -> None:
        while not over.is_set():
            shop.sql("UPDATE customers SET city = clock_timestamp()::text WHERE id IN (1, 1500, 3000)")

    def all_read(turn: int) -> bool:
        return min(rows_read(shop, one) for one in (2, 1499, 2999)) > turn

    changing = threading.Thread(target=change)
    changing.start()
    try:
        for turn in range(1, 4):
            captures.snapshot(shop.capture, shop.capture.declared.tables)
            wait_until(partial(all_read, turn), 60, "every row is read")
    finally:
        over.set()
        changing.join()
    wait_until(lambda: captures.status(shop.capture).reading == ())
    wanted = dict(shop.sql("SELECT id, city FROM customers"))
    wait_until(lambda: {one["after"]["id"]: one["after"]["city"] for one in shop.changes()} == wanted, 30)


def test_a_snapshot_of_a_paused_capture_comes_later(shop: Shop, captures: Captures) -> None:
    shop.sql("INSERT INTO customers VALUES (1, 'Ada', NULL)")
    captures.create(shop.capture)
    shop.wait_for(1)
    captures.pause(shop.capture)
    captures.snapshot(shop.capture, shop.capture.declared.tables)
    assert captures.status(shop.capture).state == "paused"
    captures.resume(shop.capture)
    shop.wait_for(2)
    with pytest.raises(DeclarationError, match="has no table 'nothing'"):
        captures.snapshot(shop.capture, ("nothing",))


def test_a_password_is_nowhere_to_be_read(platform: Project) -> None:
    os.environ["CANARY_PASSWORD"] = "canary-9f3k\\x"
    shop = Shop(platform, user="penstock", password=Secret(env="CANARY_PASSWORD"))
    try:
        with Captures(shop.settings) as captures:
            captures.create(shop.capture)
        with closing(Connect(shop.settings.connect)) as connect:
            config = connect.config(shop.name)
        assert config is not None
        assert "canary" not in json.dumps(config)
        assert config["database.password"].startswith("${file:")
        secret = platform.home / "secrets" / f"{shop.name}.properties"
        assert secret.stat().st_mode & 0o077 == 0
        assert "canary" not in (platform.home / "logs" / "connect.log").read_text(encoding="utf-8", errors="replace")
    finally:
        shop.close()
    assert not secret.exists()


def test_a_lost_slot_is_never_silent(shop: Shop, captures: Captures) -> None:
    shop.sql("INSERT INTO customers VALUES (1, 'Ada', NULL)")
    captures.create(shop.capture)
    shop.wait_for(1)
    captures.pause(shop.capture)
    with closing(Connect(shop.settings.connect)) as connect:
        connect.stop(shop.name)
    wait_until(lambda: captures.slot(shop.capture).state == "idle")
    shop.sql(f"SELECT pg_drop_replication_slot('{shop.capture.slot}')")
    shop.sql("INSERT INTO customers VALUES (2, 'Bob', NULL)")
    with pytest.raises(StateError, match=r"slot of capture .* is missing"):
        captures.resume(shop.capture)
    assert "no slot" in captures.slot(shop.capture).outlook
    with pytest.raises(StateError):
        captures.create(shop.capture)
    captures.create(shop.capture, snapshot_again=True)
    shop.wait_for(3)
    assert {one["after"]["id"] for one in shop.changes()} == {1, 2}


@pytest.mark.parametrize(
    ("options", "kind", "said"),
    [
        ({"database": "nowhere"}, DeclarationError, "is not there"),
        ({"host": "127.0.0.1", "port": 1, "database": "x", "user": "x"}, TransientError, "does not answer"),
        ({"user": "nobody_here"}, SetupError, "does not let user nobody_here in"),
    ],
)
def test_a_wrong_database_is_one_sentence(
    platform: Project, options: dict[str, object], kind: type[PenstockError], said: str
) -> None:
    shop = Shop(platform)
    try:
        wrong = Capture(shop.name, replace(shop.capture.declared, **options))  # type: ignore[arg-type]
        with Captures(shop.settings) as captures, pytest.raises(kind, match=said):
            captures.create(wrong)
        assert left_over(shop) == []
    finally:
        shop.close()


def test_a_server_that_can_not_be_captured_is_one_sentence(
    platform: Project, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(postgres._SETTINGS, "wal_level", "replica")
    monkeypatch.setenv("WRONG_PASSWORD", "canary-7d2q")
    (project.folder / "penstock.toml").write_text(own_ports("postgres"), encoding="utf-8")
    project.stack.up(("postgres",), Silent())
    where = project.settings.postgres
    shop = Shop(platform)
    try:
        there = {"host": where.host, "port": where.port, "database": where.database, "user": where.user}
        wrong = Capture(shop.name, replace(shop.capture.declared, **there))  # type: ignore[arg-type]
        with Captures(shop.settings) as captures:
            with pytest.raises(SetupError, match=r"wal_level=replica.*ALTER SYSTEM SET wal_level"):
                captures.create(wrong)
            ask_for_passwords(where.url)
            wrong = replace(wrong, declared=replace(wrong.declared, password=Secret(env="WRONG_PASSWORD")))
            with pytest.raises(
                SetupError, match=r"does not let user penstock in.*Correct user and password"
            ) as refused:
                captures.create(wrong)
            assert "canary" not in str(refused.value)
        with closing(Connect(shop.settings.connect)) as connect:
            assert connect.config(shop.name) is None
        assert not (platform.home / "secrets" / f"{shop.name}.properties").exists()
    finally:
        shop.close()


def ask_for_passwords(url: str) -> None:
    """From now on the server takes nobody in without the right one."""
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute("SHOW hba_file").fetchone()
        assert row is not None
        rules = Path(row[0])
        rules.write_text(rules.read_text(encoding="utf-8").replace("trust", "scram-sha-256"), encoding="utf-8")
        connection.execute("ALTER ROLE penstock PASSWORD 'right'")
        connection.execute("SELECT pg_reload_conf()")

    def refused() -> bool:
        try:
            psycopg.connect(url).close()
        except psycopg.OperationalError:
            return True
        return False

    wait_until(refused, 10, "passwords are asked for")


def test_tables_that_are_not_there_or_have_no_key(shop: Shop, captures: Captures) -> None:
    unknown = Capture(shop.name, replace(shop.capture.declared, tables=(f"{shop.name}.nothing",)))
    with pytest.raises(DeclarationError, match="has no table"):
        captures.create(unknown)
    shop.sql("CREATE TABLE keyless (name text)")
    keyless = Capture(shop.name, replace(shop.capture.declared, tables=(f"{shop.name}.keyless",)))
    with pytest.raises(DeclarationError, match="no primary key"):
        captures.create(keyless)
    assert left_over(shop) == []


def test_rights_that_lack_are_named(shop: Shop, captures: Captures) -> None:
    role = f"role_{shop.name}"
    shop.sql(f"CREATE ROLE {role} LOGIN", f"GRANT USAGE ON SCHEMA {shop.name} TO {role}")
    try:
        poor = Capture(shop.name, replace(shop.capture.declared, user=role))
        with pytest.raises(SetupError, match="may not replicate"):
            captures.create(poor)
        shop.sql(f"ALTER ROLE {role} REPLICATION")
        with pytest.raises(SetupError, match="may not create a publication"):
            captures.create(poor)
        shop.sql(f"GRANT CREATE ON DATABASE penstock TO {role}")
        with pytest.raises(SetupError, match="may not publish table"):
            captures.create(poor)
        shop.sql(f"ALTER TABLE customers OWNER TO {role}")
        assert captures.create(poor).state == "running"
    finally:
        captures.delete(shop.capture)
        shop.sql(f"REASSIGN OWNED BY {role} TO penstock", f"DROP OWNED BY {role}", f"DROP ROLE {role}")


def test_connect_that_is_away(shop: Shop) -> None:
    elsewhere = replace(shop.settings, connect=ConnectSettings("http://127.0.0.1:1"))
    with Captures(elsewhere) as captures, pytest.raises(TransientError, match="does not answer at http"):
        captures.create(shop.capture)
    assert left_over(shop) == []


def test_a_connector_that_does_not_start_leaves_nothing(shop: Shop, captures: Captures) -> None:
    wrong = Capture(shop.name, replace(shop.capture.declared, options={"publication.name": "nowhere"}))
    with pytest.raises(PenstockError, match="does not start: Publication"):
        captures.create(wrong)
    assert left_over(shop) == []
    assert captures.status(shop.capture).state == "absent"


def test_the_words_of_a_capture(platform: Project) -> None:
    with pytest.raises(DeclarationError, match="Did you mean 'snapshot'"):
        declare("shop", tables=["public.orders"], snapshoot="never")
    with pytest.raises(DeclarationError, match="'orders' is not a table"):
        declare("shop", tables=["orders"])
    with pytest.raises(DeclarationError, match="snapshot can't be 'sometimes'"):
        declare("shop", tables=["public.orders"], snapshot="sometimes")
    with pytest.raises(DeclarationError, match="it has no host"):
        connector_config(declare("shop", tables=["a.b"], kind="mysql"), platform.settings)


def test_a_trace_in_a_sentence() -> None:
    trace = "org.apache.kafka.X: outer\n\tat a.b\nCaused by: org.postgresql.util.PSQLException: FATAL: no slot\n\tat c"
    assert first_sentence(trace) == "FATAL: no slot."
