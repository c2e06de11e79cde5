"""One query while it runs: how it is started, and what it has told so far."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from penstock.connectors.base import BestEffortSink
from penstock.pipeline import progress
from penstock.pipeline.build import Build
from penstock.pipeline.checkpoint import watermark_of, with_logs
from penstock.pipeline.commit import Commit, Terms
from penstock.pipeline.durations import seconds
from penstock.pipeline.freshness import freshness_of
from penstock.pipeline.idle import IdleClock
from penstock.pipeline.pace import Pace
from penstock.pipeline.plain_windows import with_plain_windows
from penstock.pipeline.state import kept_of_windows
from penstock.pipeline.ticks import EXCLUDED, PUSH_DOWN, Ticks

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql.conf import RuntimeConfig
    from pyspark.sql.streaming import StreamingQuery

    from penstock.pipeline.dead_letters import DeadLetters
    from penstock.pipeline.plan import Query

__all__ = ["Live"]

_STORE = "spark.sql.streaming.stateStore.providerClass"
_MEMORY = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
_REALTIME_BATCH = "3 minutes"  # at its end rows wait, up to a second; its records and dead letters come then


class Live:
    """A query, its stream, its publisher, its last record and its totals."""

    stream: StreamingQuery
    letters: DeadLetters

    def __init__(
        self,
        query: Query,
        build: Build,
        folder: Path,
        counted: set[str],
        known: list[dict[str, Any]],
        terms: Terms,
        *,
        always: bool = False,
    ) -> None:
        self.query = query
        self.tries = 0
        self.last: dict[str, Any] | None = None
        self.totals: Counter[str] = Counter()
        self._build = build
        self._checkpoint = folder / "checkpoint"
        self._windows = kept_of_windows(folder)
        self._counted = counted
        self._sources = [one for one in build.graph.sources if one.name in query.sources]
        self._ticks = Ticks(folder / "ticks", always=always)
        self._idle = IdleClock(self._sources, known)
        self._pace = Pace(known)
        self.commit = Commit(build, query, folder, counted, terms)
        self._watermark = watermark_of(self._checkpoint)

    @property
    def in_batch(self) -> bool:
        """Whether it works on a batch right now."""
        return bool(self.stream.isActive and self.stream.status["isTriggerActive"])

    @property
    def batch(self) -> int:
        """The last batch that has ended."""
        last = self.stream.lastProgress
        return int(last["batchId"]) if last else -1

    def start(self, trigger: dict[str, Any]) -> None:
        """Start it from its checkpoint."""
        query, build = self.query, self._build
        realtime = query.realtime and "availableNow" not in trigger
        context = replace(build.context, realtime=realtime, pace=self._pace.rows)
        made = Build(build.graph, context, build.delays)
        rows = made.streams(build.graph.needed(query.root), self._counted, self._ticks)[query.root]
        if query.state and self._windows:
            rows = with_plain_windows(rows, self._windows)
        usual = f"{build.graph.name}/{query.name}"
        sink = query.streamed
        if sink is not None:
            assert isinstance(sink.connector, BestEffortSink)
            writer = sink.connector.write(rows, context).queryName(sink.connector.query_name(usual))
        else:
            writer = rows.writeStream.foreachBatch(self.commit).queryName(usual)
        if context.realtime:
            every = trigger["processingTime"]
            trigger = {"realTime": every if (seconds(every) or 0) > 0 else _REALTIME_BATCH}
        writer = writer.outputMode(query.mode).option("checkpointLocation", str(self._checkpoint))
        with _set(context.spark.conf, self._own_settings()):
            self.stream = writer.trigger(**trigger).start()

    def _own_settings(self) -> dict[str, str]:
        """What Spark is told for this query alone."""
        excluded = {EXCLUDED: PUSH_DOWN} if any(map(self._ticks.wanted, self._sources)) else {}
        return excluded | ({_STORE: _MEMORY} if self.query.store == "memory" else {})

    def publish(self, record: dict[str, Any]) -> None:
        """Publish the dead and late rows of a batch that has ended."""
        self.letters.publish(with_logs(record, self._checkpoint))

    def take(self, told: dict[str, Any]) -> dict[str, Any] | None:
        """Make a record of what Spark tells of a batch; None if it was no batch."""
        record = progress.record_of(told)
        if record["duration_ms"].get("addBatch") is None:
            return None
        after = self.commit.observed(record["batch"])
        dead, warned = progress.counts_of(after)
        record["freshness"] = freshness_of(told.get("observedMetrics", {}), *self._times(told))
        record["dead"] |= dead
        record["warned"] |= warned
        record["failed"] |= progress.failed_in(after)
        self.tries = 0
        record["watermark_before"], self._watermark = self._watermark, record["watermark"]
        self.last = record
        self.commit.behind = progress.behind(record)
        self._pace.heard(record)
        count = sum(sum(counts.values()) for counts in record["dead"].values())
        self.totals.update(batches=1, rows=record["rows"], dead=count, late=record["late"])
        self._idle.heard(record, self._rows_by_source(record))
        return record

    def _times(self, told: dict[str, Any]) -> tuple[float, float]:
        """When a batch began, and when the last sink had it."""
        begun = datetime.fromisoformat(told["timestamp"]).timestamp()
        took = told["durationMs"].get("triggerExecution", 0) / 1000
        return begun, self.commit.ended.pop(told["batchId"], begun + took)

    def tick_all(self, moment: datetime) -> None:
        """Move the time of all sources."""
        for source in self._sources:
            if self._ticks.wanted(source):
                self._ticks.add(source.name, moment)

    def move_idle(self) -> None:
        """Move the time of the sources that are silent; while a batch is worked on nobody knows whether they are."""
        if self._idle.watches and not self.in_batch:
            for name, moment in self._idle.due():
                self._ticks.add(name, moment)

    def _rows_by_source(self, record: dict[str, Any]) -> dict[str, int]:
        told = with_logs(record, self._checkpoint)["sources"]
        return {
            source.name: sum(one["rows"] for one in told if one["end"] and source.connector.recognises(one))
            for source in self._sources
            if source.time and source.time.idle
        }


@contextmanager
def _set(conf: RuntimeConfig, settings: dict[str, str]) -> Iterator[None]:
    """Have settings of the session while a query starts, which takes a copy of them."""
    before = {name: conf.get(name, None) for name in settings}
    for name, value in settings.items():
        conf.set(name, value)
    try:
        yield
    finally:
        for name, known in before.items():
            conf.unset(name) if known is None else conf.set(name, known)
