"""Spark's own plan of a DataFrame, looked into and mended: state, lateness, where a row came from."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from penstock.connectors.base import ORIGIN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame

__all__ = ["DELAY", "analysed", "carried", "children", "described", "first_states", "frame", "states", "walk"]

DELAY = "spark.watermarkDelayMs"  # Spark's mark on the column that is the event time
_STATEFUL = re.compile(r"Aggregate|Distinct|Deduplicate\w*|TransformWithState\w*|FlatMapGroups\w*WithState|GlobalLimit")
_PASSING = re.compile(r"^[~!']+|#\d+L?|-T\d+ms")
_WINDOW = re.compile(r"named_struct\(start, .*? AS (?:session_)?window")


def analysed(rows: DataFrame) -> Any:
    """The plan that Spark's analyzer makes."""
    return rows._jdf.queryExecution().analyzed()


def children(node: Any) -> list[Any]:
    """The nodes or expressions right below."""
    return _list(node.children())


def walk(node: Any) -> Iterator[Any]:
    """A node and all below it, inputs before what is made of them."""
    for child in children(node):
        yield from walk(child)
    yield node


def states(rows: DataFrame) -> list[Any]:
    """The operators of a stream that keep state, in the order of the rows."""
    return [node for node in walk(analysed(rows)) if _keeps_state(node, lambda child: bool(child.isStreaming()))]


def first_states(node: Any) -> list[Any]:
    """In a plan of replayed rows: the operators with state that a row meets first."""
    below = [found for child in children(node) for found in first_states(child)]
    if below:
        return below
    return [node] if _keeps_state(node, lambda child: bool(_origins(child))) else []


def described(state: Any) -> str:
    """What an operator keeps, without the numbers that differ from start to start."""
    text = _PASSING.sub("", str(state.simpleString(1000)))
    return text + _lengths(str(children(state)[0].toString())) if state.nodeName() == "Aggregate" else text


def _lengths(plan: str) -> str:
    """How long the windows are that a plan puts its rows into, and how far apart."""
    found = "".join(_WINDOW.findall(_PASSING.sub("", plan)))
    micros = sorted({int(number) for number in re.findall(r"\b\d{4,}\b", found)})
    lengths = [f"{number / 1_000_000:g} seconds" for number in micros] + re.findall(r"cast\((.+?) as interval\)", found)
    return f" over {', '.join(dict.fromkeys(lengths))}" if lengths else ""


def frame(rows: DataFrame, plan: Any) -> DataFrame:
    """A plan as a DataFrame of the same session."""
    from pyspark.sql import DataFrame

    session = rows.sparkSession
    jvm: Any = session._jvm
    dataset = getattr(getattr(jvm.org.apache.spark.sql.classic, "Dataset$"), "MODULE$")
    return DataFrame(dataset.ofRows(session._jsparkSession, plan), session)


def carried(rows: DataFrame) -> DataFrame:
    """The same rows with the origin that a user's function has selected away, wherever no state is in between."""
    return frame(rows, _carry(analysed(rows), rows.sparkSession._jvm))


def _carry(node: Any, jvm: Any) -> Any:
    below = [_carry(child, jvm) for child in children(node)]
    if not below:
        return node
    if node.nodeName() == "Union":
        carry = all(_origins(child) for child in below)
        below = [_project(jvm, _shown(child), child, carry=carry) for child in below]
        return node.withNewChildren(_seq(jvm, below))
    if node.nodeName() == "Project":
        return _project(jvm, _list(node.projectList()), below[0], carry=True)
    if node.nodeName() == "Expand":
        more = _origins(below[0])[:1] if not _origins(node) else []
        projections = _seq(jvm, [_seq(jvm, [*_list(one), *more]) for one in _list(node.projections())])
        output = _seq(jvm, [*_list(node.output()), *more])
        return jvm.org.apache.spark.sql.catalyst.plans.logical.Expand(projections, output, below[0])
    return node.withNewChildren(_seq(jvm, below))


def _project(jvm: Any, columns: list[Any], child: Any, *, carry: bool) -> Any:
    has = any(one.name() == ORIGIN for one in columns)
    more = _origins(child)[:1] if carry and not has else []
    return jvm.org.apache.spark.sql.catalyst.plans.logical.Project(_seq(jvm, [*columns, *more]), child)


def _shown(node: Any) -> list[Any]:
    return [one for one in _list(node.output()) if one.name() != ORIGIN]


def _origins(node: Any) -> list[Any]:
    return [one for one in _list(node.output()) if one.name() == ORIGIN]


def _keeps_state(node: Any, moves: Callable[[Any], bool]) -> bool:
    """Whether a node keeps state of rows that move; `moves` says whether those of a child do."""
    if node.nodeName() == "Join":
        return all(moves(child) for child in children(node))
    return bool(_STATEFUL.fullmatch(node.nodeName())) and any(moves(child) for child in children(node))


def _list(found: Any) -> list[Any]:
    return [found.apply(number) for number in range(found.size())]


def _seq(jvm: Any, items: list[Any]) -> Any:
    made = jvm.java.util.ArrayList()
    for item in items:
        made.add(item)
    return jvm.scala.jdk.javaapi.CollectionConverters.asScala(made).toSeq()
