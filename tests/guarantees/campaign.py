"""A pipeline into every exactly-once sink, killed again and again; what is in the sinks afterwards, read by others.

The input is numbered rows. Every sink must have each number once, in the order of its key where there is one, the
windows must be those of a batch computation, every timer must have rung once with the state as it was then, and each
dead letter must be there once.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import psycopg
from confluent_kafka import Consumer, TopicPartition
from deltalake import DeltaTable

from penstock.broker import Producer, Topics
from penstock.connectors.iceberg_writer import open_catalog
from penstock.local.progress import Silent
from penstock.pipeline.state import PipelineState

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import Project

POINTS = (
    "batch begun",
    "batch kept",
    "rows staged",
    "transaction begun",
    "some rows sent",
    "all sent",
    "transaction committed",
    "all written",
)
START = datetime(2026, 1, 1, tzinfo=UTC)
ROWS = 300
FAR = 1_000_000
PIPELINE = """
import penstock as ps
from pyspark.sql import functions as F

chaos = ps.Pipeline("{name}")
chaos.source("numbers", ps.Kafka("{name}-in", format=ps.Json("n LONG, k LONG, at TIMESTAMP"), rows_per_batch=300),
             time=ps.EventTime("at", delay="10 seconds", future=None))

@chaos.flow(expect={{"not a seventh": "n % 100 != 7"}})
def kept(numbers):
    return numbers

@chaos.each("n LONG, k LONG")
def worked(kept):
    return {{"n": kept["n"], "k": kept["k"]}}

@chaos.flow
def totals(kept):
    return kept.groupBy(F.window("at", "1 minute")).agg(F.count("*").alias("rows"), F.sum("n").alias("sum"))

@chaos.keyed(by="k", returns="n LONG, k LONG, count LONG")
class rung:
    count = ps.ValueState("LONG")
    last = ps.ValueState("LONG")

    def on_event(self, kept, now):
        self.count.set(self.count.get(0) + 1)
        self.last.set(kept["n"])
        now.timer("15 seconds")
        if kept["n"] % 100 == 9:
            raise ValueError("a ninth")

    def on_timer(self, name, now):
        now.emit({{"n": self.last.get(), "k": now.key, "count": self.count.get()}})

chaos.sink(rung, ps.Kafka("{name}-rung", key="k"))
chaos.sink(worked, ps.Kafka("{name}-out", key="k", group="{name}-group"))
chaos.sink(totals, ps.Kafka("{name}-totals"))
"""
OTHERS = """
chaos.sink(worked, ps.Postgres("chaos.t{unique}", create=True))
chaos.sink(worked, ps.Iceberg("chaos.t{unique}"))
chaos.sink(worked, ps.Delta("chaos/t{unique}"))
chaos.sink(worked, ps.OpenSearch("{name}", key="n"))
"""


@dataclass
class Outcome:
    """What was found: rows that are missing and rows that are there twice, by the sink."""

    kills: Counter[str] = field(default_factory=Counter)
    missing: dict[str, int] = field(default_factory=dict)
    double: dict[str, int] = field(default_factory=dict)
    disordered: int = 0


class Campaign:
    """One pipeline of a running platform, and the kills that it is put through."""

    def __init__(self, platform: Project, unique: str, *, every_sink: bool = True, seed: int = 1) -> None:
        self.platform = platform
        self.name = f"chaos-{unique}"
        self.unique = unique
        self.every_sink = every_sink
        self.chance = random.Random(seed)
        self.sent = 0
        self.outcome = Outcome()
        self.kafka = platform.settings.kafka
        for end, parts in (("in", 3), ("out", 3), ("totals", 1), ("rung", 3)):
            Topics(self.kafka).create(f"{self.name}-{end}", partitions=parts)
        text = PIPELINE + (OTHERS if every_sink else "")
        self.file = platform.folder / f"{self.name.replace('-', '_')}.py"
        self.file.write_text(text.format(name=self.name, unique=unique), encoding="utf-8")
        self.state = PipelineState(platform.home, self.name)

    def send(self, count: int = ROWS) -> None:
        """Numbered rows; a key is always in the same partition."""
        with Producer(self.kafka) as producer:
            for n in range(self.sent, self.sent + count):
                self._put(producer, n)
        self.sent += count

    def start(self, **env: str) -> subprocess.Popen[bytes]:
        """A driver with its own process group, killed as a whole."""
        command = [sys.executable, "-m", "tests.guarantees.driver", "run", str(self.file)]
        said = (self.platform.folder / f"{self.name}.log").open("ab")
        with said:
            return subprocess.Popen(
                command,
                cwd=self.platform.folder,
                env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), **env},
                stdout=said,
                stderr=said,
                start_new_session=True,
            )

    def die_at(self, point: str, times: int, query: str = "", **env: str) -> None:
        """Run until the driver has killed itself at a point, in any query or in one; rows come until it has."""
        self.send()
        driver = self.start(DIE_AT=f"{point}#{times}{'@' + query if query else ''}", **env)
        try:
            deadline = time.monotonic() + 180
            while driver.poll() is None and time.monotonic() < deadline:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    driver.wait(5)
                    break
                self.send(20)
            assert driver.poll() == -signal.SIGKILL, self.said()
        finally:
            kill(driver)
        self.outcome.kills[point] += 1

    def die_at_random(self) -> None:
        """Run until some batches are through, then kill it whatever it does."""
        self.send()
        before, aim = self.batches(), self.chance.randint(1, 2)
        driver = self.start()
        self._await(lambda: self.batches() >= before + aim, driver)
        time.sleep(self.chance.random() * 0.5)
        kill(driver)
        self.outcome.kills["at random"] += 1

    def kill_workers(self) -> None:
        """Kill Spark's Python workers under a running driver; it must go on by itself."""
        self.send()
        before = self.batches()
        driver = self.start()
        self._await(lambda: self.batches() > before, driver)
        for pid in python_workers(driver.pid):
            os.kill(pid, signal.SIGKILL)
        self.send()
        self._await(self.caught_up, driver)
        kill(driver)
        self.outcome.kills["python worker"] += 1

    def kill_service(self, service: str, seconds: float | None = None) -> None:
        """Kill or freeze a service under a running driver; it must go on by itself."""
        self.send()
        before = self.batches()
        driver = self.start()
        self._await(lambda: self.batches() > before, driver)
        self.send()
        process = self.platform.processes()[service]
        if seconds is None:
            os.kill(process.pid, signal.SIGKILL)
            wait(lambda: service not in self.platform.processes(), 60)
            self.platform.stack.up((service,), Silent())
        else:
            os.kill(process.pid, signal.SIGSTOP)
            time.sleep(seconds)
            os.kill(process.pid, signal.SIGCONT)
        self.send()
        self._await(self.caught_up, driver)
        kill(driver)
        self.outcome.kills[f"{service} {'kill -9' if seconds is None else 'SIGSTOP'}"] += 1

    def finish(self, **env: str) -> Outcome:
        """Let it catch up undisturbed, then look into every sink."""
        with Producer(self.kafka) as producer:
            self._put(producer, FAR)  # moves the watermark past every window
        command = [sys.executable, "-m", "tests.guarantees.driver", "run", str(self.file), "--until-caught-up"]
        done = subprocess.run(
            command,
            cwd=self.platform.folder,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), **env},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        numbers = [*range(self.sent), FAR]
        wanted = Counter(n for n in numbers if n % 100 != 7)
        for sink, read in self.readers().items():
            found = Counter(read())
            self.outcome.missing[sink] = sum((wanted - found).values())
            self.outcome.double[sink] = sum((found - wanted).values())
        self._look_at_order()
        self._look_at_totals(wanted)
        self._look_at_timers(wanted)
        self._look_at_letters(numbers)
        return self.outcome

    def readers(self) -> dict[str, Callable[[], list[int]]]:
        """Each sink's numbers, by a client that is not ours."""
        found: dict[str, Callable[[], list[int]]] = {
            "kafka": lambda: [row["n"] for rows in self.committed("out").values() for row in rows]
        }
        if self.every_sink:
            found |= {
                "postgres": self._in_postgres,
                "iceberg": self._in_iceberg,
                "delta": self._in_delta,
                "opensearch": self._in_opensearch,
            }
        return found

    def committed(self, end: str) -> dict[int, list[Any]]:
        """What a read_committed client reads, by partition."""
        return committed(self.kafka.bootstrap, self.name if end == "" else f"{self.name}-{end}")

    def batches(self) -> int:
        """How many batches have told of themselves."""
        return sum(len(self.state.progress(name)) for name in self.state.queries())

    def caught_up(self) -> bool:
        """Whether the copy in Kafka has all that was sent."""
        found = {row["n"] for rows in self.committed("out").values() for row in rows}
        return found >= {n for n in range(self.sent) if n % 100 != 7}

    def said(self) -> str:
        """The end of what the drivers printed."""
        return (self.platform.folder / f"{self.name}.log").read_text(errors="replace")[-3000:]

    def _put(self, producer: Producer, n: int) -> None:
        at = (START + timedelta(seconds=n)).isoformat()
        producer.send(f"{self.name}-in", {"n": n, "k": n % 20, "at": at}, str(n % 20))

    def _await(self, condition: Callable[[], bool], driver: subprocess.Popen[bytes]) -> None:
        def holds() -> bool:
            assert driver.poll() is None, self.said()
            return condition()

        try:
            wait(holds, 240)
        except BaseException:
            kill(driver)
            raise

    def _in_postgres(self) -> list[int]:
        with psycopg.connect(self.platform.settings.postgres.url) as connection:
            return [row[0] for row in connection.execute(f"SELECT n FROM chaos.t{self.unique}")]

    def _in_iceberg(self) -> list[int]:
        table = open_catalog(self.platform.settings.lake).load_table(f"chaos.t{self.unique}")
        found: list[int] = table.scan().to_arrow().column("n").to_pylist()
        return found

    def _in_delta(self) -> list[int]:
        place = Path(self.platform.settings.lake.warehouse) / "chaos" / f"t{self.unique}"
        found: list[int] = DeltaTable(str(place)).to_pyarrow_table().column("n").to_pylist()
        return found

    def _in_opensearch(self) -> list[int]:
        base = f"{self.platform.settings.opensearch.url}/{self.name}"
        httpx.post(f"{base}/_refresh", timeout=60)
        found: list[int] = []
        after: list[Any] = []
        while True:
            body: dict[str, Any] = {"size": 5000, "sort": [{"n": "asc"}], **({"search_after": after} if after else {})}
            hits = httpx.post(f"{base}/_search", json=body, timeout=60).json()["hits"]["hits"]
            if not hits:
                return found
            found += [hit["_source"]["n"] for hit in hits]
            after = hits[-1]["sort"]

    def _look_at_order(self) -> None:
        for rows in self.committed("out").values():
            by_key: dict[int, list[int]] = defaultdict(list)
            for row in rows:
                by_key[row["k"]].append(row["n"])
            self.outcome.disordered += sum(numbers != sorted(numbers) for numbers in by_key.values())

    def _look_at_totals(self, numbers: Counter[int]) -> None:
        wanted: dict[int, tuple[int, int]] = {}
        for n in numbers:
            if n != FAR:
                rows, total = wanted.get(n // 60, (0, 0))
                wanted[n // 60] = (rows + 1, total + n)
        found: list[tuple[int, tuple[int, int]]] = []
        for row in self.committed("totals")[0]:
            minute = int((datetime.fromisoformat(row["window"]["start"]) - START).total_seconds()) // 60
            found.append((minute, (row["rows"], row["sum"])))
        self.outcome.missing["windows"] = len(set(wanted.items()) - set(found))
        self.outcome.double["windows"] = len(found) - len(set(found) & set(wanted.items()))

    def _look_at_timers(self, numbers: Counter[int]) -> None:
        counts: Counter[int] = Counter()
        wanted: Counter[tuple[int, int]] = Counter()
        for n in sorted(numbers):
            if n != FAR and n % 100 != 9:
                counts[n % 20] += 1
                wanted[n, counts[n % 20]] += 1
        found = Counter((row["n"], row["count"]) for rows in self.committed("rung").values() for row in rows)
        self.outcome.missing["timers"] = sum((wanted - found).values())
        self.outcome.double["timers"] = sum((found - wanted).values())

    def _look_at_letters(self, numbers: list[int]) -> None:
        found = Counter(
            json.loads(row["value"])["n"] for rows in self.committed("dead-letters").values() for row in rows
        )
        wanted = Counter(n for n in numbers if n % 100 in (7, 9))
        self.outcome.missing["dead letters"] = sum((wanted - found).values())
        self.outcome.double["dead letters"] = sum((found - wanted).values())


def committed(bootstrap: str, topic: str) -> dict[int, list[Any]]:
    """The committed rows of a topic by partition, up to where it ends now."""
    client = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "chaos",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    try:
        parts = client.list_topics(topic, timeout=30).topics[topic].partitions
        client.assign([TopicPartition(topic, part, 0) for part in parts])
        found: dict[int, list[Any]] = {part: [] for part in parts}
        left = set(parts)
        while left:
            for message in client.consume(2000, timeout=1):
                part = message.partition()
                assert part is not None
                if message.error():
                    left.discard(part)
                else:
                    found[part].append(json.loads(message.value() or b""))
        return found
    finally:
        client.close()


def python_workers(driver: int) -> list[int]:
    """The Python processes of Spark below a driver."""
    below: dict[int, list[int]] = defaultdict(list)
    words: dict[int, str] = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            words[int(path.name)] = (path / "cmdline").read_text()
        except OSError:
            continue
        below[parent].append(int(path.name))
    found, todo = [], [driver]
    while todo:
        for child in below[todo.pop()]:
            todo.append(child)
            if "pyspark.daemon" in words[child] or "pyspark/daemon" in words[child]:
                found.append(child)
    return found


def kill(driver: subprocess.Popen[bytes]) -> None:
    """Kill a driver and all its children."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(driver.pid, signal.SIGKILL)
    driver.wait()


def wait(condition: Callable[[], bool], seconds: float) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, condition
        time.sleep(0.2)
