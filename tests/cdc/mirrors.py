"""Two tables that change at random, mirrored into every system and joined, while all processes are killed in turn."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import psycopg
from deltalake import DeltaTable

from penstock.cdc import Captures
from penstock.connectors.iceberg_writer import open_catalog
from penstock.local.progress import Silent
from tests.cdc.conftest import Shop
from tests.conftest import wait_until
from tests.guarantees.campaign import kill

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import Project

    Rows = set[tuple[Any, ...]]

TABLES = ("customers", "orders")
PIPELINE = """
import penstock as ps

mirror = ps.Pipeline("{name}")
shop = ps.capture("{name}", tables=["{name}.customers", "{name}.orders"])
"""
MIRRORED = """
mirror.source("{table}", ps.Changes("{name}.{name}.{table}", capture=shop))

@mirror.flow
def {table}_now({table}):
    return ps.rows_of({table})

mirror.sink({table}_now, ps.Postgres("{name}_copy.{table}", key="id", create=True))
mirror.sink({table}_now, ps.Iceberg("{name}.{table}", key="id"))
mirror.sink({table}_now, ps.Delta("{name}/{table}", key="id"))
mirror.sink({table}_now, ps.OpenSearch("{name}-{table}", key="id"))
"""
JOINED = """
@mirror.flow(unbounded=True)
def joined(orders, customers):
    columns = {{"id": "left.id", "amount": "left.amount", "name": "right.name"}}
    return ps.view(orders, customers, on={{"customer": "id"}}, how="left", columns=columns)

mirror.sink(joined, ps.Postgres("{name}_copy.joined", key="id", create=True))
"""


class Mirrors:
    """A shop, its writer, its pipeline."""

    def __init__(self, platform: Project, seed: int = 1) -> None:
        self.platform = platform
        self.shop = Shop(platform, TABLES)
        self.name = self.shop.name
        self.shop.sql("CREATE TABLE orders (id bigint PRIMARY KEY, customer bigint, amount numeric(10,2))")
        with Captures(self.shop.settings) as captures:
            captures.create(self.shop.capture)
        self.file = platform.folder / f"{self.name}.py"
        parts = [MIRRORED.format(name=self.name, table=table) for table in TABLES]
        parts = [PIPELINE.format(name=self.name), *parts, JOINED.format(name=self.name)]
        self.file.write_text("".join(parts), encoding="utf-8")
        self.chance = random.Random(seed)
        self.transactions = 0
        self._over = threading.Event()
        self._writer = threading.Thread(target=self._write, daemon=True)
        self._driver: subprocess.Popen[bytes] | None = None

    def begin(self) -> None:
        """Let the tables change, and the pipeline run."""
        self._writer.start()
        self.start_driver()

    def start_driver(self) -> None:
        """A driver with its own process group."""
        command = [sys.executable, "-m", "penstock", "run", str(self.file)]
        with self._log.open("ab") as said:
            self._driver = subprocess.Popen(
                command, cwd=self.platform.folder, stdout=said, stderr=said, start_new_session=True
            )

    def arrived(self) -> bool:
        """Whether the pipeline has begun to mirror."""
        with contextlib.suppress(psycopg.Error):
            return all(self._in_postgres(table) for table in TABLES)
        return False

    def go_on(self, transactions: int) -> None:
        """Wait until the tables have changed so many times more."""
        aim = self.transactions + transactions
        wait_until(lambda: self.transactions >= aim, 120, f"{transactions} more transactions")

    def kill_driver(self) -> None:
        """Kill it, start another."""
        assert self._driver is not None
        kill(self._driver)
        self.start_driver()

    def kill_service(self, service: str) -> None:
        """Kill a service, start it again."""
        os.kill(self.platform.processes()[service].pid, signal.SIGKILL)
        wait_until(lambda: service not in self.platform.processes())
        self.platform.stack.up((service,), Silent())

    def finish(self) -> None:
        """Stop changing; wait until every system is what the database is, row for row."""
        self._over.set()
        self._writer.join(60)
        wanted = {table: self._source(table) for table in TABLES}
        try:
            for system, read in self.readers().items():
                for table in TABLES:
                    self._compare(system, table, wanted[table], read)
            joined = "SELECT o.id, o.amount, c.name FROM orders AS o LEFT JOIN customers AS c ON c.id = o.customer"
            self._compare("postgres", "joined", set(self.shop.sql(joined)), self._in_postgres)
        finally:
            if self._driver is not None:
                kill(self._driver)

    def close(self) -> None:
        """Remove all of it."""
        if self._driver is not None:
            kill(self._driver)
        self._over.set()
        self.shop.close()

    def readers(self) -> dict[str, Callable[[str], Rows]]:
        """Each system's rows, by a client that is not ours."""
        return {
            "postgres": self._in_postgres,
            "iceberg": self._in_iceberg,
            "delta": self._in_delta,
            "opensearch": self._in_opensearch,
        }

    @property
    def _address(self) -> str:
        return self.platform.settings.postgres.url

    @property
    def _log(self) -> Path:
        return self.platform.folder / f"{self.name}.log"

    def _compare(self, system: str, table: str, wanted: Rows, read: Callable[[str], Rows]) -> None:
        def equal() -> bool:
            assert self._driver is not None
            assert self._driver.poll() is None, self._log.read_text(errors="replace")[-3000:]
            try:
                return read(table) == wanted
            except Exception:  # noqa: BLE001 - not there yet
                return False

        try:
            wait_until(equal, 240, f"{system} equals {table}")
        except BaseException:
            found = read(table)
            print(system, table, "missing", sorted(wanted - found)[:5], "extra", sorted(found - wanted)[:5])
            raise

    def _write(self) -> None:
        while not self._over.is_set():
            with contextlib.suppress(psycopg.Error), psycopg.connect(self._address) as connection:
                connection.execute(f"SET search_path = {self.name}")
                connection.commit()
                while not self._over.wait(0.01):
                    self._transaction(connection)
                    connection.commit()
                    self.transactions += 1
            self._over.wait(0.2)

    def _transaction(self, connection: psycopg.Connection[Any]) -> None:
        """Some changes of both tables: rows come, change, change their key, go."""
        for _ in range(self.chance.randint(1, 6)):
            table, values = self.chance.choice((("customers", "name, city"), ("orders", "customer, amount")))
            one, other = self.chance.randrange(400), self.chance.randrange(400)
            first, second = self.chance.randrange(1000), self.chance.randrange(1000)
            done = self.chance.random()
            if done < 0.5:
                left, right = values.split(", ")
                connection.execute(
                    f"INSERT INTO {table} (id, {values}) VALUES (%s, %s, %s) ON CONFLICT (id)"
                    f" DO UPDATE SET {left} = excluded.{left}, {right} = excluded.{right}",
                    (one, first, second),
                )
            elif done < 0.7:
                connection.execute(
                    f"UPDATE {table} SET id = %s WHERE id = %s AND NOT EXISTS (SELECT FROM {table} WHERE id = %s)",
                    (other, one, other),
                )
            else:
                connection.execute(f"DELETE FROM {table} WHERE id = %s", (one,))

    def _source(self, table: str) -> Rows:
        return set(self.shop.sql(f"SELECT * FROM {table}"))

    def _in_postgres(self, table: str) -> Rows:
        return set(self.shop.sql(f"SELECT * FROM {self.name}_copy.{table}"))

    def _in_iceberg(self, table: str) -> Rows:
        return _rows(open_catalog(self.platform.settings.lake).load_table(f"{self.name}.{table}").scan().to_arrow())

    def _in_delta(self, table: str) -> Rows:
        place = Path(self.platform.settings.lake.warehouse) / self.name / table
        return _rows(DeltaTable(str(place)).to_pyarrow_table())

    def _in_opensearch(self, table: str) -> Rows:
        base = f"{self.platform.settings.opensearch.url}/{self.name}-{table}"
        httpx.post(f"{base}/_refresh", timeout=60)
        hits = httpx.post(f"{base}/_search", json={"size": 5000}, timeout=60).json()["hits"]["hits"]
        found = [hit["_source"] for hit in hits]
        if table == "customers":
            return {(row["id"], row.get("name"), row.get("city")) for row in found}
        wanted = {row[0]: row for row in self._source(table)}  # a number of JSON has no scale
        return {
            wanted[row["id"]]
            if row["id"] in wanted
            and (row.get("customer"), float(row["amount"])) == (wanted[row["id"]][1], float(wanted[row["id"]][2]))
            else tuple(row.values())
            for row in found
        }


def _rows(table: Any) -> Rows:
    return {tuple(row.values()) for row in table.to_pylist()}
