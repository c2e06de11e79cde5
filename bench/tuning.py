"""What each of our settings brings: throughput with it over throughput with what Spark and Kafka have of their own.

Beside it the CPU of a row, which says the same on a machine that is busy otherwise, but for what only waits. Two
engines of ours take turns, one as we ship it and one with a single setting taken back, at a query without state, one
with windows and one with state that is updated.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[0] = str(ROOT)  # else platform.py beside this file stands for Python's own of that name
sys.path.insert(1, str(ROOT / "examples" / "nexmark"))

import argparse
import json
import tempfile
from contextlib import ExitStack
from typing import Any

from bench.nexmark.engines import Engine
from bench.nexmark.throughput import Filled, Measured, in_turns
from bench.pages import put
from bench.peers.install import installed
from bench.stolen import Stolen
from penstock.local.progress import Silent
from penstock.local.stack import Stack
from penstock.pipeline.session import COMPILED
from penstock.settings import load

QUERIES = ("q1", "q5", "q17")
PAGE = ROOT / "docs" / "tuning.md"
STATE = "spark.sql.streaming.stateStore"
TAKEN_BACK: dict[str, dict[str, Any]] = {
    "decode only what a flow uses": {"wide": True},
    "as many shuffle partitions as cores, not 200": {"spark": {"spark.sql.shuffle.partitions": "200"}},
    "state in memory, not in RocksDB": {"disk": True},
    "state in RocksDB saved as changes, not as files": {
        "disk": True,
        "spark": {f"{STATE}.rocksdb.changelogCheckpointing.enabled": "false"},
    },
    "the parallel collector, not G1": {"spark": {"spark.driver.extraJavaOptions": f"-XX:+UseG1GC {COMPILED}"}},
    "a young generation of at most 512 MiB": {
        "spark": {"spark.driver.extraJavaOptions": f"-XX:+UseParallelGC {COMPILED}"}
    },
    "4,000 rows a poll, not 500": {"reading": {"kafka.max.poll.records": "500"}},
    "fetches that do not wait for more": {"reading": {"kafka.fetch.max.wait.ms": "500"}},
    "512 KiB, 20 ms and LZ4 for what goes out": {
        "writing": {"kafka.linger.ms": "5", "kafka.batch.size": "16384", "kafka.compression.type": "none"}
    },
}


def main() -> None:
    """Measure, show, write the page's table, end with the result."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--rows", type=int, default=1_000_000)
    words.add_argument("--turns", type=int, default=3)
    words.add_argument("--page", type=Path, default=PAGE)
    given = words.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        stack = Stack(load(project=folder, profile="local"))
        stack.up(("kafka",), Silent())
        try:
            filled = Filled(load(project=folder, profile="local"), "json", {"bid": given.rows}, folder / "side.csv")
            filled.fill()
            with Stolen() as stolen:
                found = {name: compared(filled, folder, tried, given.turns) for name, tried in TAKEN_BACK.items()}
        finally:
            stack.down(Silent(), remove_data=True)
    told = f"{given.rows:,} rows, {given.turns} turns each; the host gave {stolen.share:.0%} of the time to others."
    write(given.page, found, told)
    print("RESULT", json.dumps({name: {query: one["rows"] for query, one in by.items()} for name, by in found.items()}))


def compared(filled: Filled, folder: Path, tried: dict[str, Any], turns: int) -> dict[str, dict[str, float]]:
    """As we ship it over without one setting, by query: rows a second, and seconds of CPU saved."""
    ours = installed("penstock")
    assert ours is not None
    bootstrap = filled.settings.kafka.bootstrap
    print(f"== without {tried}", flush=True)
    both = {"disk": True} if len(tried) > 1 else {}  # what RocksDB does can be seen only if both have it
    with ExitStack() as held:
        shipped = held.enter_context(Engine(ours, bootstrap, folder / "ours.log", f"--try={json.dumps(both)}"))
        other = held.enter_context(Engine(ours, bootstrap, folder / "other.log", f"--try={json.dumps(tried)}"))
        other.name = "without"
        measured = in_turns([shipped, other], filled, QUERIES, turns)
    return {query: _ratios(by["penstock"], by["without"]) for query, by in measured.items()}


def _ratios(ours: Measured, other: Measured) -> dict[str, float]:
    rows, saved = ours.per_second / other.per_second, other.cpu_per_million / ours.cpu_per_million
    return {"rows": round(rows, 2), "cpu": round(saved, 2)}


def write(page: Path, found: dict[str, dict[str, dict[str, float]]], told: str) -> None:
    """Put the table between its marks, and what was measured below it."""
    lines = [f"| our setting | {' | '.join(QUERIES)} |", "|---" * (len(QUERIES) + 1) + "|"]
    lines += [f"| {name} | {' | '.join(map(_cell, by.values()))} |" for name, by in found.items()]
    put(page, "measured", [*lines, "", told])


def _cell(one: dict[str, float]) -> str:
    return f"{one['rows']:.2f} / {one['cpu']:.2f}"


if __name__ == "__main__":
    main()
