"""Expressions of Spark's that call methods of Java objects, for what none of its functions does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, SparkSession

__all__ = ["Expressions"]


class Expressions:
    """Makes them for one session, and keeps what it has asked the JVM for: every question costs."""

    def __init__(self, session: SparkSession) -> None:
        self.jvm: Any = session._jvm
        self._kept: dict[str, Any] = {}

    def make(self, name: str, *given: Any) -> Any:
        """An expression of one of Catalyst's classes."""
        return self._once(name, lambda: _inside(self.jvm.org.apache.spark.sql.catalyst.expressions, name))(*given)

    def constant(self, value: Any, kind: Any) -> Any:
        """A value that all rows share."""
        return self.make("Literal", value, kind)

    def text(self, text: str) -> Any:
        """A text that all rows share."""
        utf8 = self.jvm.org.apache.spark.unsafe.types.UTF8String
        return self.constant(utf8.fromString(text), self.kind("string"))

    def call(self, target: Any, method: str, kind: Any, *given: Any, null: bool = False) -> Any:
        """What a method of an object returns, and whether that may be null."""
        return self.make("objects.Invoke", target, method, kind, self.seq(*given), self.seq(), True, null, True)

    def string(self, text: Any) -> Any:
        """A text of Java's as one of Spark's."""
        utf8 = self._once("utf8", lambda: self._class("org.apache.spark.unsafe.types.UTF8String"))
        nobody = self._once("none", lambda: getattr(getattr(self.jvm.scala, "None$"), "MODULE$"))
        given = (self.kind("string"), "fromString", self.seq(text), self.seq(), True, True, True, nobody)
        return self.make("objects.StaticInvoke", utf8, *given)

    def cast(self, value: Any, spelt: str) -> Any:
        """A value as another type, null if it can't be."""
        return self.of(self.column(value).try_cast(spelt))

    def of(self, column: Column) -> Any:
        """The expression of a column."""
        return self._columns.expression(column._jc)

    def column(self, expression: Any) -> Column:
        """The column of an expression."""
        from pyspark.sql import Column

        return Column(self._columns.column(expression))

    def kind(self, spelt: str) -> Any:
        """A type of Spark's."""
        return self._once(f"kind {spelt}", lambda: self.jvm.org.apache.spark.sql.types.DataType.fromDDL(spelt))

    def object(self, name: str) -> Any:
        """The type of a Java object."""
        return self._once(name, lambda: self.jvm.org.apache.spark.sql.types.ObjectType(self._class(name)))

    def seq(self, *items: Any) -> Any:
        """Scala's list."""
        if not items:
            return self._once("empty", lambda: self.jvm.PythonUtils.toSeq([]))
        return self.jvm.PythonUtils.toSeq(list(items))

    @property
    def _columns(self) -> Any:
        return self._once("columns", lambda: self.jvm.org.apache.spark.sql.classic.ExpressionUtils)

    def _class(self, name: str) -> Any:
        return self.jvm.java.lang.Class.forName(name)

    def _once(self, name: str, ask: Callable[[], Any]) -> Any:
        if name not in self._kept:
            self._kept[name] = ask()
        return self._kept[name]


def _inside(package: Any, path: str) -> Any:
    for name in path.split("."):
        package = getattr(package, name)
    return package
