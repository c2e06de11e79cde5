"""Rows a second from a filled topic to a Kafka sink: every engine, every query, in turns, answers compared first."""

from __future__ import annotations

import statistics
import tempfile
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from generate import fill, topic_of
from nexmark import Shape, end_of, rows

from bench.nexmark.answers import Answer, answer_in, expected
from penstock.broker import Topics

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from bench.nexmark.engines import Cost, Engine
    from penstock.settings import Settings

__all__ = ["Filled", "Measured", "in_turns", "once"]

PARTITIONS = 4  # of the answers' topics, and usually of the rows' too
_SLOW = 4.0
TABLES = {"q8": ("person", "auction")}


@dataclass(frozen=True)
class Filled:
    """Filled topics, and the answers that follow from what is in them."""

    settings: Settings
    form: str
    rows: dict[str, int]
    side: Path
    shape: Shape = field(default_factory=Shape)
    known: dict[str, Answer] = field(default_factory=dict)
    partitions: int = PARTITIONS
    name: str = field(default_factory=lambda: uuid.uuid4().hex[:8])

    def fill(self) -> dict[str, float]:
        """Send all rows; the rate of each table."""
        return {
            table: count
            / fill(self.settings, table, self.form, count, self.shape, self.partitions, topic=self.topic(table))
            for table, count in self.rows.items()
        }

    def topic(self, table: str) -> str:
        """Where a table's rows are."""
        return f"{topic_of(table, self.form)}-{self.name}"

    def request(self, query: str) -> dict[str, Any]:
        """What an engine is asked, but for the sink and the folder."""
        sources = {table: self.topic(table) for table in self.tables(query)}
        return {
            "query": query,
            "sources": sources,
            "format": self.form,
            "side": str(self.side),
            "registry": self.settings.registry.url if self.form == "avro" else None,
        }

    def tables(self, query: str) -> tuple[str, ...]:
        """What a query reads."""
        return TABLES.get(query, ("bid",))

    def count(self, query: str) -> int:
        """How many rows a query reads."""
        return sum(self.rows[table] for table in self.tables(query))

    def answer(self, query: str, every_ms: int | None = None) -> Answer:
        """What it must answer."""
        asked = f"{query} {every_ms}"
        if asked not in self.known:
            tables = {table: self._all(table) for table in self.tables(query)}
            self.known[asked] = expected(query, tables, every_ms)
        return self.known[asked]

    def _all(self, table: str) -> pa.Table:
        last = [end_of(table, self.shape)] * self.partitions
        return pa.concat_tables([rows(table, 0, self.rows[table], self.shape), *last])


@dataclass
class Measured:
    """What the turns of one engine at one query cost."""

    rows: int
    costs: list[Cost] = field(default_factory=list)
    wrong: str = ""
    warming: float = 0.0

    @property
    def per_second(self) -> float:
        """Rows a second, by the median."""
        return self.rows / statistics.median(one.seconds for one in self.costs)

    @property
    def cpu_per_million(self) -> float:
        """Seconds of CPU for a million rows, by the median."""
        return statistics.median(one.cpu_seconds for one in self.costs) / self.rows * 1e6

    @property
    def peak_mib(self) -> int:
        """The most memory of all turns."""
        return max(one.peak_mib for one in self.costs)


def once(engine: Engine, filled: Filled, query: str, *, check: bool = False, **more: Any) -> Cost:
    """One request with a sink of its own; with `check` its answer must be the right one."""
    sink = f"answer-{query}-{uuid.uuid4().hex[:8]}"
    topics = Topics(filled.settings.kafka)
    topics.create(sink, partitions=PARTITIONS)
    try:
        with tempfile.TemporaryDirectory() as folder:
            cost = engine.ask({**filled.request(query), "sink": sink, "folder": folder, **more})
        if check:
            found, right = (
                answer_in(query, filled.settings.kafka.bootstrap, sink),
                filled.answer(query, every_ms=more.get("every_ms")),
            )
            if found != right:
                raise RuntimeError(f"{engine.name} answers {query} with {found}, right is {right}")
    finally:
        topics.delete(sink)
    return cost


def in_turns(
    engines: Sequence[Engine], filled: Filled, queries: Sequence[str], turns: int, warm: int = 1, **more: Any
) -> dict[str, dict[str, Measured]]:
    """By query and engine; turns that warm up, the first answer of which is compared, then those that count.

    An engine that took four times as long as the quickest for the first turn of a query gets one that counts.
    """
    found: dict[str, dict[str, Measured]] = {}
    for query in queries:
        able = [one for one in engines if query in one.queries]
        found[query] = {one.name: Measured(filled.count(query)) for one in able}
        for turn in range(warm + turns):
            quickest = min((one.warming for one in found[query].values() if one.warming), default=0.0)
            for engine in able[turn % len(able) :] + able[: turn % len(able)]:
                measured = found[query][engine.name]
                slow = turn not in (0, warm) and measured.warming > _SLOW * quickest
                if not measured.wrong and not slow:
                    _turn(engine, filled, query, measured, check=turn == 0, counts=turn >= warm, **more)
    return found


def _turn(
    engine: Engine, filled: Filled, query: str, measured: Measured, *, check: bool, counts: bool, **more: Any
) -> None:
    try:
        cost = once(engine, filled, query, check=check, **more)
    except RuntimeError as error:
        measured.wrong = str(error)
        print(f"{query:4} {engine.name:9} {error}", flush=True)
        return
    told = f"{measured.rows / cost.seconds / 1000:7.0f} k rows/s {cost.cpu_seconds:6.1f} s CPU {cost.peak_mib:6} MiB"
    print(f"{query:4} {engine.name:9} {told}{'' if counts else '  (warming up)'}", flush=True)
    measured.warming = measured.warming or cost.seconds
    if counts:
        measured.costs.append(cost)
