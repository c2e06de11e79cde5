"""A sink built anew from the log, beside the old one, which it takes the place of when it has caught up.

The rows up to a batch of the pipeline are computed as one batch and written with that batch's mark. So the pipeline,
once the new one is in its place, goes on with the batch after it.
"""

from __future__ import annotations

import shutil
import time
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from penstock.connectors.base import ORIGIN, BatchSink, Context
from penstock.connectors.writing import REBUILD, Batch, MarkedWriter, Opening, Successor
from penstock.errors import DeclarationError, StateError
from penstock.pipeline.build import Build
from penstock.pipeline.checkpoint import batch_record, digest_of, last_batch, query_id
from penstock.pipeline.replay import good_rows, told_of
from penstock.pipeline.state import PipelineState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame

    from penstock.pipeline.declare import Sink
    from penstock.pipeline.plan import Plan, Query

__all__ = ["Rebuilt", "rebuild"]

_EARLIEST = -2


@dataclass(frozen=True)
class Rebuilt:
    """What was built, and up to which batch of its query."""

    target: str
    query: str
    batch: int
    seconds: float


def rebuild(plan: Plan, context: Context, name: str, say: Callable[[str], None]) -> Rebuilt:
    """Build a sink anew; while the pipeline runs it is waited for before the new one takes the old one's place."""
    began = time.monotonic()
    query, sink = _found(plan, name)
    state = PipelineState(context.settings.home, plan.name)
    context = replace(context, state=state.folder)
    work = _Work(plan, query, sink, context, state)
    try:
        first = work.newest()
        say(f"Building {sink.connector.target()} anew up to batch {first}.")
        work.add(None, first)
        while state.owner() is not None:
            say(f"It is ready. Stop the pipeline so that it can take its place: penstock stop {plan.name}")
            _until_stopped(state)
        with state.held():
            last = work.newest()
            work.add(first, last)
            say(f"Up to batch {last}: it takes the place of the old one.")
            work.swap()
    finally:
        work.close()
    return Rebuilt(sink.connector.target(), query.name, last, round(time.monotonic() - began, 1))


def _found(plan: Plan, name: str) -> tuple[Query, Sink]:
    known = {one.connector.target(): (query, one) for query in plan.queries for one in query.sinks}
    fitting = [target for target in known if name in (target, target.partition(":")[2])]
    if len(fitting) != 1:
        raise DeclarationError(
            f"Pipeline {plan.name!r} has {'no' if not fitting else 'several'} sink{'s' if fitting else ''} {name!r}.",
            code="sink-unknown",
            remedy=f"Name one of {', '.join(known)}.",
        )
    query, sink = known[fitting[0]]
    if query.state:
        raise DeclarationError(
            f"What {name!r} is made of keeps state, so it can't be computed in one go.",
            code="rebuild-state",
            place=str(sink.place),
            remedy="Start the query over: remove its folder under .penstock/state/ and what it wrote.",
        )
    if not isinstance(sink.connector, BatchSink) or sink.connector.beside("x") is None:
        raise DeclarationError(
            f"A {sink.connector.system} sink can't be built anew beside the old one.",
            code="rebuild-sink",
            place=str(sink.place),
            remedy="Rebuild PostgreSQL, Iceberg, Delta or OpenSearch sinks.",
        )
    return query, sink


class _Work:
    """The new one while it is built."""

    def __init__(self, plan: Plan, query: Query, sink: Sink, context: Context, state: PipelineState) -> None:
        self._plan = plan
        self._query = query
        self._sink = sink
        self._context = context
        self._checkpoint = state.checkpoint(query.name)
        self._folder = state.query(query.name) / "rebuild"
        assert isinstance(sink.connector, BatchSink)
        beside = sink.connector.beside(uuid.uuid4().hex[:8])
        assert beside is not None
        opening = Opening(
            context, plan.name, query.name, query_id(self._checkpoint), REBUILD, ((sink.flow, beside),), sink.promise
        )
        self._writer = beside.open(opening)

    def newest(self) -> int:
        """The last batch that the pipeline has ended."""
        found = last_batch(self._checkpoint)
        if found is None:
            raise StateError(
                f"Query {self._query.name!r} has not written anything yet.",
                code="rebuild-early",
                remedy=f"Run the pipeline first: penstock run, then penstock rebuild {self._sink.connector.target()}",
            )
        return found

    def add(self, after: int | None, up_to: int) -> None:
        """Write what came after one batch up to another, with the mark of the latter."""
        record = batch_record(self._checkpoint, up_to)
        begins = None if after is None else batch_record(self._checkpoint, after)["sources"]
        batch = Batch(up_to, digest_of(record), self._folder)
        if isinstance(self._writer, MarkedWriter):
            self._writer.mark()  # so that it knows what is there
        self._writer.write({self._sink.flow: self._rows(record, begins)}, batch)

    def swap(self) -> None:
        """Take the old one's place."""
        assert isinstance(self._sink.connector, BatchSink)
        assert isinstance(self._writer, Successor)
        self._writer.take_place_of(self._sink.connector)

    def close(self) -> None:
        """Let go of what is held."""
        self._writer.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _rows(self, record: Mapping[str, Any], begins: list[dict[str, Any]] | None) -> DataFrame:
        graph = self._plan.graph
        sources = [
            {**one, "begin": begins[at]["end"] if begins else _from_the_first(one["end"])}
            for at, one in enumerate(record["sources"])
        ]
        made: dict[str, DataFrame] = {}
        for source, told in told_of(graph, self._query, {**record, "sources": sources}):
            rows = source.connector.replay(self._context, told)
            if rows is None:
                raise DeclarationError(
                    f"Source {source.name!r} can't give its rows again.",
                    code="rebuild-source",
                    place=str(source.place),
                    remedy="Only what is read from Kafka or captured tables can be built anew.",
                )
            made[source.name] = good_rows(source, rows, self._context).drop(ORIGIN)
        needed = graph.needed(self._sink.flow)
        for table in graph.tables:
            if table.name in needed:
                made[table.name] = table.connector.table(self._context)
        Build(graph, self._context).add_flows(made, needed, lambda rows, _name, _counts: rows)
        return made[self._sink.flow]


def _from_the_first(end: Any) -> Any:
    """Offsets before all that a topic has."""
    if not isinstance(end, dict):
        return None
    return {name: dict.fromkeys(parts, _EARLIEST) for name, parts in end.items() if isinstance(parts, dict)} or None


def _until_stopped(state: PipelineState) -> None:
    while state.owner() is not None:
        time.sleep(0.2)
