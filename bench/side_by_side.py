"""Nexmark's queries on Penstock, hand-written PySpark, Flink SQL, Quix Streams, Bytewax and Pathway, in one run.

A time counts only if the answer is the right one. Every engine is a process that lives through the run; they take
turns at each query, the first of which warms up. `--full` measures all that docs/benchmarks.md shows.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[0] = str(ROOT)  # else platform.py beside this file stands for Python's own of that name
EXAMPLES = ROOT / "examples" / "nexmark"
sys.path.insert(1, str(EXAMPLES))

import argparse
import json
import statistics
import tempfile
from contextlib import ExitStack
from typing import TYPE_CHECKING

from bench.nexmark.answers import COLUMNS
from bench.nexmark.engines import Engine
from bench.nexmark.latency import Latency, latency
from bench.nexmark.starting import first_row
from bench.nexmark.throughput import Filled, Measured, in_turns
from bench.peers.install import NAMES, installed
from penstock.local.jars import JarStore
from penstock.local.progress import Silent
from penstock.local.stack import Stack
from penstock.settings import load

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bench.peers.install import Installed
    from penstock.settings import Settings

SHORT = ("q1", "q5", "q17")
KINDS = ("stateless", "windowed")


def main() -> None:
    """Measure, show, end with the result."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--rows", type=int, default=1_000_000)
    words.add_argument("--turns", type=int, default=3)
    words.add_argument("--queries", nargs="+")
    words.add_argument("--peers", nargs="+", default=list(NAMES))
    words.add_argument("--format", default="json")
    words.add_argument("--seconds", type=float, default=60.0, help="of each latency")
    words.add_argument("--full", action="store_true")
    words.add_argument("--only", choices=("throughput", "latency", "start"), nargs="+")
    given = words.parse_args()
    parts = given.only or ("throughput", "latency", "start")
    told: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as place, ExitStack() as held:
        folder = Path(place)
        settings = _services(folder, held, given.format)
        filled = _filled(settings, folder, given.format, given.rows)
        there = [one for one in map(installed, given.peers) if one is not None]
        if "throughput" in parts:
            queries = given.queries or (list(COLUMNS) if given.full else SHORT)
            told |= _throughput(there, filled, folder, queries, given.turns)
        if "latency" in parts:
            told |= _latencies(there, settings, folder, given.seconds, (1000, 10_000) if given.full else (1000,))
        if "start" in parts:
            command = [str(Path(sys.executable).with_name("penstock")), "run", str(EXAMPLES / "q1.py")]
            starts = [first_row(settings, command) for _ in range(given.turns)]
            print("first row after", [round(one, 1) for one in starts], "s", flush=True)
            told["first_row_s"] = round(statistics.median(starts), 1)
    print("RESULT", json.dumps(told))


def _services(folder: Path, held: ExitStack, form: str) -> Settings:
    """Kafka of its own, gone at the end."""
    JarStore().ensure(["spark"], Silent())
    stack = Stack(load(project=folder, profile="local"))
    held.callback(stack.down, Silent(), remove_data=True)
    stack.up(("kafka", "registry") if form == "avro" else ("kafka",), Silent())
    return load(project=folder, profile="local")


def _filled(settings: Settings, folder: Path, form: str, count: int) -> Filled:
    """So many rows for each query."""
    side = folder / "side.csv"
    side.write_text("".join(f"{key},value-{key}\n" for key in range(10_000)), encoding="utf-8")
    filled = Filled(settings, form, {"bid": count, "person": count // 4, "auction": count // 4 * 3}, side)
    for table, rate in filled.fill().items():
        print(f"sent {table}: {rate:,.0f} rows/s", flush=True)
    return filled


def _throughput(
    there: Sequence[Installed], filled: Filled, folder: Path, queries: Sequence[str], turns: int
) -> dict[str, float]:
    """All engines at all queries, and the ratios."""
    bootstrap = filled.settings.kafka.bootstrap
    with ExitStack() as held:
        engines = [held.enter_context(Engine(one, bootstrap, folder / f"{one.name}.log")) for one in there]
        found = in_turns(engines, filled, queries, turns)
    spark, flink = _ratios(found, "spark"), _ratios(found, "flink")
    for query in found:
        print(
            query, {name: round(of[query], 2) for name, of in (("vs spark", spark), ("vs flink", flink)) if query in of}
        )
    return {
        "vs_spark": _mean(spark.values()),
        "vs_flink": _mean(flink.values()),
        "worst_vs_flink": round(min(flink.values(), default=0.0), 3),
    }


def _latencies(
    there: Sequence[Installed], settings: Settings, folder: Path, seconds: float, rates: Sequence[int]
) -> dict[str, float]:
    """Ours in both modes, and Flink's, at the same load."""
    found: dict[tuple[str, str, int], Latency] = {}
    ways = [("penstock", "realtime"), ("penstock", "micro-batch"), ("flink", "flink")]
    for name, way in ways:
        one = next((one for one in there if one.name == name), None)
        if one is None:
            continue
        words = ["--realtime"] if way == "realtime" else []
        with Engine(one, settings.kafka.bootstrap, folder / f"{way}.log", *words) as engine:
            for kind in KINDS:
                for rate in rates:
                    measured = latency(engine, settings, kind, rate, seconds, latency=way)
                    found[way, kind, rate] = measured
                    print(f"{way:11} {kind:9} {rate:6} rows/s: {measured}", flush=True)
    told = {}
    for kind, key in (("stateless", "realtime_stateless_p99_vs_flink"), ("windowed", "realtime_window_p99_vs_flink")):
        ours, theirs = found.get(("realtime", kind, rates[0])), found.get(("flink", kind, rates[0]))
        if ours and theirs:
            told[key] = round(ours.p99 / theirs.p99, 2)
        if ours:
            told[f"{kind}_boundary_pause_ms"] = ours.pause
    if told:
        told["boundary_pause_ms"] = max(value for key, value in told.items() if key.endswith("_pause_ms"))
    return told


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
