"""The declarative half: names, cycles, options, time, guarantee, queries; no JVM, a broken file answers at once."""

from __future__ import annotations

import difflib
import re
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

from penstock.connectors.base import GUARANTEES
from penstock.errors import DeclarationError
from penstock.pipeline.durations import seconds
from penstock.pipeline.plan import Plan, Query

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.pipeline.declare import Flow, Pipeline, Place, Source

__all__ = ["STEPS", "compile_pipeline"]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LATE = ("drop", "keep")
_EMIT = ("final", "changes")
_ACTIONS = ("quarantine", "warn", "fail")


def compile_pipeline(pipeline: Pipeline) -> Plan:
    """Check every declaration, then cut the graph into queries."""
    for step in STEPS:
        step(pipeline)
    flows = tuple(_in_order(pipeline))
    queries = tuple(_query(pipeline, number) for number in range(len(pipeline.sinks)))
    return Plan(pipeline.name, tuple(pipeline.sources), flows, queries)


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


def inputs(pipeline: Pipeline) -> None:
    """Every parameter and every sink names something that is declared."""
    known = {one.name for one in _named(pipeline)}
    for flow in pipeline.flows:
        if not flow.inputs:
            raise _wrong(flow.place, f"Flow {flow.name!r} has no inputs.", "Name its inputs as parameters.")
        for name in flow.inputs:
            if name not in known:
                raise _wrong(
                    flow.place, f"Flow {flow.name!r} asks for {name!r}, which is not declared.", _near(name, known)
                )
    for sink in pipeline.sinks:
        if sink.flow not in known:
            raise _wrong(sink.place, f"This sink is for {sink.flow!r}, which is not declared.", _near(sink.flow, known))
    if not pipeline.sinks:
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
    """Every connector's options make sense."""
    for source in pipeline.sources:
        reader = getattr(source.connector, "format", None)
        for problem, remedy in (*source.connector.problems(), *(reader.problems() if reader else ())):
            raise _wrong(source.place, problem, remedy)
    for sink in pipeline.sinks:
        for problem, remedy in sink.connector.problems():
            raise _wrong(sink.place, problem, remedy)
        if getattr(sink.connector, "pattern", False) or "," in sink.connector.target():
            raise _wrong(sink.place, "A sink writes one topic.", "Name one topic, or declare a sink for each.")


def time(pipeline: Pipeline) -> None:
    """Event times have delays that are durations, and late rows a fate that exists."""
    for source in pipeline.sources:
        if source.time is None:
            continue
        if seconds(source.time.delay) is None:
            remedy = "Write it like '10 seconds' or '1 hour 30 minutes'."
            raise _wrong(source.place, f"delay={source.time.delay!r} is not a duration.", remedy)
        if source.time.late not in _LATE:
            raise _wrong(source.place, f"late={source.time.late!r} is not known.", f"Write one of {', '.join(_LATE)}.")


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
    """No two sinks write one target, and none promises more than it can give."""
    seen: dict[str, Place] = {}
    for sink in pipeline.sinks:
        target = sink.connector.target()
        if target in seen:
            raise _wrong(
                sink.place, f"{target} is written already at {seen[target]}.", "Unite the flows, or write another."
            )
        seen[target] = sink.place
        changes = any(flow.name == sink.flow and flow.emit == "changes" for flow in pipeline.flows)
        if changes and not sink.connector.updates:
            remedy = 'Use emit="final" on the flow, or write to a sink that takes changes.'
            raise _wrong(sink.place, f"The {sink.connector.system} sink can't take changes to rows.", remedy)
        asked, given = sink.guarantee, sink.connector.guarantee
        if asked is not None and asked not in GUARANTEES:
            raise _wrong(sink.place, f"{asked!r} is not a guarantee.", f"Write one of {', '.join(GUARANTEES)}.")
        if asked is not None and GUARANTEES.index(asked) > GUARANTEES.index(given):
            remedy = f"Ask for {given!r}, or write to a sink that can."
            raise _wrong(sink.place, f"The {sink.connector.system} sink gives {given}, not {asked}.", remedy)


STEPS: tuple[Callable[[Pipeline], None], ...] = (names, inputs, cycles, options, time, flows, sinks)


def _named(pipeline: Pipeline) -> list[Source | Flow]:
    return [*pipeline.sources, *pipeline.flows]


def _in_order(pipeline: Pipeline) -> list[Flow]:
    by_name = {flow.name: flow for flow in pipeline.flows}
    graph = {flow.name: [name for name in flow.inputs if name in by_name] for flow in pipeline.flows}
    return [by_name[name] for name in TopologicalSorter(graph).static_order()]


def _query(pipeline: Pipeline, number: int) -> Query:
    sink = pipeline.sinks[number]
    needed = {sink.flow}
    for flow in reversed(_in_order(pipeline)):
        if flow.name in needed:
            needed.update(flow.inputs)
    kind = sink.connector.system
    return Query(
        name=f"{sink.flow}-to-{kind}-{_slug(sink.connector.target())}",
        sources=tuple(one.name for one in pipeline.sources if one.name in needed),
        flows=tuple(one.name for one in _in_order(pipeline) if one.name in needed),
        output=sink.flow,
        sink=sink,
        guarantee=sink.guarantee or sink.connector.guarantee,
    )


def _slug(target: str) -> str:
    return re.sub(r"[^A-Za-z0-9.]+", "-", target.partition(":")[2]).strip("-")


def _near(name: str, known: set[str]) -> str:
    near = difflib.get_close_matches(name, known, 1)
    return f"Did you mean {near[0]!r}?" if near else f"Declared: {', '.join(sorted(known)) or 'nothing'}."


def _wrong(place: Place, problem: str, remedy: str) -> DeclarationError:
    return DeclarationError(problem, code="declaration-wrong", place=str(place), remedy=remedy)
