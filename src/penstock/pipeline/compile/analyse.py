"""Spark's analyzer over every flow, before anything runs: columns and types, state and its bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.errors import DeclarationError
from penstock.pipeline.build import Build
from penstock.pipeline.compile.whole_windows import takes_whole_windows
from penstock.pipeline.spark_plan import children, described, elements, is_time, states

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.connectors.base import Context
    from penstock.pipeline.declare import Flow, Place
    from penstock.pipeline.plan import Graph

__all__ = ["Facts", "analyse"]

_NO_TIME = (
    "Its rows have no event time: give their source one (time=ps.EventTime('created_at')); what a process, a pattern or"
    " features give out has none, so write that to a topic and read it from there."
)


@dataclass(frozen=True)
class Facts:
    """What Spark makes of a source or flow."""

    rows: DataFrame
    state: tuple[str, ...]
    adds_state: bool
    whole_windows: bool = False  # what it adds is computed within a batch


def analyse(graph: Graph, context: Context) -> dict[str, Facts]:
    """The facts of every source and flow; refuses state without bound and rules that come too late."""
    every = graph.needed(*(one.name for one in graph.sources), *(one.name for one in graph.flows))
    made = Build(graph, context).streams(every, set())
    facts: dict[str, Facts] = {}
    for source in graph.sources:
        facts[source.name] = Facts(made[source.name], (), adds_state=False)
    for flow in graph.flows:
        rows = made[flow.name]
        kept = states(rows)
        below = max(len(states(facts[name].rows)) if name in facts else 0 for name in flow.inputs)
        whole = takes_whole_windows(graph, flow, made, {name for name, one in facts.items() if one.whole_windows})
        facts[flow.name] = Facts(rows, tuple(map(described, kept)), len(kept) > below and not whole, whole)
        if not any(one.unbounded for one in graph.flows if one.name in graph.needed(flow.name)):
            for state in kept:
                _bounded(flow, state, context.spark._jvm)
        if kept:
            _rules_before_state(flow, kept[0].nodeName())
    return facts


def _bounded(flow: Flow, state: Any, jvm: Any) -> None:
    """Refuse state that no event time ever takes away."""
    kind = state.nodeName()
    if kind == "Aggregate":
        keys = [one for one in elements(state.groupingExpressions()) if is_time(one)]
        if keys:
            return
        remedy = "Group by a window of the event time too: F.window('created_at', '10 minutes')."
        if not any(is_time(one) for child in children(state) for one in elements(child.output())):
            remedy = _NO_TIME
    elif kind == "Deduplicate":
        if any(is_time(one) for one in elements(state.keys())):
            return
        remedy = "Use ps.deduplicated(rows, by=…, within='1 hour')."
    elif kind == "Join":
        remedy = _join_remedy(state, jvm)
        if not remedy:
            return
    else:
        if any(is_time(one) for child in children(state) for one in elements(child.output())):
            return
        remedy = "Give its source an event time: time=ps.EventTime('column', delay='10 seconds')."
    raise _unbounded(flow.name, flow.place, kind, remedy)


def _join_remedy(join: Any, jvm: Any) -> str:
    """What a join of two streams lacks, empty if it forgets both sides in time."""
    left, right = children(join)
    for side in (left, right):
        if not any(is_time(one) for one in elements(side.output())):
            return "Give both sources an event time: time=ps.EventTime('column', delay='10 seconds')."
    helper = getattr(getattr(jvm.org.apache.spark.sql.catalyst.analysis, "StreamingJoinHelper$"), "MODULE$")
    if helper.isWatermarkInJoinKeys(join):
        return ""
    if join.joinType().sql() == "FULL OUTER" and "isnotnull(" not in join.condition().toString():
        return "Spark would match rows without a key: add …AND key IS NOT NULL to the condition."
    at = jvm.scala.Some(1 << 42)
    for one, other in ((left, right), (right, left)):
        if helper.getStateValueWatermark(one.outputSet(), other.outputSet(), join.condition(), at).isEmpty():
            return "Bound it in time: …AND clicked_at BETWEEN shown_at AND shown_at + INTERVAL 30 MINUTES."
    return ""


def _unbounded(name: str, place: Place, kind: str, remedy: str) -> DeclarationError:
    return DeclarationError(
        f"Flow {name!r} keeps state that grows without bound ({kind}).",
        code="state-unbounded",
        place=str(place),
        remedy=f"{remedy} If it may grow for ever, say so: @pipeline.flow(unbounded=True).",
    )


def _rules_before_state(flow: Flow, kind: str) -> None:
    """A row that state made, or held back, has no origin to quarantine it with."""
    if flow.returns is not None:
        raise DeclarationError(
            f"{flow.name!r} takes single rows of a flow that keeps state ({kind}).",
            code="each-after-state",
            place=str(flow.place),
            remedy="Put it before the state: what it raises is told of a row of the source.",
        )
    if any(rule.action == "quarantine" for rule in flow.expectations):
        raise DeclarationError(
            f"Flow {flow.name!r} expects something of rows that were computed from many ({kind}).",
            code="rule-after-state",
            place=str(flow.place),
            remedy="Quarantine the rows that go in, or use the action 'warn' or 'fail' here.",
        )
