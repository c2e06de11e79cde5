"""Windows as plain times where a stream is grouped by them.

Spark gives a struct no place in its quickest hash map, and every key of the state would hold its place, length and
marks. A window's end says all of it, as its length is known: a key of a number is half as long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.connectors.expressions import Expressions
from penstock.pipeline.spark_plan import DELAY, analysed, children, elements, frame, walk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

__all__ = ["with_plain_windows"]

_MARK = "spark.timeWindow"  # Spark's own on the column of a window, but not of a session
_SETS = "spark_grouping_id"  # of a rollup or cube, whose windows may be null
_END = ("end",)
_BOTH = ("start", *_END)


def with_plain_windows(rows: DataFrame, kept: Sequence[str] = _END) -> DataFrame:
    """The same rows; what is grouped by windows is grouped by their ends, or in older state by their beginnings too."""
    plan = analysed(rows)
    plain = _Plain(Expressions(rows.sparkSession), kept).plain(plan)
    return rows if plain is plan else frame(rows, plain)


class _Plain:
    """Makes the plans of one session."""

    def __init__(self, expressions: Expressions, kept: Sequence[str]) -> None:
        self.e = expressions
        self.kept = kept
        self.groups = expressions.jvm.org.apache.spark.sql.catalyst.trees.TreePattern.AGGREGATE()

    def plain(self, node: Any) -> Any:
        """A plan with all its groups; the very same if there are no windows in it."""
        if not node.containsPattern(self.groups):
            return node
        below = children(node)
        made = [self.plain(one) for one in below]
        if any(one is not other for one, other in zip(made, below, strict=True)):
            node = node.withNewChildren(self.e.seq(*made))
        window = _window(node)
        return node if window is None else self._grouped(node, window)

    def _grouped(self, node: Any, window: Any) -> Any:
        """By fields of the window, which is put together again from them afterwards."""
        (child,) = children(node)
        length = None if "start" in self.kept else _length(child, window)
        names = _BOTH if length is None else _END
        fields = [self._field(window, name) for name in names]
        *start, end = times = [one.toAttribute() for one in fields]
        given, keys = elements(node.aggregateExpressions()), elements(node.groupingExpressions())
        keys = [*times, *(one for one in keys if not _is(one, window))]
        hops = None if any(one.references().contains(window) for one in keys) else self._hops(child, window, times)
        split = hops or self._project([*elements(child.output()), *fields], child)
        others = [one for one in given if not one.references().contains(window)]
        whole = self._whole(start[0] if length is None else self._before(end, length), end)
        shown = [
            self._alias(whole, one.name(), one.metadata(), one)
            if one.references().contains(window)
            else one.toAttribute()
            for one in given
        ]
        return self._project(shown, node.copy(self.e.seq(*keys), self.e.seq(*times, *others), split, node.hint()))

    def _before(self, time: Any, length: Any) -> Any:
        """A time so much earlier, reckoned as Spark does for windows: no day of it is longer than another."""
        long, kind = self.e.kind("bigint"), time.dataType()
        number = self.e.make("PreciseTimestampConversion", time, kind, long)
        earlier = self.e.make("Subtract", number, length)
        return self.e.make("PreciseTimestampConversion", earlier, long, kind)

    def _whole(self, start: Any, end: Any) -> Any:
        """The window as Spark makes it: it and its fields may be null, and it alone is marked as the time."""
        start, end = (self.e.make("KnownNullable", one) for one in (start, end))
        named = self.e.seq(self.e.text("start"), start, self.e.text("end"), end)
        return self.e.make("KnownNullable", self.e.make("CreateNamedStruct", named))

    def _hops(self, node: Any, window: Any, times: list[Any]) -> Any | None:
        """The rows in each of their windows without a struct in between; None if they are not put there right below."""
        if node.nodeName() == "Filter" and not node.condition().references().contains(window):
            below = self._hops(children(node)[0], window, times)
            return None if below is None else node.withNewChildren(self.e.seq(below))
        if node.nodeName() != "Expand":
            return None
        columns = elements(node.output())
        at = next((at for at, one in enumerate(columns) if _is(one, window)), None)
        rows = [elements(one) for one in elements(node.projections())]
        if at is None or any(_class(one[at]) != "CreateNamedStruct" for one in rows):
            return None
        fields = [elements(one[at].valExprs())[-len(times) :] for one in rows]
        split = [self.e.seq(*one[:at], *its, *one[at + 1 :]) for one, its in zip(rows, fields, strict=True)]
        given = (self.e.seq(*split), self.e.seq(*columns[:at], *times, *columns[at + 1 :]), *children(node))
        return self.e.jvm.org.apache.spark.sql.catalyst.plans.logical.Expand(*given)

    def _field(self, window: Any, name: str) -> Any:
        some = self.e.jvm.scala.Some(name)
        metadata = self.e.jvm.org.apache.spark.sql.types.MetadataBuilder()
        if name == "end" and window.metadata().contains(DELAY):
            metadata.putLong(DELAY, window.metadata().getLong(DELAY))
        at = _BOTH.index(name)
        return self._alias(self.e.make("GetStructField", window, at, some), f"window_{name}", metadata.build())

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
    keys = elements(node.groupingExpressions())
    windows = [one for one in keys if _is_window(one)]
    if len(windows) != 1 or any(one.name() == _SETS for one in keys if _class(one) == "AttributeReference"):
        return None
    (window,) = windows
    of_window = [one for one in elements(node.aggregateExpressions()) if one.references().contains(window)]
    return window if all(_is(one, window) or _is_alias(one, window) for one in of_window) else None


def _length(node: Any, window: Any) -> Any | None:
    """How long the windows are that are made in a plan, in microseconds, if it is seen there."""
    for one in walk(node):
        for made in _made(one, window):
            if _class(made) == "CreateNamedStruct":
                return _added(elements(made.valExprs())[-1])
    return None


def _made(node: Any, window: Any) -> list[Any]:
    """What a node makes the windows of."""
    if node.nodeName() == "Expand":
        at = [at for at, one in enumerate(elements(node.output())) if _is(one, window)]
        return [elements(node.projections().head())[one] for one in at]
    if node.nodeName() == "Project":
        named = (one for one in elements(node.projectList()) if _class(one) == "Alias")
        return [one.child() for one in named if one.exprId().id() == window.exprId().id()]
    return []


def _added(end: Any) -> Any | None:
    """The number that is added to the beginning of a window for its end."""
    while _class(end) in ("KnownNullable", "PreciseTimestampConversion"):
        end = end.child()
    return end.right() if _class(end) == "Add" and _class(end.right()) == "Literal" else None


def _is_window(key: Any) -> bool:
    return _class(key) == "AttributeReference" and bool(key.metadata().contains(_MARK))


def _is(one: Any, window: Any) -> bool:
    return _class(one) == "AttributeReference" and one.exprId().id() == window.exprId().id()


def _is_alias(one: Any, window: Any) -> bool:
    return _class(one) == "Alias" and _is(one.child(), window)


def _class(expression: Any) -> str:
    return str(expression.getClass().getSimpleName())
