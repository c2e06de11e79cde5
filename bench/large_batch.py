"""How much memory a driver needs for one batch of a million small rows into each sink: Python and Spark's JVM together.

Spark has a heap of 2 GiB. HTTP, a request per row, gets fewer rows.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).parents[1])  # else platform.py beside this file stands for Python's own of that name

import argparse
import json
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import penstock as ps
from bench.harness import caught_up, working
from penstock.broker import Producer, Topics

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.connectors.base import BatchSink, Context

HTTP_SHARE = 20


class Peak:
    """The largest sum of memory that this process and its children had at once."""

    def __init__(self) -> None:
        self.bytes = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Peak:
        self._thread.start()
        return self

    def __exit__(self, *told: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(0.2):
            self.bytes = max(self.bytes, sum(map(_resident, _family(os.getpid()))))


def _resident(pid: int) -> int:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def _family(pid: int) -> list[int]:
    """A process and all below it that belong to the driver: the services of the platform have sessions of their own."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = [int(one) for one in task.read_text(encoding="ascii").split()]
        except OSError:
            continue
        for child in children:
            if os.getsid(child) == os.getsid(0):
                found += _family(child)
    return found


class Taking(BaseHTTPRequestHandler):
    """Takes everything."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Take a row."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *told: object) -> None:
        """Say nothing."""


def produce(context: Context, topic: str, rows: int) -> None:
    """Small rows."""
    Topics(context.settings.kafka).create(topic, partitions=4)
    with Producer(context.settings.kafka) as producer:
        for number in range(rows):
            producer.send(topic, {"id": number, "name": f"row {number}", "amount": number * 0.5}, str(number))


def measure(context: Context, name: str, topic: str, sink: BatchSink, rows: int) -> int:
    """One batch into one sink: the peak in MiB."""
    made = ps.Pipeline(f"large-{name}")
    made.source("rows", ps.Kafka(topic, format=ps.Json("id LONG, name STRING, amount DOUBLE")))
    made.sink("rows", sink)
    with Peak() as peak:
        took, running = caught_up(made, context)
    (totals,) = running.totals().values()
    assert totals["rows"] == rows, totals
    assert totals["batches"] == 1, totals
    print(f"{name}: {peak.bytes >> 20} MiB, {rows / took:,.0f} rows/s", flush=True)
    return peak.bytes >> 20


def main() -> None:
    """One sink after the other."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--rows", type=int, default=1_000_000)
    rows: int = words.parse_args().rows
    services, options = ("kafka", "postgres", "opensearch"), {"spark.driver.memory": "2g"}
    server = ThreadingHTTPServer(("127.0.0.1", 0), Taking)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with working("large", services=services, options=options) as context:
        produce(context, "many", rows)
        produce(context, "few", rows // HTTP_SHARE)
        for name in ("plain", "laned"):
            Topics(context.settings.kafka).create(name, partitions=4)
        sinks: dict[str, Callable[[], BatchSink]] = {
            "kafka": lambda: ps.Kafka("plain", key="id"),
            "kafka_lanes": lambda: ps.Kafka("laned", key="id", lanes=2),
            "postgres": lambda: ps.Postgres("plain", create=True),
            "postgres_keyed": lambda: ps.Postgres("keyed", key="id", create=True, writers=2),
            "iceberg": lambda: ps.Iceberg("large.plain"),
            "iceberg_keyed": lambda: ps.Iceberg("large.keyed", key="id"),
            "delta": lambda: ps.Delta("large/plain"),
            "delta_keyed": lambda: ps.Delta("large/keyed", key="id"),
            "opensearch": lambda: ps.OpenSearch("large", key="id"),
        }
        found = {name: measure(context, name, "many", make(), rows) for name, make in sinks.items()}
        http = ps.Http(f"http://127.0.0.1:{server.server_address[1]}", concurrency=16)
        found["http"] = measure(context, "http", "few", http, rows // HTTP_SHARE)
    print("RESULT", json.dumps({f"{name}_mib": mib for name, mib in found.items()}))


if __name__ == "__main__":
    main()
