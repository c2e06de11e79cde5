"""Each sink with the means to look at what is in it, independent of our own code where there is another client."""

from __future__ import annotations

import json
import shutil
import threading
import uuid
from abc import ABC, abstractmethod
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import httpx
import psycopg
from confluent_kafka import Consumer, TopicPartition
from deltalake import DeltaTable
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

import penstock as ps
from penstock.broker import Topics
from penstock.connectors.iceberg_writer import open_catalog

if TYPE_CHECKING:
    from penstock.connectors.base import BatchSink, Context


class Rig(ABC):
    """One kind of sink on the real system."""

    keyed = False
    marked = True
    atomic = True
    together = False

    def __init__(self, context: Context) -> None:
        self.context = context
        self.unique = uuid.uuid4().hex[:8]

    @abstractmethod
    def sink(self, name: str = "a") -> BatchSink:
        """A sink of its own."""

    @abstractmethod
    def rows(self, name: str = "a") -> list[dict[str, Any]]:
        """What a reader sees in it."""

    @abstractmethod
    def forget(self) -> None:
        """Delete what the system remembers of the query, as a careless person would."""

    def close(self) -> None:
        """End what was started for it."""
        return


class KafkaRig(Rig):
    together = True

    def topic(self, name: str) -> str:
        topic = f"contract-{self.unique}-{name}"
        topics = Topics(self.context.settings.kafka)
        if topic not in topics.names():
            topics.create(topic, partitions=2)
        return topic

    def sink(self, name: str = "a") -> BatchSink:
        return ps.Kafka(self.topic(name), key="id")

    def rows(self, name: str = "a") -> list[dict[str, Any]]:
        """By a plain client that reads what is committed."""
        topic = self.topic(name)
        ends = Topics(self.context.settings.kafka).end_offsets(topic)
        client = Consumer(
            {
                "bootstrap.servers": self.context.settings.kafka.bootstrap,
                "group.id": self.unique,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
            }
        )
        client.assign([TopicPartition(topic, part, 0) for part in ends])
        found, open_parts = [], set(ends)
        while open_parts:
            message = client.poll(10)
            assert message is not None
            if message.error():
                open_parts.discard(message.partition())
            else:
                found.append(json.loads(message.value() or b""))
        client.close()
        return found

    def forget(self) -> None:
        Topics(self.context.settings.kafka).delete(f"contract-{self.unique}-q-progress")


class KafkaLanesRig(KafkaRig):
    together = False
    atomic = False

    def sink(self, name: str = "a") -> BatchSink:
        return ps.Kafka(self.topic(name), key="id", lanes=3)

    def forget(self) -> None:
        topic = self.topic("a")
        for kind in ("progress", "lanes"):
            Topics(self.context.settings.kafka).delete(f"contract-{self.unique}-q-{topic}-{kind}")


class PostgresRig(Rig):
    together = True

    def table(self, name: str) -> str:
        return f"contract_{self.unique}.t_{name}"

    def sink(self, name: str = "a") -> BatchSink:
        return ps.Postgres(self.table(name), create=True)

    def run(self, statement: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.context.settings.postgres.url, autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def rows(self, name: str = "a") -> list[dict[str, Any]]:
        if not self.run(f"SELECT 1 WHERE to_regclass('{self.table(name)}') IS NOT NULL"):
            return []
        return [row[0] for row in self.run(f"SELECT to_jsonb(t) FROM {self.table(name)} AS t")]

    def forget(self) -> None:
        self.run("DELETE FROM penstock_marks")


class PostgresKeyedRig(PostgresRig):
    keyed = True

    def sink(self, name: str = "a") -> BatchSink:
        return ps.Postgres(self.table(name), key="id", delete="gone", create=True)


class PostgresParallelRig(PostgresRig):
    keyed = True

    def sink(self, name: str = "a") -> BatchSink:
        return ps.Postgres(self.table(name), key="id", delete="gone", create=True, writers=2)


class IcebergRig(Rig):
    def sink(self, name: str = "a") -> BatchSink:
        return ps.Iceberg(f"contract_{self.unique}.t_{name}")

    def rows(self, name: str = "a") -> list[dict[str, Any]]:
        """By DuckDB over PyIceberg."""
        try:
            table = open_catalog(self.context.settings.lake).load_table(f"contract_{self.unique}.t_{name}")
        except (NoSuchTableError, NoSuchNamespaceError):
            return []
        connection = table.scan().to_duckdb(table_name="rows")
        return _dicts(connection.execute("SELECT * FROM rows"))

    def forget(self) -> None:
        open_catalog(self.context.settings.lake).drop_table(f"contract_{self.unique}.t_a")


class IcebergKeyedRig(IcebergRig):
    keyed = True

    def sink(self, name: str = "a") -> BatchSink:
        return ps.Iceberg(f"contract_{self.unique}.t_{name}", key="id", delete="gone")


class DeltaRig(Rig):
    def sink(self, name: str = "a") -> BatchSink:
        return ps.Delta(f"delta/{self.unique}/{name}")

    def place(self, name: str) -> Path:
        return Path(self.context.settings.lake.warehouse) / "delta" / self.unique / name

    def rows(self, name: str = "a") -> list[dict[str, Any]]:
        """By DuckDB over Arrow."""
        if not DeltaTable.is_deltatable(str(self.place(name))):
            return []
        rows = DeltaTable(str(self.place(name))).to_pyarrow_table()
        connection = duckdb.connect()
        connection.register("rows", rows)
        return _dicts(connection.execute("SELECT * FROM rows"))

    def forget(self) -> None:
        shutil.rmtree(self.place("a"))


class DeltaKeyedRig(DeltaRig):
    keyed = True

    def sink(self, name: str = "a") -> BatchSink:
        return ps.Delta(f"delta/{self.unique}/{name}", key="id", delete="gone")


class OpenSearchRig(Rig):
    keyed = True
    marked = False
    atomic = False

    def sink(self, name: str = "a") -> BatchSink:
        return ps.OpenSearch(f"contract-{self.unique}-{name}", key="id", delete="gone")

    def rows(self, name: str = "a") -> list[dict[str, Any]]:
        base = f"{self.context.settings.opensearch.url}/contract-{self.unique}-{name}"
        httpx.post(f"{base}/_refresh")
        found = httpx.get(f"{base}/_search?size=1000").json()
        return [one["_source"] for one in found.get("hits", {"hits": []})["hits"]]

    def forget(self) -> None:
        """It remembers nothing but the documents."""


class HttpRig(Rig):
    marked = False
    atomic = False

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.service = Service()

    def sink(self, name: str = "a") -> BatchSink:
        return ps.Http(f"{self.service.url}/{name}", concurrency=4)

    def rows(self, name: str = "a") -> list[dict[str, Any]]:
        return [json.loads(row) for row in self.service.taken.values()]

    def forget(self) -> None:
        """It remembers nothing but the keys."""

    def close(self) -> None:
        self.service.shutdown()
        self.service.server_close()


class Service(ThreadingHTTPServer):
    """An HTTP service that knows keys again; what it answers can be set."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Taking)
        self.taken: dict[str, bytes] = {}
        self.calls: Counter[str] = Counter()
        self.answers: dict[str, list[int]] = {}
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Taking(BaseHTTPRequestHandler):
    server: Service
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        key = self.headers["Idempotency-Key"]
        self.server.calls[key] += 1
        waiting = next((left for part, left in self.server.answers.items() if part.encode() in body), [])
        status = waiting.pop(0) if waiting else 200
        if status == 200:
            self.server.taken.setdefault(key, body)
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *said: Any) -> None:
        pass


def _dicts(found: Any) -> list[dict[str, Any]]:
    names = [one[0] for one in found.description]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


RIGS: dict[str, Any] = {
    "kafka": KafkaRig,
    "kafka-lanes": KafkaLanesRig,
    "postgres": PostgresRig,
    "postgres-keyed": PostgresKeyedRig,
    "postgres-parallel": PostgresParallelRig,
    "iceberg": IcebergRig,
    "iceberg-keyed": IcebergKeyedRig,
    "delta": DeltaRig,
    "delta-keyed": DeltaKeyedRig,
    "opensearch": OpenSearchRig,
    "http": HttpRig,
}
