"""Flows that look at whole windows: all rows of a window that is final come out in one batch, so they need no state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.connectors.base import BatchSink
from penstock.pipeline.spark_plan import analysed, children, elements, is_time, keeps_state, states

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.pipeline.declare import Flow
    from penstock.pipeline.plan import Graph

__all__ = ["takes_whole_windows"]

_KEYS = {"Aggregate": "groupingExpressions", "Deduplicate": "keys", "Window": "partitionSpec"}


def takes_whole_windows(graph: Graph, flow: Flow, made: dict[str, DataFrame], others: set[str]) -> bool:
    """Whether all that a flow adds to a stream is computed within windows which that stream gives out as final.

    `others` are the flows before it that are known to do so.
    """
    given = _stream(graph, flow)
    if given is None or graph.emits_changes(flow.name) or not _by_batches(graph, flow):
        return False
    added = states(made[flow.name])[len(states(made[given])) :]
    if not added:
        return False
    first: str | None = given
    while first in others:
        first = _stream(graph, graph.flow(first))
    windows = _windows(analysed(made[first])) & _columns(analysed(made[given])) if first else set()
    if windows:
        windows |= _ends(analysed(made[flow.name]), windows)
    return all(windows & _keys(one) for one in added)


def _stream(graph: Graph, flow: Flow) -> str | None:
    """The one stream that a flow is made of."""
    streams = [name for name in flow.inputs if graph.table(name) is None]
    return streams[0] if len(streams) == 1 else None


def _by_batches(graph: Graph, flow: Flow) -> bool:
    """Whether all sinks after a flow are handed their batches."""
    after = (one for one in graph.sinks if flow.name in graph.needed(one.flow))
    return all(isinstance(one.connector, BatchSink) for one in after)


def _windows(plan: Any) -> set[int]:
    """The columns that are the windows by which rows were grouped last; since then only single rows were looked at."""
    node = plan
    while node.nodeName() != "Aggregate":
        if len(below := children(node)) != 1 or keeps_state(node):
            return set()
        node = below[0]
    times = {one.exprId().id() for one in elements(node.groupingExpressions()) if is_time(one)}
    return times & _columns(plan)


def _ends(node: Any, windows: set[int]) -> set[int]:
    """The columns that are the ends of these windows: rows of the same end come in the same batch too."""
    if node.nodeName() == "Aggregate" or not node.isStreaming():
        return set()
    found = {end for one in children(node) for end in _ends(one, windows)}
    named = elements(node.projectList()) if node.nodeName() == "Project" else []
    return found | {one.exprId().id() for one in named if _is_end(one, windows, found)}


def _is_end(column: Any, windows: set[int], ends: set[int]) -> bool:
    """Whether a column is the end of a window, or one of these by another name."""
    value = column.child() if column.getClass().getSimpleName() == "Alias" else column
    field = value.getClass().getSimpleName() == "GetStructField" and value.extractFieldName() == "end"
    known, value = (windows, value.child()) if field else (ends, value)
    return value.getClass().getSimpleName() == "AttributeReference" and value.exprId().id() in known


def _columns(plan: Any) -> set[int]:
    return {one.exprId().id() for one in elements(plan.output())}


def _keys(state: Any) -> set[int]:
    """The columns that an operator looks at its rows apart by."""
    found = getattr(state, _KEYS[state.nodeName()])() if state.nodeName() in _KEYS else None
    named = (one for one in elements(found) if one.getClass().getSimpleName() == "AttributeReference") if found else ()
    return {one.exprId().id() for one in named}
