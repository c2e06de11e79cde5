"""Nexmark's queries on Penstock, hand-written PySpark, Flink SQL, Quix Streams, Bytewax and Pathway, in one run.

A time counts only if the answer is the right one. Every engine is a process that lives through the run; they take
turns at each query, the first of which warms up. `--full` measures all that docs/benchmarks.md shows.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[0] = str(ROOT)  # else platform.py beside this file stands for Python's own of that name
sys.path.insert(1, str(ROOT / "examples" / "nexmark"))

import argparse
import json
import statistics
import tempfile
from contextlib import ExitStack
from typing import TYPE_CHECKING

from bench.nexmark.engines import Engine
from bench.nexmark.throughput import Filled, Measured, in_turns
from bench.peers.install import NAMES, installed
from penstock.local.jars import JarStore
from penstock.local.progress import Silent
from penstock.local.stack import Stack
from penstock.settings import load

if TYPE_CHECKING:
    from collections.abc import Iterable

SHORT = ("q1", "q5", "q17")


def main() -> None:
    """Measure, show, end with the result."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--rows", type=int, default=1_000_000)
    words.add_argument("--turns", type=int, default=3)
    words.add_argument("--queries", nargs="+")
    words.add_argument("--peers", nargs="+", default=list(NAMES))
    words.add_argument("--format", default="json")
    words.add_argument("--full", action="store_true")
    given = words.parse_args()
    with tempfile.TemporaryDirectory() as place, ExitStack() as held:
        folder = Path(place)
        JarStore().ensure(["spark"], Silent())
        stack = Stack(load(project=folder, profile="local"))
        held.callback(stack.down, Silent(), remove_data=True)
        stack.up(("kafka", "registry") if given.format == "avro" else ("kafka",), Silent())
        settings = load(project=folder, profile="local")
        side = folder / "side.csv"
        side.write_text("".join(f"{key},value-{key}\n" for key in range(10_000)), encoding="utf-8")
        count = given.rows
        filled = Filled(settings, given.format, {"bid": count, "person": count // 4, "auction": count // 4 * 3}, side)
        for table, rate in filled.fill().items():
            print(f"sent {table}: {rate:,.0f} rows/s", flush=True)
        there = [one for one in map(installed, given.peers) if one is not None]
        engines = [
            held.enter_context(Engine(one, settings.kafka.bootstrap, folder / f"{one.name}.log")) for one in there
        ]
        queries = given.queries or (engines[0].queries if given.full else SHORT)
        found = in_turns(engines, filled, queries, given.turns)
    print("RESULT", json.dumps(result(found)))


def result(found: dict[str, dict[str, Measured]]) -> dict[str, float]:
    """The ratios of throughput."""
    spark, flink = _ratios(found, "spark"), _ratios(found, "flink")
    return {
        "vs_spark": _mean(spark.values()),
        "vs_flink": _mean(flink.values()),
        "worst_vs_flink": round(min(flink.values(), default=0.0), 3),
    }


def _ratios(found: dict[str, dict[str, Measured]], other: str) -> dict[str, float]:
    """Our throughput over that of another engine, by query."""
    both = {
        query: by for query, by in found.items() if all(by.get(name) and by[name].costs for name in ("penstock", other))
    }
    return {query: by["penstock"].per_second / by[other].per_second for query, by in both.items()}


def _mean(ratios: Iterable[float]) -> float:
    some = list(ratios)
    return round(statistics.geometric_mean(some), 3) if some else 0.0


if __name__ == "__main__":
    main()
