"""From a change in PostgreSQL to a joined row in Kafka and to a row in Iceberg; and a snapshot of a million rows.

An UPDATE of an order is joined with the table of its customers and mirrored, a batch each second; the worse of the two
ways counts. The snapshot is timed from the capture's creation until the last row is in an Iceberg table; beside it, the
slower of its two legs alone.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).parents[1])  # else platform.py beside this file stands for Python's own of that name

import argparse
import json
import statistics
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import psycopg

import penstock as ps
from bench.harness import working
from bench.stolen import Stolen
from penstock.broker import Topics, read
from penstock.cdc import Capture, Captures
from penstock.connectors.iceberg_writer import open_catalog
from penstock.connectors.lake import local_path
from penstock.pipeline.compile import compile_pipeline
from penstock.pipeline.run import Running, start
from penstock.settings import Capture as Declared

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

    from penstock.connectors.base import Context

CUSTOMERS = 10_000


def captured(context: Context, name: str, *tables: str) -> Context:
    """A context with a capture that runs."""
    declared = Declared(tables=tuple(f"public.{one}" for one in tables))
    known = replace(context, settings=replace(context.settings, captures={name: declared}))
    with Captures(known.settings) as captures:
        captures.create(Capture(name, declared))
    return known


def mirrored(name: str, table: str) -> ps.Pipeline:
    """A captured table in Iceberg."""
    made = ps.Pipeline(f"mirror-{table}")
    made.source("changes", ps.Changes(f"{name}.public.{table}"))

    def rows(changes: DataFrame) -> DataFrame:
        return ps.rows_of(changes)

    made.sink(made.flow(name="rows")(rows), ps.Iceberg(f"bench.{table}", key="id"))
    return made


def joined() -> ps.Pipeline:
    """Changed orders with their customers, in Kafka."""
    made = ps.Pipeline("joined")
    made.source("orders", ps.Changes("shop.public.orders"))
    made.table("customers", ps.Changes("shop.public.customers"))

    def with_customer(orders: DataFrame, customers: DataFrame) -> DataFrame:
        rows = ps.rows_of(orders).select("id", "customer", "n")
        return rows.join(customers.withColumnRenamed("id", "customer"), "customer", "left")

    made.sink(made.flow(name="with_customer")(with_customer), ps.Kafka("joined", key="id"))
    return made


def lake_numbers(context: Context, over: threading.Event, seen: dict[int, float]) -> None:
    """Note when each number is first in the Iceberg table."""
    catalog, last = open_catalog(context.settings.lake), ""
    metadata = local_path(catalog.load_table("bench.orders").location()) / "metadata"
    while not over.wait(0.05):
        newest = max(one.name for one in metadata.glob("*.metadata.json"))
        if newest != last:
            last, at = newest, time.time()
            for n in catalog.load_table("bench.orders").scan(selected_fields=("n",)).to_arrow().column("n").to_pylist():
                seen.setdefault(n, at)


def kafka_numbers(context: Context, seen: dict[int, float]) -> Iterator[None]:
    """Note when each number is first in the topic."""
    for record in read(context.settings.kafka, "joined", live=True):
        seen.setdefault(record.json()["n"], time.time())
        yield


def rows_in_time(context: Context, connection: psycopg.Connection[Any], updates: int) -> tuple[float, float]:
    """The p50 and p99 of the slower way, in seconds."""
    connection.execute("CREATE TABLE customers (id bigint PRIMARY KEY, name text)")
    connection.execute("CREATE TABLE orders (id bigint PRIMARY KEY, customer bigint, n bigint)")
    connection.execute(f"INSERT INTO customers SELECT i, 'name ' || i FROM generate_series(1, {CUSTOMERS}) i")
    connection.execute(f"INSERT INTO orders SELECT i, i, -i FROM generate_series(1, {CUSTOMERS}) i")
    Topics(context.settings.kafka).create("joined", partitions=2)
    known = captured(context, "shop", "customers", "orders")
    running = [_started(one, known) for one in (mirrored("shop", "orders"), joined())]
    over, lake, kafka, sent = threading.Event(), {}, {}, {}  # type: ignore[var-annotated]
    reader = kafka_numbers(known, kafka)
    threading.Thread(target=lambda: [None for _ in reader], daemon=True).start()
    _until(lambda: len(kafka) >= CUSTOMERS, 120)
    watcher = threading.Thread(target=lake_numbers, args=(known, over, lake))
    watcher.start()
    _until(lambda: len(lake) >= CUSTOMERS, 120)
    for n in range(1, updates + 1):
        connection.execute("UPDATE orders SET n = %s WHERE id = %s", (n, n % CUSTOMERS + 1))
        sent[n] = time.time()
        time.sleep(0.35)
    _until(lambda: all(n in kafka and n in lake for n in sent), 60)
    over.set()
    watcher.join()
    for one in running:
        one.stop()
    ways = [[seen[n] - at for n, at in sent.items()] for seen in (kafka, lake)]
    for name, ages in zip(("joined in Kafka", "in Iceberg"), ways, strict=True):
        print(f"{name}: p50 {_part(ages, 50):.2f} s, p99 {_part(ages, 99):.2f} s", flush=True)
    return max(_part(ages, 50) for ages in ways), max(_part(ages, 99) for ages in ways)


def snapshot(context: Context, connection: psycopg.Connection[Any], rows: int, *, at_once: bool) -> float:
    """Rows a second from PostgreSQL into Kafka and into Iceberg: the slower of the two, or both at once."""
    name = "at_once" if at_once else "by_turns"
    connection.execute(f"CREATE TABLE {name} (id bigint PRIMARY KEY, name text, amount numeric(10,2), at timestamptz)")
    connection.execute(f"INSERT INTO {name} SELECT i, 'name ' || i, i / 100.0, now() FROM generate_series(1, {rows}) i")
    began = time.perf_counter()
    known = captured(context, name, name)
    running = _started(mirrored(name, name), known) if at_once else None
    topics = Topics(known.settings.kafka)
    _until(lambda: sum(topics.end_offsets(f"{name}.public.{name}", committed=True).values()) >= rows, 600)
    into_kafka = rows / (time.perf_counter() - began)
    if running is None:
        began = time.perf_counter()
        running = _started(mirrored(name, name), known)
    _until(lambda: running.totals()["changes"]["rows"] >= rows, 600)
    into_table = rows / (time.perf_counter() - began)
    running.stop()
    found = open_catalog(known.settings.lake).load_table(f"bench.{name}").scan().to_arrow().num_rows
    assert found == rows, f"{found} of {rows} rows are in the table"
    print(f"{name}: into Kafka {into_kafka:,.0f} rows/s, into Iceberg {into_table:,.0f} rows/s", flush=True)
    return min(into_kafka, into_table)


def main() -> None:
    """Measure both, end with the figures."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--rows", type=int, default=1_000_000)
    words.add_argument("--updates", type=int, default=200)
    given = words.parse_args()
    with (
        working("cdc", services=("kafka", "postgres", "connect")) as context,
        psycopg.connect(context.settings.postgres.url, autocommit=True) as connection,
        Stolen() as stolen,
    ):
        p50, p99 = rows_in_time(context, connection, given.updates)
        by_turns, at_once = (snapshot(context, connection, given.rows, at_once=one) for one in (False, True))
    result = {
        "row_p50_s": round(p50, 2),
        "row_p99_s": round(p99, 2),
        "snapshot_rows_per_s": round(at_once),
        "snapshot_by_turns_rows_per_s": round(by_turns),
        "stolen": stolen.share,
    }
    print("RESULT", json.dumps(result))


def _started(pipeline: ps.Pipeline, context: Context) -> Running:
    return start(compile_pipeline(pipeline, context), context, every="1 second")


def _part(values: list[float], percent: int) -> float:
    return statistics.quantiles(values, n=100)[percent - 1]


def _until(condition: Any, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds:.0f} s")
        time.sleep(0.05)


if __name__ == "__main__":
    main()
