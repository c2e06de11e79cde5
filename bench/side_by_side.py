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
import signal
import statistics
import tempfile
from contextlib import ExitStack
from itertools import product
from typing import Any

from bench.nexmark.answers import QUERIES
from bench.nexmark.engines import Engine
from bench.nexmark.latency import Turn, figures, latency
from bench.nexmark.outage import catch_up
from bench.nexmark.report import Report
from bench.nexmark.slopes import slopes
from bench.nexmark.starting import first_row
from bench.nexmark.throughput import Filled, in_turns
from bench.peers.install import NAMES, Installed, installed
from bench.stolen import Stolen
from penstock.local.jars import JarStore
from penstock.local.progress import Silent
from penstock.local.stack import Stack
from penstock.settings import load

PARTS = ("throughput", "avro", "exactly-once", "latency", "catch-up", "slopes", "start")
SHORT = ("throughput", "latency", "start")
SHORT_PEERS = ("penstock", "spark", "flink")
SHORT_QUERIES = ("q1", "q5", "q17")
BESIDE = ("q1", "q5", "q17")  # what Avro and exactly-once are shown with
BATCH_SECONDS = 180  # of real-time mode, its own
SHORT_BATCH_SECONDS = 75
RATES = (1000, 10_000)  # rows a second
KINDS = ("stateless", "windowed")
WAYS = (("penstock", "realtime"), ("penstock", "micro-batch"), ("flink", "flink"))


def main() -> None:
    """Measure, show, end with the result."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--rows", type=int, help="of the bids, and of the people and auctions together")
    words.add_argument("--turns", type=int, default=3)
    words.add_argument("--warm", type=int, help="turns before those that count: one, all that is measured three")
    words.add_argument("--queries", nargs="+")
    words.add_argument("--peers", nargs="+", choices=NAMES, help="all, or in a short run ours, PySpark and Flink")
    words.add_argument("--rates", type=int, nargs="+", help="rows a second of the latencies")
    words.add_argument("--slopes", nargs="+", default=["rows", "keys", "partitions", "windows"])
    words.add_argument("--full", action="store_true", help="all queries and parts; about two hours")
    words.add_argument("--only", choices=PARTS, nargs="+")
    words.add_argument("--out", type=Path, default=ROOT / ".bench", help="the folder of JSON and charts")
    given = words.parse_args()
    given.rows = given.rows or (1_000_000 if given.full else 300_000)
    given.warm = given.warm or (3 if given.full else 1)
    given.peers = given.peers or (NAMES if given.full else SHORT_PEERS)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that its services and engines end with it
    with tempfile.TemporaryDirectory() as place, ExitStack() as held:
        bench = Bench(given, Path(place), held)
        try:
            for part in given.only or (PARTS if given.full else SHORT):
                bench.do(part)
        finally:
            bench.report.show()
            bench.report.write(given.out, bench.result)
    print("RESULT", json.dumps(bench.result))


class Bench:
    """One run: services of its own, the peers that can be had, and what was found so far."""

    def __init__(self, given: argparse.Namespace, folder: Path, held: ExitStack) -> None:
        self.report = Report()
        self.result: dict[str, float] = {}
        self._given = given
        self._folder = folder
        self._peers = [one for one in map(installed, given.peers) if one is not None]
        JarStore().ensure(["spark"], Silent())
        stack = Stack(load(project=folder, profile="local"))
        held.callback(stack.down, Silent(), remove_data=True)
        stack.up(("kafka", "registry"), Silent())
        self._settings = load(project=folder, profile="local")
        self._side = folder / "side.csv"
        self._side.write_text("".join(f"{key},value-{key}\n" for key in range(10_000)), encoding="utf-8")
        self._filled: dict[str, Filled] = {}

    def do(self, part: str) -> None:
        """Measure one part."""
        print(f"== {part}", flush=True)
        try:
            with Stolen() as stolen:
                self._do(part)
        finally:
            self.report.told.setdefault("stolen", {})[part] = stolen.share

    def _do(self, part: str) -> None:
        {
            "throughput": self._throughput,
            "avro": lambda: self._beside("Avro", "avro", ("penstock", "flink")),
            "exactly-once": lambda: self._beside("exactly-once", "json", ("penstock",), guarantee="exactly-once"),
            "latency": self._latencies,
            "catch-up": self._outages,
            "slopes": self._slopes,
            "start": self._starts,
        }[part]()

    def _throughput(self) -> None:
        """All engines at all queries, and the ratios."""
        queries = self._given.queries or (QUERIES if self._given.full else SHORT_QUERIES)
        of = self._measured("JSON", "json", queries, [one.name for one in self._peers])
        for other in ("spark", "flink"):
            found = self.report.ratios(of, other)
            if found:
                self.result[f"vs_{other}"] = round(statistics.geometric_mean(found.values()), 3)
        if found:
            self.result["worst_vs_flink"] = round(min(found.values()), 3)
        if beside := self.report.over_python(of):
            self.result["worst_vs_python"] = round(min(beside.values()), 2)

    def _beside(self, of: str, form: str, names: tuple[str, ...], **more: Any) -> None:
        self._measured(of, form, self._given.queries or BESIDE, names, **more)

    def _measured(self, of: str, form: str, queries: Any, names: Any, **more: Any) -> str:
        """What it is called in the report."""
        filled = self._rows(form)
        of = f"{of}, {self._given.rows:,} rows"
        with ExitStack() as held:
            engines = [held.enter_context(self._engine(one)) for one in self._peers if one.name in names]
            self.report.told["versions"] |= {one.name: one.version for one in engines}
            self.report.throughput(of, in_turns(engines, filled, queries, self._given.turns, self._given.warm, **more))
        return of

    def _rows(self, form: str) -> Filled:
        """Filled topics."""
        if form not in self._filled:
            count = self._given.rows
            rows = {"bid": count, "person": count // 4, "auction": count // 4 * 3}
            self._filled[form] = filled = Filled(self._settings, form, rows, self._side)
            rates = {table: round(rate) for table, rate in filled.fill().items()}
            self.report.told.setdefault("generator", {})[form] = rates
            print("sent, rows/s:", rates, flush=True)
        return self._filled[form]

    def _latencies(self) -> None:
        """Ours in both modes, and Flink's, at the same load, one right after the other."""
        full = self._given.full
        rates = self._given.rates or (RATES if full else RATES[:1])
        with ExitStack() as held:
            ways = self._ways(WAYS if full else (WAYS[0], WAYS[2]))
            engines = [(way, held.enter_context(engine)) for way, engine in ways]
            for rate in rates:
                self._latency(rate, engines)
        self._compare_latencies()

    def _latency(self, rate: int, engines: list[tuple[str, Engine]]) -> None:
        """The engines take turns."""
        found: dict[tuple[str, str], list[Turn]] = {}
        for _, kind, (way, engine) in product(range(self._repeats(rate)), KINDS, engines):
            more: dict[str, Any] = {"every": f"{self._batch} seconds"} if way == "realtime" else {}
            warm = 30.0 if self._given.full else 20.0
            turn = latency(engine, self._settings, kind, rate, self._seconds(way), warm, latency=way, **more)
            found.setdefault((way, kind), []).append(turn)
            print(f"{way:11} {kind:9} {rate:6} rows/s: {figures([turn])}", flush=True)
        for (way, kind), turns in found.items():
            self.report.latency(way, kind, rate, figures(turns))

    @property
    def _batch(self) -> int:
        """Seconds of a batch of real-time mode: shorter in a short run, so that its end is seen."""
        return BATCH_SECONDS if self._given.full else SHORT_BATCH_SECONDS

    def _seconds(self, way: str) -> float:
        """How long it is looked at: real-time mode for a whole batch, so that its pause has the usual share or more."""
        if way == "realtime":
            return self._batch + 2.0
        return 60.0 if self._given.full else 20.0

    def _repeats(self, rate: int) -> int:
        """How often, and so how many ends of batches: three are the least for the longest wait of a thousand."""
        return int(self._given.turns) if self._given.full and rate == RATES[0] else 1

    def _compare_latencies(self) -> None:
        of = {(one["way"], one["kind"]): one for one in self.report.told["latency"] if one["rate"] == RATES[0]}
        for kind, key in (("stateless", "stateless"), ("windowed", "window")):
            ours, theirs = of.get(("realtime", kind)), of.get(("flink", kind))
            if ours and theirs:
                self.result[f"realtime_{key}_p99_vs_flink"] = round(ours["p99"] / theirs["p99"], 2)
            if ours and ours["pauses"]:
                longest = sorted(ours["pauses"])[-self._repeats(RATES[0]) :]
                self.result[f"boundary_pause_{kind}_ms"] = round(statistics.median(longest), 1)
        pauses = [value for key, value in self.result.items() if key.startswith("boundary_pause_")]
        self.result["boundary_pause_ms"] = max(pauses, default=0.0)

    def _outages(self) -> None:
        rate, outage = 5000, 30.0
        for way, engine in self._ways(WAYS):
            with engine:
                took = catch_up(engine, self._settings, rate, outage, latency=way)
            told = {"way": way, "backlog": round(rate * outage), "seconds": took}
            self.report.told.setdefault("catch_up", []).append(told)
            print(f"{way:11} caught up after {took:.1f} s", flush=True)

    def _slopes(self) -> None:
        with ExitStack() as held:
            names = ("penstock", "flink")
            engines = [held.enter_context(self._engine(one)) for one in self._peers if one.name in names]
            given = self._given
            for step in slopes(engines, self._settings, self._side, given.slopes, given.turns, full=given.full):
                self.report.slope(step)
                print(f"{step.slope} {step.count:,} {step.engine}: {step.micros:.2f} µs of CPU a row", flush=True)

    def _starts(self) -> None:
        self._rows("json")
        topic = self._filled["json"].topic("bid")
        command = [str(Path(sys.executable).with_name("penstock")), "run", str(EXAMPLES / "q1.py")]
        starts = [first_row(self._settings, command, NEXMARK_BID=topic) for _ in range(self._given.turns)]
        print("first row after", [round(one, 1) for one in starts], "s", flush=True)
        self.report.told["first_row_s"] = starts
        self.result["first_row_s"] = round(statistics.median(starts), 1)

    def _ways(self, ways: Any) -> Any:
        """An engine for each way to run a live query."""
        for name, way in ways:
            for one in self._peers:
                if one.name == name:
                    yield way, self._engine(one, *(["--realtime"] if way == "realtime" else []))

    def _engine(self, one: Installed, *words: str) -> Engine:
        return Engine(one, self._settings.kafka.bootstrap, self._folder / f"{one.name}{''.join(words)}.log", *words)


if __name__ == "__main__":
    main()
