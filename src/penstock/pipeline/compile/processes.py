"""What is said about the processes of a pipeline: whether bad rows can be dead letters, which states only ever grow."""

from __future__ import annotations

import ast
import inspect
import textwrap
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.pipeline.declare import ALL, LATE
from penstock.pipeline.keyed.declared import quarantining
from penstock.pipeline.keyed.process import states_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.pipeline.plan import Graph

__all__ = ["with_processes", "without_quarantine"]


def with_processes(graph: Graph) -> Graph:
    """The graph with processes that quarantine rows, where a sink is written batch by batch; and with warnings."""
    told = graph.needed(*(one.flow for one in graph.sinks if not one.alone and not one.flow.endswith(LATE)))
    flows = tuple(
        quarantining(one) if one.process and one.name.endswith(ALL) and one.name in told else one for one in graph.flows
    )
    return replace(graph, flows=flows, warnings=(*graph.warnings, *_growing(graph)))


def without_quarantine(graph: Graph, names: set[str]) -> Graph:
    """The graph with some processes that stop at a row which makes them raise: no query could tell of it."""
    flows = tuple(quarantining(one, to=False) if one.name in names else one for one in graph.flows)
    return replace(graph, flows=flows)


def _growing(graph: Graph) -> Iterator[str]:
    """A sentence for each state that nothing ever takes away."""
    for flow in graph.flows:
        if flow.process is None or not flow.name.endswith(ALL):
            continue
        made = flow.process.made
        cleared = _cleared(made)
        for state in states_of(made):
            if state.ttl is None and cleared is not None and state.name not in cleared:
                yield (
                    f"{state.place}: {state.name} of {flow.name.removesuffix(ALL)} grows with the number of keys, for"
                    f" ever: give it a ttl='1 day', or clear it when a timer rings."
                )


def _cleared(made: type) -> set[str] | None:
    """The states that a class takes away somewhere, by its source; None if that can't be read."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(made)))
    except (OSError, TypeError, SyntaxError):
        return None
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "clear":
            found.add(getattr(node.func.value, "attr", ""))
        elif isinstance(node, ast.Delete):
            found |= {getattr(one.value, "attr", "") for one in node.targets if isinstance(one, ast.Subscript)}
    return found
