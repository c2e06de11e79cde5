"""What keeps a query out of Spark's real-time mode, each with the rewrite that would let it in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.pipeline.spark_plan import analysed, children, elements, walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.pipeline.compile.analyse import Facts
    from penstock.pipeline.plan import Graph, Query

__all__ = ["blockers"]

_NODES = {
    "DeduplicateWithinWatermark": "a deduplication within a time: use dropDuplicates with the event time as a key",
    "FlatMapGroupsInPandasWithState": "state in Python: use a window aggregate",
    "TransformWithStateInPySpark": "state in Python: use a window aggregate",
    "TransformWithStateInPandas": "state in Python: use a window aggregate",
    "MapInPandas": "Python code on rows: write it with Spark's functions",
    "MapInArrow": "Python code on rows: write it with Spark's functions",
    "Sort": "a sort: order rows where they are read",
    "Window": "a window over rows: group by a window of time",
}


def blockers(graph: Graph, query: Query, facts: dict[str, Facts]) -> tuple[str, ...]:
    """One sentence for each thing that real-time mode does not take, empty if nothing is in its way."""
    return tuple(dict.fromkeys(_found(graph, query, facts)))


def _found(graph: Graph, query: Query, facts: dict[str, Facts]) -> Iterator[str]:
    for name in query.sources:
        source = graph.source(name)
        if source is not None and source.connector.system not in ("kafka", "given"):
            yield f"source {name!r} ({source.connector.system}): read it from Kafka."
        if source is not None and source.time is not None and source.time.idle is not None:
            yield f"the idle time of source {name!r}: leave it out."
    for flow in graph.flows:
        if flow.name in query.flows and flow.returns is not None:
            rewrite = "join with a table" if flow.lookup else "write it with Spark's functions"
            yield f"flow {flow.name!r}, Python code on single rows: {rewrite}."
    for sink in query.sinks:
        if not sink.connector.realtime:
            yield f"the {sink.connector.system} sink: write to Kafka."
    rows = facts[query.sinks[0].flow].rows
    python = rows.sparkSession._jvm.org.apache.spark.sql.catalyst.trees.TreePattern.PYTHON_UDF()  # type: ignore[union-attr]
    for node in walk(analysed(rows)):
        yield from _of_node(node, python)
    if query.state and not graph.emits_changes(query.root):
        yield 'results that wait until they are final: let the flow emit="changes".'


def _of_node(node: Any, python: Any) -> Iterator[str]:
    kind = node.nodeName()
    if not node.isStreaming():
        return
    if kind in _NODES:
        yield f"{_NODES[kind]}."
    if kind == "Join" and all(child.isStreaming() for child in children(node)):
        yield "a join of two streams: join with a table, or keep it in micro-batches."
    if kind == "Aggregate" and "session_window" in str(node.simpleString(100)):
        yield "a session window: use a window of fixed length."
    for expression in elements(node.expressions()) if node.containsPattern(python) else ():
        yield from (
            f"the Python function {name}: write it with Spark's functions." for name in _python(expression, python)
        )


def _python(expression: Any, python: Any) -> Iterator[str]:
    """The Python functions in an expression; each look is a call to the JVM, so it goes where Spark says there are."""
    if "Python" in expression.getClass().getSimpleName():
        yield str(expression.name())
    for child in children(expression) if expression.containsPattern(python) else ():
        yield from _python(child, python)
