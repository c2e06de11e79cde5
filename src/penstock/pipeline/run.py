"""`start(plan) -> Running`: the queries of a plan, watched, restarted, stopped at a batch boundary."""

from __future__ import annotations

import json
import threading
import time
import uuid
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.connectors.base import MessageSink
from penstock.errors import CommitUnknownError, PenstockError, TransientError
from penstock.pipeline import progress
from penstock.pipeline.build import Build
from penstock.pipeline.captured import Captured
from penstock.pipeline.checkpoint import committed_without_record
from penstock.pipeline.commit import Terms
from penstock.pipeline.dead_letters import DeadLetters
from penstock.pipeline.failure import FAILURE, explained
from penstock.pipeline.java_end import JavaEndedError, telling_of_java
from penstock.pipeline.learn import learn_delays
from penstock.pipeline.live import Live
from penstock.pipeline.new_schemas import NewSchemas
from penstock.pipeline.publisher import Publisher
from penstock.pipeline.refusals import refuse_another_kafka, refuse_clock
from penstock.pipeline.slots import refuse_without_slots
from penstock.pipeline.state import PipelineState

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from penstock.connectors.base import Context
    from penstock.pipeline.learn import Learnt
    from penstock.pipeline.plan import Plan, Query

__all__ = ["Running", "start"]

_TRIES = 5
_STOP_SECONDS = 60.0
_LOOK_SECONDS = 0.2
_AGAIN_SECONDS = 2.0
_FIRST_BATCH_SECONDS = 10.0  # a query that takes longer for its first batch does not keep the next one waiting


class Running:
    """A started plan."""

    def __init__(
        self,
        plan: Plan,
        context: Context,
        trigger: dict[str, Any],
        *,
        letters: Callable[[Plan, Query, str, set[str], Context, str], DeadLetters] = DeadLetters,
        keep_state: bool = False,
        ticks_always: bool = False,
        adopt: bool = False,
    ) -> None:
        self.plan = plan
        self.state = PipelineState(context.settings.home, plan.name)
        self.context = context = replace(context, state=self.state.folder)
        self.learnt: dict[str, Learnt] = {}
        self.notes: list[str] = []
        self.captured = Captured(plan.graph, context, self.notes)
        self._schemas = NewSchemas(plan.graph, context, self.notes)
        self._letters = letters
        self._trigger = trigger
        self._keep_state = keep_state
        self._ticks_always = ticks_always
        self._adopt = adopt
        self._run = uuid.uuid4().hex[:15]
        self._live: dict[str, Live] = {}
        self._by_id: dict[str, str] = {}
        self._over = threading.Event()
        self._publisher = Publisher(self._over)
        self._clock = threading.Thread(target=self._move_time, name="idle-clock", daemon=True)
        self._held = ExitStack()
        self._listener: Any = None
        self._begun = threading.Event()
        self._ended = threading.Event()
        self._next: list[Callable[[], None]] = []
        self._latest_begin = 0.0

    @property
    def _crowded(self) -> bool:
        """Whether there are more queries than tasks that run side by side: they begin one after the other then."""
        return len(self.plan.queries) > self.context.spark.sparkContext.defaultParallelism

    @property
    def latest(self) -> dict[str, dict[str, Any]]:
        """The last progress record of each query."""
        return {name: live.last for name, live in self._live.items() if live.last}

    @property
    def active(self) -> bool:
        """Whether any query still runs."""
        return any(live.stream.isActive for live in self._live.values())

    def totals(self) -> dict[str, dict[str, int]]:
        """What each query has done in this run."""
        names = ("batches", "rows", "dead", "late")
        return {query: {name: live.totals[name] for name in names} for query, live in self._live.items()}

    def waits(self) -> dict[str, str]:
        """The queries that wait for a sink that is away, with what it says."""
        return {name: said for name, live in self._live.items() if (said := live.commit.waits_for)}

    def tick(self, moment: Any) -> None:
        """Move the time of every source that takes ticks."""
        for live in self._live.values():
            live.tick_all(moment)

    def begin(self) -> Self:
        """Take the pipeline for this process and start its queries."""
        self._held.enter_context(self.state.held())
        with telling_of_java(self.context.spark):
            self._begin_all()
        return self

    def _begin_all(self) -> None:
        try:
            refuse_another_kafka(self.plan.graph, self.context)
            refuse_without_slots(self.plan, self.context)
            for query in self.plan.queries:
                if not all(sink.connector.lasting for sink in query.sinks):
                    self.state.forget(query.name)  # what it wrote is gone with its process
            owners = self.state.owners(self.plan)
            for query in self.plan.queries:
                self.state.adopt(self.plan, query, owners, keep_state=self._keep_state)
            self.learnt = learn_delays(self.plan, self.context)
            self.captured.prepare()
            self._listener = _listener(self)
            self.context.spark.streams.addListener(self._listener)
            delays = {name: one.delay for name, one in self.learnt.items()}
            build = Build(self.plan.graph, self.context, delays)
            self._next = [
                partial(self._begin, query, build, {stage for stage, owner in owners.items() if owner == query.name})
                for query in self.plan.queries
            ]
            self._begin_some(1 if self._crowded else len(self._next))
            self._publisher.start()
            self._clock.start()
            self.captured.start()
        except BaseException:
            self.stop()
            raise

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until all queries have ended (True) or the time is over; restarts what failed in passing."""
        with telling_of_java(self.context.spark):
            return self._wait(None if seconds is None else time.monotonic() + seconds)

    def _wait(self, deadline: float | None) -> bool:
        while self._next or self.active or self._anything_failed():
            self._mend()
            if len(self.latest) == len(self._live) or time.monotonic() - self._latest_begin > _FIRST_BATCH_SECONDS:
                self._begin_another()
            if deadline is not None and time.monotonic() > deadline:
                return False
            self._ended.wait(_LOOK_SECONDS)
            self._ended.clear()
        return True

    def process_all(self) -> None:
        """Wait until every query has processed what its sources have now, and its record is heard."""
        self._begin_some(len(self._next))
        for live in self._live.values():
            live.stream.processAllAvailable()
        self._await_records()

    def stop(self) -> None:
        """Stop every query after the batch it is in, and publish the dead rows that are left."""
        self._begun.set()
        self._next.clear()
        self._over.set()  # who waits for a sink that is away need not wait any longer
        try:
            with telling_of_java(self.context.spark):
                self._stop_queries()
                self.close()
        except JavaEndedError:
            self._let_go()

    def _stop_queries(self) -> None:
        deadline = time.monotonic() + _STOP_SECONDS
        for live in self._live.values():
            # A real-time batch lasts long by design: it is cut off, and its rows come again after the next start.
            batch = live.batch
            while not live.query.realtime and live.in_batch and live.batch == batch and time.monotonic() < deadline:
                time.sleep(0.02)
            live.stream.stop()
            live.commit.close()

    def abandon(self) -> None:
        """Drop everything at once, as a crash would; only the checkpoint stays."""
        self._over.set()
        for live in self._live.values():
            live.stream.stop()
            live.commit.close()
        self._publisher.abandon()
        self._live.clear()
        self._by_id.clear()
        self.close()

    def _let_go(self) -> None:
        """Close without Java, as it has ended: there is nothing to stop, and the next start publishes what is left."""
        self._publisher.abandon()
        self._live.clear()
        self._listener = None
        self.close()

    def settle(self) -> None:
        """Wait until the dead rows heard of so far are published."""
        self._publisher.settle()

    def close(self) -> None:
        """Finish what is left once all queries have ended."""
        self._over.set()
        self.captured.stop()
        if self._listener is not None:
            self._await_records()
            self.context.spark.streams.removeListener(self._listener)
            self._listener = None
        self._publisher.close()
        self._held.close()
        if self._publisher.failed is not None:
            raise self._publisher.failed

    def ended(self) -> None:
        """Hear that some query has ended."""
        self._ended.set()

    def heard(self, told: dict[str, Any]) -> None:
        """Take what Spark tells of a batch; what it tells during our start waits."""
        self._begun.wait()
        name = self._by_id.get(told["id"])
        if name is None:
            return
        live = self._live[name]
        record = live.take(told)
        if record is None:
            return
        progress.append(self.state.query(name) / "progress.jsonl", record)
        if live.query.streamed and (record["dead"] or record["late"]):  # others publish theirs within the batch
            self._publisher.add(live, record)

    def _begin_another(self) -> None:
        """Start the next query; if something that it needs is away, the others go on and it is tried again."""
        try:
            self._begin_some(1)
        except TransientError as error:
            if (note := f"the next query can't begin yet: {error.problem}") not in self.notes[-1:]:
                self.notes.append(note)
            self._over.wait(_AGAIN_SECONDS)

    def _begin_some(self, count: int) -> None:
        """Start the next queries; what Spark tells meanwhile waits until we know them."""
        self._begun.clear()
        try:
            for begin in self._next[:count]:
                begin()
                self._latest_begin = time.monotonic()
            del self._next[:count]
        finally:
            self._begun.set()

    def _begin(self, query: Query, build: Build, counted: set[str]) -> None:
        known = self.state.progress(query.name)
        left = self._left_over(query, known, counted)
        terms = Terms(
            self._run,
            lambda query_id: self._letters(self.plan, query, query_id, counted, self.context, self._run),
            self._over,
            self._adopt,
        )
        live = Live(query, build, self.state.query(query.name), counted, known, terms, always=self._ticks_always)
        try:
            for late in filter(None, map(self.plan.graph.late_sink, query.flows)):
                assert isinstance(late.connector, MessageSink)
                late.connector.open_topic(self.context)
            for sink in query.sinks:
                sink.connector.prepare(lambda flow=sink.flow: build.stream(flow), self.context)  # type: ignore[misc]
            live.start(self._trigger)
        except PenstockError:
            raise
        except Exception as error:
            raise explained(error, query) from error
        self._by_id[live.stream.id] = query.name
        live.letters = terms.letters(live.stream.id)
        self._live[query.name] = live
        for record in left if query.streamed else ():
            self._publisher.add(live, record)

    def _left_over(self, query: Query, known: list[dict[str, Any]], stages: set[str]) -> list[dict[str, Any]]:
        """Batches of earlier runs whose dead rows may not be published yet."""
        unknown = committed_without_record(self.state.checkpoint(query.name), known, stages)
        due = [one for one in (*known, *unknown) if one["dead"] or one["late"]]
        return sorted(due, key=lambda one: int(one["batch"]))  # what is published moves the mark past all before it

    def _anything_failed(self) -> bool:
        return any(live.stream.exception() is not None for live in self._live.values())

    def _mend(self) -> None:
        """Start a failed query again from its checkpoint, later each time; what can't be mended is raised."""
        if self._publisher.failed is not None:
            raise self._publisher.failed
        for live in list(self._live.values()):
            if live.stream.isActive or (error := live.stream.exception()) is None:
                continue
            told = live.commit.failure or explained(error, live.query)
            (self.state.query(live.query.name) / FAILURE).write_text(f"{error}\n", encoding="utf-8")
            if self._followed(told.problem):
                live.start(self._trigger)
                continue
            if not isinstance(told, TransientError | CommitUnknownError) or live.tries >= _TRIES:
                raise told
            self._over.wait(min(2.0**live.tries, 30.0))
            live.tries += 1
            live.commit.failure = None
            try:
                live.start(self._trigger)
            except TransientError:  # the next look tries again
                continue

    def _followed(self, said: str) -> bool:
        """Whether the world outside has changed in a way that was learnt now; waits for whom it has to ask."""
        wait = 1.0
        while True:
            try:
                return self.captured.follow(said) or self._schemas.follow(said)
            except TransientError:
                if self._over.wait(wait):
                    raise
                wait = min(2 * wait, 30.0)

    def _await_records(self) -> None:
        """Spark tells of a batch a moment after its end: wait for the records of the last ones."""
        deadline = time.monotonic() + 10
        for live in self._live.values():
            last = live.stream.lastProgress
            while last and time.monotonic() < deadline:
                heard = live.last and live.last["batch"] >= last["batchId"]
                if heard or not last["durationMs"].get("addBatch"):
                    break
                time.sleep(0.05)

    def _move_time(self) -> None:
        with suppress(JavaEndedError), telling_of_java(self.context.spark):  # who waits for the queries says so
            while not self._over.wait(_LOOK_SECONDS):
                for live in list(self._live.values()):
                    live.move_idle()


def start(
    plan: Plan,
    context: Context,
    *,
    until_caught_up: bool = False,
    every: str | None = None,
    keep_state: bool = False,
    adopt: bool = False,
) -> Running:
    """Start the queries of a plan; with `until_caught_up` they end when they have read what is there now."""
    if until_caught_up:
        refuse_clock(plan.graph, "A run until it has caught up")
    trigger: dict[str, Any] = {"availableNow": True} if until_caught_up else {"processingTime": every or "0 seconds"}
    return Running(plan, context, trigger, keep_state=keep_state, adopt=adopt).begin()


def _listener(running: Running) -> Any:
    from pyspark.sql.streaming import StreamingQueryListener

    class Listener(StreamingQueryListener):
        """Hands each batch's progress over."""

        def onQueryStarted(self, event: Any) -> None:  # noqa: N802
            """Nothing to do."""

        def onQueryProgress(self, event: Any) -> None:  # noqa: N802
            """A batch has ended."""
            running.heard(json.loads(event.progress.json))

        def onQueryIdle(self, event: Any) -> None:  # noqa: N802
            """Nothing to do."""

        def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
            """A query has ended."""
            running.ended()

    return Listener()
