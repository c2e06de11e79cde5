"""Sources that decode only the columns that some sink needs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock.connectors.formats import PARSED
from penstock.pipeline.declare import LATE
from penstock.pipeline.spark_plan import analysed, elements, walk

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame

    from penstock.connectors.base import Context
    from penstock.pipeline.plan import Graph

__all__ = ["narrowed"]

_PASSES = 20


def narrowed(graph: Graph, ends: Iterable[DataFrame], context: Context) -> Graph:
    """The graph with sources that decode what these rows are made of; a sink of late rows takes all there is."""
    if any(one.flow.endswith(LATE) for one in graph.sinks):
        return graph
    used = {name for rows in ends for name in _used(_pruned(analysed(rows), context.spark._jvm))}
    sources = (replace(one, connector=one.connector.narrowed(used, context)) for one in graph.sources)
    return replace(graph, sources=tuple(sources))


def _pruned(plan: Any, jvm: Any) -> Any:
    """The plan without columns that nobody asks for, by Spark's own rule."""
    rule = getattr(getattr(jvm.org.apache.spark.sql.catalyst.optimizer, "ColumnPruning$"), "MODULE$")
    for _ in range(_PASSES):
        before, plan = plan, rule.apply(plan)
        if plan.fastEquals(before):
            break
    return plan


def _used(plan: Any) -> set[str]:
    """The names that are taken out of what a format has parsed, whichever source it is of."""
    found = set()
    for node in walk(plan):
        if node.nodeName() == "Project":
            # A field is made of one thing; the text of what parses would take a twentieth of a second.
            texts = (str(one.toString()) for one in elements(node.projectList()) if one.collectLeaves().size() == 1)
            found |= {name for text in texts if text.startswith(f"{PARSED}#") for name in _fields(text)}
    return found


def _fields(text: str) -> tuple[str, str]:
    """The column in `__parsed#12.price AS price#34L`; some formats have their columns one struct deeper."""
    name = text.rpartition(" AS ")[0].partition(".")[2]
    return name, name.partition(".")[2]
