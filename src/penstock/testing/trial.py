"""A pipeline on trial: given rows at virtual times, expected to give others."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.connectors.base import ORIGIN, Context
from penstock.errors import DeclarationError
from penstock.local.jars import JarStore
from penstock.local.progress import Silent
from penstock.pipeline.compile import compile_graph, declared
from penstock.pipeline.dead_letters import DeadLetters
from penstock.pipeline.declare import LATE
from penstock.pipeline.refusals import refuse_clock
from penstock.pipeline.replay import SAID
from penstock.pipeline.run import Running
from penstock.pipeline.session import open_session
from penstock.settings import find_project, load
from penstock.testing.connectors import GivenRows, KeptRows, given_rows, plain
from penstock.testing.marks import CRASH, END, PAUSE, Mark
from penstock.testing.moments import DAY, moment

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from types import TracebackType
    from typing import Self

    from pyspark.sql import SparkSession

    from penstock.connectors.writing import Letter
    from penstock.pipeline.declare import Pipeline, Sink, Source, Table
    from penstock.pipeline.plan import Graph
    from penstock.pipeline.replay import Found

__all__ = ["Trial"]

_FAR = timedelta(days=3650)


class Trial:
    """A context manager that runs a pipeline on rows from memory.

    `with Trial(shop) as trial:` then `trial.given("orders", rows, at="10:00")`, `trial.advance("10:30")`,
    `trial.expect("order_metrics", [...])`. Rows may have PAUSE, CRASH and END between them.
    """

    def __init__(self, pipeline: Pipeline, spark: SparkSession | None = None) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="penstock-trial-", ignore_cleanup_errors=True)
        place = Path(self._folder.name)
        session = spark or _session()
        self._context = Context(session, replace(load(project=place, profile="local"), project=place))
        self._given: dict[str, GivenRows] = {}
        self._kept: dict[str, KeptRows] = {}
        self._dead: dict[tuple[str, int], list[dict[str, Any]]] = {}
        self._running: Running | None = None
        try:
            graph = declared(pipeline)
            refuse_clock(graph, "A trial")
            graph = self._on_memory(graph)
            plan = compile_graph(graph, self._context)
        except BaseException:
            self._folder.cleanup()
            raise
        self._plan = replace(plan, queries=tuple(replace(one, latency="micro-batch") for one in plan.queries))
        self._times = {one.name: one.time.column for one in graph.sources if one.time}

    def given(self, source: str, rows: Sequence[dict[str, Any] | Mark], at: str | datetime | None = None) -> Self:
        """Give rows to a source or table; those of a source without an event time get the time `at`."""
        connector = self._known(source)
        time = self._times.get(source)
        stamp = {time: moment(at).isoformat()} if at is not None and time else {}
        batch: list[dict[str, Any]] = []
        for item in (*rows, PAUSE):
            if not isinstance(item, Mark):
                batch.append({**stamp, **item})
                continue
            if batch:
                connector.add(batch)
                batch = []
                if self._plan.graph.source(source):
                    self._process()
            if item is CRASH:
                self.crash()
            elif item is END:
                self.end()
        return self

    def advance(self, to: str | datetime) -> Self:
        """Move event time of every source without giving a row."""
        self._begun().tick(moment(to))
        self._process()
        return self

    def end(self) -> Self:
        """Move event time past everything, so that all windows close."""
        return self.advance(DAY + _FAR)

    def crash(self) -> Self:
        """Lose everything but the checkpoint, and start again."""
        if self._running is not None:
            self._running.abandon()
            self._running = None
        return self

    def rows(self, flow: str) -> list[dict[str, Any]]:
        """What a flow has given so far."""
        if flow.endswith(LATE) and self._running is not None:
            self._running.settle()
        if flow not in self._kept:
            raise DeclarationError(
                f"No sink hangs on {flow!r}.",
                code="trial-unknown",
                remedy=f"Ask for one of {', '.join(sorted(self._kept))}.",
            )
        return self._kept[flow].rows()

    def dead(self, stage: str | None = None) -> list[dict[str, Any]]:
        """The dead letters so far, of one source or flow if named."""
        if self._running is not None:
            self._running.settle()
        every = [letter for letters in self._dead.values() for letter in letters]
        return [letter for letter in every if stage in (None, letter["stage"])]

    def expect(self, flow: str, wanted: Iterable[dict[str, Any]]) -> Self:
        """Fail unless a flow has given exactly these rows, in any order; only the columns named are compared."""
        want = list(wanted)
        names = sorted({name for row in want for name in row})
        found = [{name: row.get(name) for name in names} for row in self.rows(flow)]
        extra, missing = list(found), []
        for row in want:
            if row in extra:
                extra.remove(row)
            else:
                missing.append(row)
        if missing or extra:
            raise AssertionError(
                f"{flow} gave {len(found)} rows, expected {len(want)}\n"
                f"  missing: {missing}\n  not expected: {extra}\n  all: {found}"
            )
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.crash()
        self._folder.cleanup()

    def _process(self) -> None:
        self._begun().process_all()

    def _begun(self) -> Running:
        if self._running is None:
            trigger = {"processingTime": "0 seconds"}
            running = Running(self._plan, self._context, trigger, letters=self._letters, ticks_always=True)
            self._running = running.begin()
        return self._running

    def _letters(self, *known: Any) -> DeadLetters:
        kept, sinks = self._dead, self._kept

        class Kept(DeadLetters):
            """Dead letters kept here instead of in Kafka."""

            def publish(
                self, record: dict[str, Any], refused: Iterable[Letter] = (), more: Iterable[Found] = ()
            ) -> int:
                """Keep a batch's letters and late rows; a batch that comes again takes the place of its first try."""
                late: dict[str, list[dict[str, Any]]] = {}
                letters = []
                for topic, _, value in (*self._messages(record, more), *refused):
                    if topic == self.plan.dead_letters:
                        letters.append(value)
                    else:
                        late.setdefault(topic, []).append(value)
                for flow, rows in late.items():
                    sinks[flow].batches[record["batch"]] = rows
                kept[self.query.name, record["batch"]] = letters
                return len(letters)

            def late(self, found: Found, sink: Sink) -> Iterator[tuple[str, Any, Any]]:
                """Late rows as they are, under the name of what the sink hangs on."""
                for row in found.rows.drop(ORIGIN, SAID).collect():
                    yield sink.flow, None, plain(row.asDict(recursive=True))

        return Kept(*known)

    def _on_memory(self, graph: Graph) -> Graph:
        read: list[Source | Table] = [*graph.sources, *graph.tables]
        for one in read:
            self._given[one.name] = given_rows(one, self._beside(one))
        for sink in graph.sinks:
            self._kept.setdefault(sink.flow, KeptRows(sink.connector))
        return replace(
            graph,
            sources=tuple(replace(one, connector=self._given[one.name]) for one in graph.sources),
            tables=tuple(replace(one, connector=self._given[one.name]) for one in graph.tables),
            sinks=tuple(
                replace(one, connector=self._kept[one.flow])
                for one in graph.sinks
                if self._kept[one.flow].real is one.connector
            ),
        )

    def _beside(self, read: Source | Table) -> Context:
        """The project that it is declared in: its columns lie there in `schemas/`, its captures in penstock.toml."""
        project = find_project(Path(read.place.file).resolve().parent)
        return Context(self._context.spark, load(project=project, profile="local"))

    def _known(self, source: str) -> GivenRows:
        if source not in self._given:
            raise DeclarationError(
                f"The pipeline has no source or table {source!r}.",
                code="trial-unknown",
                remedy=f"Give rows to one of {', '.join(sorted(self._given))}.",
            )
        return self._given[source]


def _session() -> SparkSession:
    """The session of the process, with the jars that a real source needs to tell its columns."""
    store = JarStore()
    store.ensure(["spark"], Silent())
    return open_session("trial", store.paths("spark"), classes=store.classes)
