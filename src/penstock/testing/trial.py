"""A pipeline on trial: given rows at virtual times, expected to give others."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.connectors.base import Context
from penstock.errors import DeclarationError
from penstock.local.jars import JarStore
from penstock.local.progress import Silent
from penstock.pipeline.compile import compile_pipeline
from penstock.pipeline.dead_letters import DeadLetters
from penstock.pipeline.run import Running
from penstock.pipeline.session import open_session
from penstock.settings import load
from penstock.testing.connectors import GivenRows, KeptRows
from penstock.testing.marks import CRASH, END, PAUSE, Mark

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import TracebackType
    from typing import Self

    from pyspark.sql import SparkSession

    from penstock.pipeline.declare import Pipeline
    from penstock.pipeline.plan import Plan

__all__ = ["Trial"]

_DAY = datetime(2026, 1, 1, tzinfo=UTC)
_FAR = timedelta(days=3650)
_EXCLUDED = "spark.sql.optimizer.excludedRules"
_PUSH_DOWN = "org.apache.spark.sql.catalyst.optimizer.PushDownPredicates"


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
        self._sources: dict[str, GivenRows] = {}
        self._kept: dict[str, KeptRows] = {}
        self._dead: dict[tuple[str, int], list[dict[str, Any]]] = {}
        self._plan = self._on_memory(compile_pipeline(pipeline))
        self._times = {one.name: one.time.column for one in self._plan.sources if one.time}
        self._running: Running | None = None

    def given(self, source: str, rows: Sequence[dict[str, Any] | Mark], at: str | datetime | None = None) -> Self:
        """Give rows to a source; those without an event time get the time `at`."""
        connector = self._known(source)
        time = self._times.get(source)
        stamp = {time: _moment(at).isoformat()} if at is not None and time else {}
        batch: list[dict[str, Any]] = []
        for item in (*rows, PAUSE):
            if not isinstance(item, Mark):
                batch.append({**stamp, **item})
                continue
            if batch:
                connector.add(batch)
                batch = []
                self._process()
            if item is CRASH:
                self.crash()
            elif item is END:
                self.end()
        return self

    def advance(self, to: str | datetime) -> Self:
        """Move event time of every source without giving a row."""
        for name, column in self._times.items():
            self._sources[name].add([], (column, _moment(to)))
        self._process()
        return self

    def end(self) -> Self:
        """Move event time past everything, so that all windows close."""
        return self.advance(_DAY + _FAR)

    def crash(self) -> Self:
        """Lose everything but the checkpoint, and start again."""
        if self._running is not None:
            self._running.abandon()
            self._running = None
        return self

    def rows(self, flow: str) -> list[dict[str, Any]]:
        """What a flow has given so far."""
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
        missing = [row for row in want if row not in found]
        extra = [row for row in found if row not in want]
        if missing or extra or len(want) != len(found):
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
        if self._running is None:
            self._running = self._begin()
        self._running.process_all()

    def _begin(self) -> Running:
        """Start without the rule that moves filters below the watermark: a flow's filter would eat the ticks there."""
        conf = self._context.spark.conf
        before = conf.get(_EXCLUDED, "")
        conf.set(_EXCLUDED, _PUSH_DOWN)
        try:
            return Running(self._plan, self._context, {"processingTime": "0 seconds"}, self._letters).begin()
        finally:
            conf.set(_EXCLUDED, before or "")

    def _letters(self, *known: Any) -> DeadLetters:
        kept = self._dead

        class Kept(DeadLetters):
            """Dead letters kept here instead of in Kafka."""

            def publish(self, record: dict[str, Any]) -> int:
                """Keep a batch's letters; one that comes again takes the place of its first try."""
                found = [letter for _, letter in self.letters(record)]
                kept[self.query.name, record["batch"]] = found
                return len(found)

        return Kept(*known)

    def _on_memory(self, plan: Plan) -> Plan:
        sources = []
        for source in plan.sources:
            folder = Path(self._folder.name) / "given" / source.name
            folder.mkdir(parents=True)
            self._sources[source.name] = GivenRows(source.name, source.connector, str(folder))
            sources.append(replace(source, connector=self._sources[source.name]))
        queries = []
        for query in plan.queries:
            kept = self._kept.setdefault(query.output, KeptRows(query.sink.connector))
            if kept.real is query.sink.connector:
                queries.append(replace(query, sink=replace(query.sink, connector=kept)))
        return replace(plan, sources=tuple(sources), queries=tuple(queries))

    def _known(self, source: str) -> GivenRows:
        if source not in self._sources:
            raise DeclarationError(
                f"The pipeline has no source {source!r}.",
                code="trial-unknown",
                remedy=f"Give rows to one of {', '.join(sorted(self._sources))}.",
            )
        return self._sources[source]


def _session() -> SparkSession:
    """The session of the process, with the jars that a real source needs to tell its columns."""
    store = JarStore()
    store.ensure(["spark"], Silent())
    return open_session("trial", store.paths("spark"))


def _moment(when: str | datetime) -> datetime:
    """`10:00` on the day of the trial, or a whole ISO time."""
    if isinstance(when, datetime):
        return when
    if len(when) <= 8:
        return datetime.combine(_DAY, datetime.strptime(when, "%H:%M" if len(when) == 5 else "%H:%M:%S").time(), UTC)
    made = datetime.fromisoformat(when)
    return made if made.tzinfo else made.replace(tzinfo=UTC)
