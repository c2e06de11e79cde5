"""Captured tables in a pipeline: as a stream of changes, as current rows, as of a time, as a history."""

from __future__ import annotations

import itertools
import json
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from deltalake import DeltaTable
from pyspark.sql import functions as F  # noqa: N812

import penstock as ps
from penstock.broker import Producer, read
from penstock.cdc import Capture, Captures
from penstock.connectors.iceberg_writer import open_catalog
from penstock.errors import DeclarationError, StateError
from penstock.pipeline.compile import compile_pipeline
from penstock.pipeline.rebuild import rebuild
from penstock.pipeline.run import Running, start
from tests.conftest import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame

    from penstock.connectors.base import Context
    from tests.cdc.conftest import Shop


@contextmanager
def started(pipeline: ps.Pipeline, context: Context) -> Iterator[Running]:
    """A pipeline that runs for the length of a block."""
    running = start(compile_pipeline(pipeline, context), context)
    try:
        yield running
    finally:
        running.stop()


def caught_up(pipeline: ps.Pipeline, context: Context) -> Running:
    """Run a pipeline until all that is there is read."""
    running = start(compile_pipeline(pipeline, context), context, until_caught_up=True)
    running.wait()
    running.close()
    return running


def mirror(shop: Shop, *sinks: Any) -> ps.Pipeline:
    """The customers as they are, into some sinks."""
    pipeline = ps.Pipeline(f"mirror-{shop.name}")
    pipeline.source("customers", ps.Changes(shop.topic()))

    @pipeline.flow
    def current(customers: DataFrame) -> DataFrame:
        return ps.rows_of(customers)

    for sink in sinks:
        pipeline.sink(current, sink)
    return pipeline


def in_lake(context: Context, name: str) -> list[dict[str, Any]]:
    """The rows of an Iceberg table."""
    found: list[dict[str, Any]] = open_catalog(context.settings.lake).load_table(name).scan().to_arrow().to_pylist()
    return found


def values(shop: Shop, topic: str) -> list[dict[str, Any]]:
    """What a topic has."""
    return [one.json() for one in read(shop.settings.kafka, topic)]


def test_every_type_is_what_it_was(shop: Shop, captures: Captures, context: Context) -> None:
    shop.sql(
        "DROP TABLE customers",
        "CREATE TABLE customers (id bigint PRIMARY KEY, small smallint, yes boolean, price numeric(12,2), free numeric,"
        ' day date, seen timestamp, at timestamptz, "time" time, tags text[], numbers int[], raw bytea, doc jsonb,'
        ' one uuid, ratio double precision, "odd name" varchar(10))',
        "INSERT INTO customers VALUES (1, -3, true, 12.50, 1.23456789012345678901234567890, '2026-02-28',"
        " '2026-02-28 23:59:59.123456', '2026-02-28 23:59:59.5+02', '10:11:12.5', '{a,NULL,\"b,c\"}', '{1,2}',"
        " '\\x00ff', '{\"a\": [1]}', '00000000-0000-0000-0000-000000000001', 0.1, 'ü')",
        "INSERT INTO customers (id) VALUES (2)",
    )
    captures.create(shop.capture)
    shop.wait_for(2)
    caught_up(mirror(shop, ps.Postgres(f"{shop.name}.copy", key="id", create=True)), shop.into(context))
    shown = (
        'id, small, yes, price, free::numeric, day, seen, at, "time"::time, tags, numbers, raw, doc::jsonb, one::uuid'
    )
    shown += ', ratio, "odd name"'
    assert shop.sql(f"SELECT {shown} FROM copy ORDER BY id") == shop.sql(f"SELECT {shown} FROM customers ORDER BY id")


def test_a_stream_of_changes_has_all_about_each(
    shop: Shop, captures: Captures, context: Context, topic: Callable[..., str]
) -> None:
    shop.sql("INSERT INTO customers VALUES (1, 'Ada', 'London')")
    captures.create(shop.capture)
    shop.wait_for(1)
    shop.sql("UPDATE customers SET city = 'Bern' WHERE id = 1", "INSERT INTO customers VALUES (2, 'Bob', NULL)")
    shop.sql("DELETE FROM customers WHERE id = 1")
    shop.wait_for(4)
    out = topic("changes")
    pipeline = ps.Pipeline(f"changes-{shop.name}")
    pipeline.source("customers", ps.Changes(shop.topic()))

    @pipeline.flow
    def told(customers: DataFrame) -> DataFrame:
        return customers

    pipeline.sink(told, ps.Kafka(out))
    record = caught_up(pipeline, shop.into(context)).latest["customers"]
    found = values(shop, out)
    assert [one["op"] for one in found if one["key"]["id"] == 1] == ["read", "update", "delete"]
    updated = next(one for one in found if one["op"] == "update")
    assert (updated["before"]["city"], updated["after"]["city"]) == ("London", "Bern")
    positions = [one["position"] for one in found if one["key"]["id"] == 1]
    assert positions == sorted(set(positions))
    inserted = next(one for one in found if one["op"] == "insert")
    assert inserted["transaction"] == updated["transaction"]
    assert inserted["committed_at"] <= inserted["captured_at"]
    fresh = record["freshness"]["customers"]
    assert 0 <= fresh["capture_ms"][0] <= fresh["total_ms"][0] <= fresh["total_ms"][1]


def test_a_table_is_looked_up_as_it_is_now(
    shop: Shop, captures: Captures, context: Context, topic: Callable[..., str]
) -> None:
    shop.sql("INSERT INTO customers VALUES (1, 'Ada', 'London'), (2, 'Bob', NULL)")
    captures.create(shop.capture)
    shop.wait_for(2)
    orders, out, totals = topic("orders"), topic("out"), topic("totals")
    pipeline = ps.Pipeline(f"joined-{shop.name}")
    pipeline.source(
        "orders", ps.Kafka(orders, format=ps.Json("n LONG, id LONG, at TIMESTAMP")), time=ps.EventTime("at")
    )
    pipeline.table("customers", ps.Changes(shop.topic()))

    @pipeline.flow
    def joined(orders: DataFrame, customers: DataFrame) -> DataFrame:
        return orders.join(customers, "id", "left")

    @pipeline.flow(emit="changes")
    def counted(joined: DataFrame) -> DataFrame:
        return joined.groupBy(F.window("at", "1 day"), "city").count()

    pipeline.sink(joined, ps.Kafka(out))
    pipeline.sink(counted, ps.Kafka(totals))

    def order(n: int, customer: int) -> dict[str, Any]:
        with Producer(shop.settings.kafka) as producer:
            producer.send(orders, {"n": n, "id": customer, "at": "2026-01-01T00:00:00Z"})
        wait_until(lambda: any(one["n"] == n for one in values(shop, out)), 60)
        return next(one for one in values(shop, out) if one["n"] == n)

    numbers = itertools.count(1000)

    def until(customer: int, city: str | None) -> None:
        """Orders come until one is joined with that city: within a batch or two."""
        wait_until(lambda: order(next(numbers), customer).get("city") == city, 60, f"customer {customer} is in {city}")

    def until_counted(city: str) -> None:
        """The other query has a table of its own, and may be behind."""
        wait_until(lambda: city in {one.get("city") for one in values(shop, totals)}, what=f"{city} is counted")

    with started(pipeline, shop.into(context)):
        assert order(1, 1)["city"] == "London"
        until_counted("London")
        assert "name" not in order(2, 3)
        shop.sql("UPDATE customers SET city = 'Bern' WHERE id = 1", "INSERT INTO customers VALUES (3, 'Cy', 'Rome')")
        until(1, "Bern")
        until(3, "Rome")
        until_counted("Bern")
        until_counted("Rome")
        shop.sql("DELETE FROM customers WHERE id = 3")
        until(3, None)
    tables = shop.into(context).settings.home / "state" / pipeline.name / "tables" / shop.topic()
    version = json.loads((tables / "manifest.json").read_text(encoding="utf-8"))["version"]
    (tables / f"tail-{version + 1}").mkdir()  # as a kill between the files and their manifest leaves it
    shop.sql("UPDATE customers SET city = 'Oslo' WHERE id = 1")
    with started(pipeline, shop.into(context)):
        until(1, "Oslo")


def test_orders_meet_the_customer_as_it_was(
    shop: Shop, captures: Captures, context: Context, topic: Callable[..., str]
) -> None:
    shop.sql("INSERT INTO customers VALUES (1, 'Ada', 'London')")
    captures.create(shop.capture)
    shop.wait_for(1)
    times = []
    for city in ("Bern", "Rome"):
        shop.sql("SELECT pg_sleep(0.05)")
        times.append(shop.sql("SELECT now()")[0][0])
        shop.sql("SELECT pg_sleep(0.05)")
        shop.sql(f"UPDATE customers SET city = '{city}' WHERE id = 1")
    shop.sql("SELECT pg_sleep(0.05)")
    times.append(shop.sql("SELECT now()")[0][0])
    shop.sql("SELECT pg_sleep(0.05)")
    shop.sql("DELETE FROM customers WHERE id = 1")
    shop.sql("SELECT pg_sleep(0.05)")
    times.append(shop.sql("SELECT now()")[0][0])
    shop.wait_for(4)
    orders, out = topic("orders"), topic("out")
    with Producer(shop.settings.kafka) as producer:
        for n, at in enumerate(times):
            producer.send(orders, {"n": n, "id": 1, "at": at.isoformat()})
    pipeline = ps.Pipeline(f"as-of-{shop.name}")
    pipeline.source("orders", ps.Kafka(orders, format=ps.Json("n LONG, id LONG, at TIMESTAMP")))
    pipeline.table("customers", ps.Changes(shop.topic(), history=True))

    @pipeline.flow
    def joined(orders: DataFrame, customers: DataFrame) -> DataFrame:
        return ps.as_of(orders, customers, on="id", time="at")

    pipeline.sink(joined, ps.Kafka(out))
    caught_up(pipeline, shop.into(context))
    found = {one["n"]: one.get("city") for one in values(shop, out)}
    assert found == {0: "London", 1: "Bern", 2: "Rome", 3: None}


def test_a_history_has_every_version_with_its_time(shop: Shop, captures: Captures, context: Context) -> None:
    captures.create(shop.capture)
    shop.sql("INSERT INTO customers VALUES (1, 'Ada', 'London')")
    shop.sql("UPDATE customers SET city = 'Bern' WHERE id = 1")
    shop.wait_for(2)
    pipeline = ps.Pipeline(f"history-{shop.name}")
    pipeline.source("customers", ps.Changes(shop.topic()))

    @pipeline.flow(unbounded=True)
    def versions(customers: DataFrame) -> DataFrame:
        return ps.history_of(customers)

    pipeline.sink(versions, ps.Iceberg(f"{shop.name}.versions", key=("id", "version")))
    caught_up(pipeline, shop.into(context))
    shop.sql("UPDATE customers SET city = 'Rome' WHERE id = 1")
    shop.sql("DELETE FROM customers WHERE id = 1")
    shop.wait_for(4)
    caught_up(pipeline, shop.into(context))
    found = sorted(in_lake(context, f"{shop.name}.versions"), key=lambda one: int(one["version"]))
    assert [one["city"] for one in found] == ["London", "Bern", "Rome"]
    assert [one["valid_to"] for one in found[:2]] == [one["valid_from"] for one in found[1:]]
    assert found[-1]["valid_to"] is not None


def test_events_are_folded_from_the_first_one_on(shop: Shop, context: Context, topic: Callable[..., str]) -> None:
    events, out = topic("events"), topic("balances")

    def send(*amounts: tuple[str, int]) -> None:
        with Producer(shop.settings.kafka) as producer:
            for account, amount in amounts:
                producer.send(events, {"account": account, "amount": amount}, account)

    def add(state: dict[str, Any] | None, event: dict[str, Any]) -> dict[str, Any] | None:
        if event["amount"] == 0:
            return None
        return {"balance": (state["balance"] if state else 0) + event["amount"]}

    pipeline = ps.Pipeline(f"folded-{shop.name}")
    pipeline.source("events", ps.Kafka(events, format=ps.Json("account STRING, amount LONG"), metadata="kafka"))

    @pipeline.flow(unbounded=True)
    def balances(events: DataFrame) -> DataFrame:
        rows = events.select("account", "amount", F.col("kafka.offset").alias("number"))
        return ps.folded(rows, by="account", order="number", state="balance LONG", step=add)

    pipeline.sink(balances, ps.Kafka(out, key="account"))
    send(("a", 5), ("b", 7), ("a", -2))
    caught_up(pipeline, context)
    send(("a", 10), ("b", 0))
    caught_up(pipeline, context)
    last: dict[str, Any] = {}
    for one in read(shop.settings.kafka, out):
        last[str(one.key)] = one.json()["balance"] if one.value is not None else None
    assert list(last.values()) == [13, None]


def test_a_column_that_is_added_flows_through(shop: Shop, captures: Captures, context: Context) -> None:
    captures.create(shop.capture)
    shop.sql("INSERT INTO customers VALUES (1, 'Ada', NULL)")
    shop.wait_for(1)
    sinks = (ps.Iceberg(f"{shop.name}.c", key="id"), ps.Postgres(f"{shop.name}.copy", key="id", create=True))
    caught_up(mirror(shop, *sinks), shop.into(context))
    shop.sql("ALTER TABLE customers ADD COLUMN score numeric(4,1)", "UPDATE customers SET score = 1.5")
    shop.sql("ALTER TABLE customers DROP COLUMN city")
    shop.sql("INSERT INTO customers VALUES (2, 'Bob', 2.5)")
    shop.wait_for(3)
    caught_up(mirror(shop, *sinks), shop.into(context))
    assert shop.sql("SELECT id, name, city, score::text FROM copy ORDER BY id") == [
        (1, "Ada", None, "1.5"),
        (2, "Bob", None, "2.5"),
    ]
    assert {(one["id"], str(one["score"])) for one in in_lake(context, f"{shop.name}.c")} == {(1, "1.5"), (2, "2.5")}


@pytest.mark.parametrize("change", ["DROP COLUMN city", "ALTER COLUMN id TYPE text"])
def test_a_capture_stops_when_it_is_told_to(shop: Shop, captures: Captures, context: Context, change: str) -> None:
    declared = replace(shop.capture.declared, schema_changes="stop")
    strict = replace(context, settings=replace(context.settings, captures={shop.name: declared}))
    captures.create(Capture(shop.name, declared))
    shop.sql("INSERT INTO customers VALUES (1, 'Ada', NULL)")
    shop.wait_for(1)
    pipeline = mirror(shop, ps.Postgres(f"{shop.name}.copy", key="id", create=True))
    caught_up(pipeline, strict)
    shop.sql(f"ALTER TABLE customers {change}", "INSERT INTO customers (id, name) VALUES ('2', 'Bob')")
    shop.wait_for(2)
    with pytest.raises(StateError, match="changed: column"):
        caught_up(pipeline, strict)
    assert captures.status(shop.capture).state == "paused"
    assert shop.sql("SELECT id FROM copy") == [(1,)]


def test_a_table_that_is_emptied_is_never_silent(shop: Shop, captures: Captures, context: Context) -> None:
    captures.create(shop.capture)
    shop.sql("INSERT INTO customers VALUES (1, 'Ada', NULL), (2, 'Bob', NULL)")
    shop.wait_for(2)
    pipeline = mirror(shop, ps.Postgres(f"{shop.name}.copy", key="id", create=True))
    caught_up(pipeline, shop.into(context))
    shop.sql("TRUNCATE customers", "INSERT INTO customers VALUES (2, 'Bea', NULL)")
    wait_until(lambda: captures.status(shop.capture).state == "failed")
    assert captures.status(shop.capture).said == "A table was emptied with TRUNCATE."
    captures.create(shop.capture, snapshot_again=True)
    shop.wait_for(4)
    caught_up(pipeline, shop.into(context))
    assert shop.sql("SELECT id, name FROM copy") == [(2, "Bea")]


def test_sinks_are_built_anew_and_the_pipeline_goes_on(shop: Shop, captures: Captures, context: Context) -> None:
    captures.create(shop.capture)
    shop.sql("INSERT INTO customers VALUES (1, 'Ada', NULL), (2, 'Bob', NULL), (3, 'Cy', NULL)")
    shop.sql("DELETE FROM customers WHERE id = 3")
    shop.wait_for(4)
    index = shop.name.replace("_", "-")
    pipeline = mirror(
        shop,
        ps.Iceberg(f"{shop.name}.c", key="id"),
        ps.Delta(f"{shop.name}/c", key="id"),
        ps.Postgres(f"{shop.name}.copy", key="id", create=True),
        ps.OpenSearch(index, key="id"),
    )
    known = shop.into(context)
    caught_up(pipeline, known)
    shop.sql("UPDATE copy SET name = 'wrong'", "CREATE VIEW seen AS SELECT name FROM copy")
    place = Path(context.settings.lake.warehouse) / shop.name / "c"
    plan = compile_pipeline(pipeline, known)
    said: list[str] = []
    for target in (f"iceberg:{shop.name}.c", f"delta:{shop.name}/c", f"{shop.name}.copy", f"opensearch:{index}"):
        assert rebuild(plan, known, target, said.append).batch == 0
    assert sorted(shop.sql("SELECT * FROM seen")) == [("Ada",), ("Bob",)]
    shop.sql("UPDATE customers SET name = 'Bea' WHERE id = 2", "DELETE FROM customers WHERE id = 1")
    shop.wait_for(6)
    caught_up(pipeline, known)
    assert [one["name"] for one in in_lake(context, f"{shop.name}.c")] == ["Bea"]
    assert DeltaTable(str(place)).to_pyarrow_table().column("name").to_pylist() == ["Bea"]
    assert shop.sql("SELECT * FROM seen") == [("Bea",)]
    httpx.post(f"{context.settings.opensearch.url}/{index}/_refresh")
    hits = httpx.get(f"{context.settings.opensearch.url}/{index}/_search").json()["hits"]["hits"]
    assert [one["_source"]["name"] for one in hits] == ["Bea"]
    for target in (f"iceberg:{shop.name}.c", f"opensearch:{index}"):  # once more, over what was built anew
        rebuild(plan, known, target, said.append)
    assert [one["name"] for one in in_lake(context, f"{shop.name}.c")] == ["Bea"]
    with pytest.raises(DeclarationError, match="has no sink 'nothing'"):
        rebuild(plan, known, "nothing", said.append)
