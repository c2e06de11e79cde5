"""The declarative half: names, cycles, options, time, guarantee, queries; no JVM, a broken file answers at once."""

from __future__ import annotations

import difflib
import re
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

from penstock.connectors.base import GUARANTEES, BatchSink, MessageSink
from penstock.errors import DeclarationError
from penstock.pipeline.compile.processes import with_processes
from penstock.pipeline.declare import LATE
from penstock.pipeline.durations import percentile, seconds
from penstock.pipeline.plan import STORES, Graph

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.pipeline.declare import EventTime, Flow, Pipeline, Place, Sink, Source, Table

__all__ = ["STEPS", "declared"]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LATE = ("drop", "keep", "update")
_LATENCY = ("micro-batch", "realtime")
_EMIT = ("final", "changes")
_ACTIONS = ("quarantine", "warn", "fail")


def declared(pipeline: Pipeline) -> Graph:
    """Check every declaration, one step after the other."""
    for step in STEPS:
        step(pipeline)
    flows = tuple(_in_order(pipeline))
    sources, tables, sinks = tuple(pipeline.sources), tuple(pipeline.tables), tuple(pipeline.sinks)
    return with_processes(Graph(pipeline.name, sources, tables, flows, sinks, pipeline.state))


def names(pipeline: Pipeline) -> None:
    """Every name is a word, and stands for one thing."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", pipeline.name):
        raise _wrong(pipeline.place, f"{pipeline.name!r} is not a pipeline's name.", "Use letters, digits, _ and -.")
    seen: dict[str, Place] = {}
    for one in _named(pipeline):
        if not _NAME.fullmatch(one.name):
            raise _wrong(one.place, f"{one.name!r} can't be a parameter's name.", "Use letters, digits and _.")
        if one.name in seen:
            raise _wrong(one.place, f"{one.name!r} is declared already at {seen[one.name]}.", "Give it another name.")
        seen[one.name] = one.place


def store(pipeline: Pipeline) -> None:
    """State is kept at one of the places that there are."""
    if pipeline.state not in STORES:
        raise _wrong(pipeline.place, f"state={pipeline.state!r} is not known.", f"Write one of {', '.join(STORES)}.")


def inputs(pipeline: Pipeline) -> None:
    """Every parameter names something that is declared."""
    known = {one.name for one in _named(pipeline)}
    tables = {one.name for one in pipeline.tables}
    for flow in pipeline.flows:
        if not flow.inputs:
            raise _wrong(flow.place, f"Flow {flow.name!r} has no inputs.", "Name its inputs as parameters.")
        for name in flow.inputs:
            if name not in known:
                raise _wrong(
                    flow.place, f"Flow {flow.name!r} asks for {name!r}, which is not declared.", _near(name, known)
                )
        if set(flow.inputs) <= tables:
            raise _wrong(flow.place, f"Flow {flow.name!r} has tables only.", "Give it a stream as an input too.")
        if flow.process is not None and not set(flow.inputs[1:]) <= tables:
            raise _wrong(flow.place, f"{flow.inputs[1]!r}, which on_initial takes, is no table.", "Name a table there.")
        if flow.returns is not None and len(flow.inputs) != 1:
            raise _wrong(flow.place, f"{flow.name!r} takes single rows of one stream.", "Give it one parameter.")


def outputs(pipeline: Pipeline) -> None:
    """Every sink hangs on a stream that is declared, and there is one."""
    streams = {one.name for one in _named(pipeline)} - {one.name for one in pipeline.tables}
    late = {flow.name + LATE for flow in pipeline.flows}
    for sink in pipeline.sinks:
        if sink.flow not in streams | late:
            remedy = _near(sink.flow, streams)
            raise _wrong(sink.place, f"This sink is for {sink.flow!r}, which is not declared as a stream.", remedy)
    if not any(sink.flow in streams for sink in pipeline.sinks):
        raise _wrong(pipeline.place, "The pipeline has no sink.", "Add one: pipeline.sink(flow, ps.Kafka('topic')).")


def cycles(pipeline: Pipeline) -> None:
    """No flow is its own input, not even by a detour."""
    try:
        _in_order(pipeline)
    except CycleError as error:
        ring = error.args[1]
        place = next(flow.place for flow in pipeline.flows if flow.name == ring[0])
        raise _wrong(place, f"These flows feed each other: {' -> '.join(ring)}.", "Break the ring.") from error


def options(pipeline: Pipeline) -> None:
    """The options of every connector and lookup make sense."""
    read: list[Source | Table] = [*pipeline.sources, *pipeline.tables]
    for source in read:
        reader = getattr(source.connector, "format", None)
        for problem, remedy in (*source.connector.problems(), *(reader.problems() if reader else ())):
            raise _wrong(source.place, problem, remedy)
    for table in pipeline.tables:
        if getattr(table.connector, "pattern", False):
            raise _wrong(table.place, "A table is of topics that are named.", "Leave pattern out.")
    for flow in pipeline.flows:
        for problem, remedy in flow.lookup.problems() if flow.lookup else ():
            raise _wrong(flow.place, problem, remedy)
    for sink in pipeline.sinks:
        for problem, remedy in sink.connector.problems():
            raise _wrong(sink.place, problem, remedy)
        if getattr(sink.connector, "pattern", False) or "," in sink.connector.target():
            raise _wrong(sink.place, "A sink writes one topic.", "Name one topic, or declare a sink for each.")


def time(pipeline: Pipeline) -> None:
    """Event times have delays that are durations, and late rows a fate that exists."""
    for source in pipeline.sources:
        for problem, remedy in _wrong_times(source.time) if source.time else ():
            raise _wrong(source.place, problem, remedy)
    keeps = any(one.time is not None and one.time.late != "drop" for one in pipeline.sources)
    for sink in pipeline.sinks:
        if sink.flow.endswith(LATE) and not keeps:
            remedy = "Give the source time=ps.EventTime(…, late='keep')."
            raise _wrong(sink.place, f"There is no {sink.flow!r}: late rows are dropped.", remedy)


def _wrong_times(time: EventTime) -> Iterator[tuple[str, str]]:
    example = "Write it like '10 seconds' or '1 hour 30 minutes'."
    if seconds(time.delay) is None and percentile(time.delay) is None:
        yield f"delay={time.delay!r} is not a duration.", f"{example[:-1]}, or 'p99' to learn it."
    for name in ("grace", "future", "idle"):
        value = getattr(time, name)
        if value is not None and seconds(value) is None:
            yield f"{name}={value!r} is not a duration.", example
    if time.late not in _LATE:
        yield f"late={time.late!r} is not known.", f"Write one of {', '.join(_LATE)}."
    if (time.late == "update") != (time.grace is not None):
        yield "late='update' and grace belong together.", "Write both: late='update', grace='1 hour'."


def flows(pipeline: Pipeline) -> None:
    """Rules and ways to emit are among the known ones."""
    for flow in pipeline.flows:
        if flow.emit not in _EMIT:
            raise _wrong(flow.place, f"emit={flow.emit!r} is not known.", f"Write one of {', '.join(_EMIT)}.")
        for one in flow.expectations:
            if one.action not in _ACTIONS:
                remedy = f"Write one of {', '.join(_ACTIONS)}."
                raise _wrong(flow.place, f"Expectation {one.name!r} does not know {one.action!r}.", remedy)


def sinks(pipeline: Pipeline) -> None:
    """No two sinks write one target, none writes what is read, and none promises more than it can give."""
    seen: dict[str, Place] = {}
    for source in pipeline.sources:
        for target in (f"kafka:{pipeline.name}-{end}" for end in _own_topics(pipeline)):
            if source.connector.reads(target):
                remedy = "Read other topics: what we note there would come in again for ever."
                raise _wrong(
                    source.place, f"Source {source.name!r} reads {target}, which this pipeline writes.", remedy
                )
    for sink in pipeline.sinks:
        target = sink.connector.target()
        if target in seen and sink.connector.exclusive:
            raise _wrong(
                sink.place, f"{target} is written already at {seen[target]}.", "Unite the flows, or write another."
            )
        for source in pipeline.sources:
            if source.connector.reads(target):
                remedy = "Write to another one: what goes out would come in again for ever."
                raise _wrong(sink.place, f"{target} is what source {source.name!r} reads.", remedy)
        seen[target] = sink.place
        for problem, remedy in _promises(sink):
            raise _wrong(sink.place, problem, remedy)


def _own_topics(pipeline: Pipeline) -> Iterator[str]:
    """How the topics end that a pipeline makes for itself; queries are named after sources, flows, or by the user."""
    yield "dead-letters"
    names = [*(one.name for one in pipeline.sources), *(one.name for one in pipeline.flows)]
    for name in (*names, *(one.query for one in pipeline.sinks if one.query)):
        yield f"{name}-progress"


def _promises(sink: Sink) -> Iterator[tuple[str, str]]:
    asked, system = sink.guarantee, sink.connector.system
    if asked is not None and asked not in GUARANTEES:
        yield f"{asked!r} is not a guarantee.", f"Write one of {', '.join(GUARANTEES)}."
    if asked is not None and asked not in _given(sink):
        remedy = f"Ask for {_given(sink)[0]!r}, or write to a sink that can."
        mode = " in real time" if sink.latency == "realtime" else ""
        yield f"The {system} sink{mode} gives {_given(sink)[0]}, not {asked}.", remedy
    if sink.latency not in _LATENCY:
        yield f"latency={sink.latency!r} is not known.", f"Write one of {', '.join(_LATENCY)}."
    if sink.latency == "realtime" and not sink.connector.realtime:
        yield (
            f"The {system} sink can't be written in real time.",
            "Write to Kafka or the console, or leave latency out.",
        )
    if sink.flow.endswith(LATE) and not isinstance(sink.connector, MessageSink):
        yield f"The {system} sink can't take late rows.", "Write them to Kafka."
    if sink.query is not None and not _NAME.fullmatch(sink.query):
        yield f"{sink.query!r} can't be a query's name.", "Use letters, digits and _."


def _given(sink: Sink) -> tuple[str, ...]:
    """What a sink can promise, the usual first."""
    connector = sink.connector
    if sink.latency == "realtime":
        return ("at-least-once",)
    if isinstance(connector, BatchSink):
        return ("exactly-once", "at-least-once", "at-most-once")
    return tuple(dict.fromkeys((connector.guarantee, "at-least-once")))


STEPS: tuple[Callable[[Pipeline], None], ...] = (
    names,
    store,
    inputs,
    outputs,
    cycles,
    options,
    time,
    flows,
    sinks,
)


def _named(pipeline: Pipeline) -> list[Source | Table | Flow]:
    return [*pipeline.sources, *pipeline.tables, *pipeline.flows]


def _in_order(pipeline: Pipeline) -> list[Flow]:
    by_name = {flow.name: flow for flow in pipeline.flows}
    graph = {flow.name: [name for name in flow.inputs if name in by_name] for flow in pipeline.flows}
    return [by_name[name] for name in TopologicalSorter(graph).static_order()]


def _near(name: str, known: set[str]) -> str:
    near = difflib.get_close_matches(name, known, 1)
    return f"Did you mean {near[0]!r}?" if near else f"Declared: {', '.join(sorted(known)) or 'nothing'}."


def _wrong(place: Place, problem: str, remedy: str) -> DeclarationError:
    return DeclarationError(problem, code="declaration-wrong", place=str(place), remedy=remedy)
