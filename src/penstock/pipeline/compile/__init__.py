"""Compile: a Pipeline becomes a Plan: first its declarations are checked, then what Spark makes of its flows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.pipeline.compile.steps import STEPS, declared

if TYPE_CHECKING:
    from penstock.connectors.base import Context
    from penstock.pipeline.declare import Pipeline
    from penstock.pipeline.plan import Graph, Plan

__all__ = ["STEPS", "compile_graph", "compile_pipeline", "declared"]


def compile_pipeline(pipeline: Pipeline, context: Context) -> Plan:
    """Both halves: the declarations, then the analysis and the cut into queries."""
    return compile_graph(declared(pipeline), context)


def compile_graph(graph: Graph, context: Context) -> Plan:
    """The second half, which needs Spark."""
    from penstock.pipeline.compile.analyse import analyse
    from penstock.pipeline.compile.cut import cut
    from penstock.pipeline.compile.narrow import narrowed
    from penstock.pipeline.compile.processes import without_quarantine
    from penstock.pipeline.compile.unique import with_uniqueness

    graph = with_uniqueness(graph, context)
    facts = analyse(graph, context)
    plan = cut(graph, facts, context)
    heard = {query.root for query in plan.queries}
    if deaf := {one.name for one in graph.flows if graph.quarantines(one.name)} - heard:
        graph = without_quarantine(graph, deaf)
        facts = analyse(graph, context)
        plan = cut(graph, facts, context)
    ends = [facts[sink.flow].rows for query in plan.queries for sink in query.sinks]
    return replace(plan, graph=narrowed(plan.graph, ends, context))
