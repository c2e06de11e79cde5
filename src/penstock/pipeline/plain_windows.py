"""Windows as two plain times where a stream is grouped by them.

Spark gives a struct no place in its quickest hash map, and every key of the state would hold its place, length and
marks: a window's beginning and end as columns of their own make a key of a number a third shorter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.connectors.expressions import Expressions
from penstock.pipeline.spark_plan import DELAY, analysed, children, elements, frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["with_plain_windows"]

_MARK = "spark.timeWindow"  # Spark's own on the column of a window, but not of a session
_FIELDS = ("start", "end")


def with_plain_windows(rows: DataFrame) -> DataFrame:
    """The same rows; what is grouped by windows is grouped by their beginnings and ends."""
    plan = analysed(rows)
    plain = _Plain(Expressions(rows.sparkSession)).plain(plan)
    return rows if plain is plan else frame(rows, plain)


class _Plain:
    """Makes the plans of one session."""

    def __init__(self, expressions: Expressions) -> None:
        self.e = expressions

    def plain(self, node: Any) -> Any:
        """A plan with all its groups; the very same if there are no windows in it."""
        below = children(node)
        made = [self.plain(one) for one in below]
        if any(one is not other for one, other in zip(made, below, strict=True)):
            node = node.withNewChildren(self.e.seq(*made))
        window = _window(node)
        return node if window is None else self._grouped(node, window)

    def _grouped(self, node: Any, window: Any) -> Any:
        """By the fields of the window, which is put together again from them afterwards."""
        (child,) = children(node)
        fields = [self._field(window, at) for at in range(len(_FIELDS))]
        start, end = ends = [one.toAttribute() for one in fields]
        given, keys = elements(node.aggregateExpressions()), elements(node.groupingExpressions())
        keys = [*ends, *(one for one in keys if not _is(one, window))]
        hops = None if any(one.references().contains(window) for one in keys) else self._hops(child, window, ends)
        split = hops or self._project([*elements(child.output()), *fields], child)
        others = [one for one in given if not one.references().contains(window)]
        whole = self._whole(start, end)
        shown = [
            self._alias(whole, one.name(), one.metadata(), one)
            if one.references().contains(window)
            else one.toAttribute()
            for one in given
        ]
        return self._project(shown, node.copy(self.e.seq(*keys), self.e.seq(*ends, *others), split, node.hint()))

    def _whole(self, start: Any, end: Any) -> Any:
        """The window as Spark makes it: it and its fields may be null, and it alone is marked as the time."""
        start, end = (self.e.make("KnownNullable", one) for one in (start, end))
        named = self.e.seq(self.e.text("start"), start, self.e.text("end"), end)
        return self.e.make("KnownNullable", self.e.make("CreateNamedStruct", named))

    def _hops(self, node: Any, window: Any, ends: list[Any]) -> Any | None:
        """The rows in each of their windows without a struct in between; None if they are not put there right below."""
        if node.nodeName() == "Filter" and not node.condition().references().contains(window):
            below = self._hops(children(node)[0], window, ends)
            return None if below is None else node.withNewChildren(self.e.seq(below))
        if node.nodeName() != "Expand":
            return None
        columns = elements(node.output())
        at = next((at for at, one in enumerate(columns) if _is(one, window)), None)
        rows = [elements(one) for one in elements(node.projections())]
        if at is None or any(_class(one[at]) != "CreateNamedStruct" for one in rows):
            return None
        split = [self.e.seq(*one[:at], *elements(one[at].valExprs()), *one[at + 1 :]) for one in rows]
        given = (self.e.seq(*split), self.e.seq(*columns[:at], *ends, *columns[at + 1 :]), *children(node))
        return self.e.jvm.org.apache.spark.sql.catalyst.plans.logical.Expand(*given)

    def _field(self, window: Any, at: int) -> Any:
        some = self.e.jvm.scala.Some(_FIELDS[at])
        metadata = self.e.jvm.org.apache.spark.sql.types.MetadataBuilder()
        if _FIELDS[at] == "end" and window.metadata().contains(DELAY):
            metadata.putLong(DELAY, window.metadata().getLong(DELAY))
        return self._alias(self.e.make("GetStructField", window, at, some), f"window_{_FIELDS[at]}", metadata.build())

    def _alias(self, value: Any, name: str, metadata: Any, known_as: Any = None) -> Any:
        """A named value; what it was known as before, it stays."""
        catalyst = self.e.jvm.org.apache.spark.sql.catalyst.expressions
        number = (
            known_as.exprId() if known_as else getattr(getattr(catalyst, "NamedExpression$"), "MODULE$").newExprId()
        )
        return self.e.make("Alias", value, name, number, self.e.seq(), self.e.jvm.scala.Some(metadata), self.e.seq())

    def _project(self, columns: list[Any], child: Any) -> Any:
        return self.e.jvm.org.apache.spark.sql.catalyst.plans.logical.Project(self.e.seq(*columns), child)


def _window(node: Any) -> Any | None:
    """The window that a stream is grouped by, if there is one and it is given out as it is."""
    if node.nodeName() != "Aggregate" or not node.isStreaming():
        return None
    windows = [one for one in elements(node.groupingExpressions()) if _is_window(one)]
    if len(windows) != 1:
        return None
    (window,) = windows
    of_window = [one for one in elements(node.aggregateExpressions()) if one.references().contains(window)]
    return window if all(_is(one, window) or _is_alias(one, window) for one in of_window) else None


def _is_window(key: Any) -> bool:
    return _class(key) == "AttributeReference" and bool(key.metadata().contains(_MARK))


def _is(one: Any, window: Any) -> bool:
    return _class(one) == "AttributeReference" and one.exprId().id() == window.exprId().id()


def _is_alias(one: Any, window: Any) -> bool:
    return _class(one) == "Alias" and _is(one.child(), window)


def _class(expression: Any) -> str:
    return str(expression.getClass().getSimpleName())
