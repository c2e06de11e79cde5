"""JSON in its plain form, read in half the time of Spark's own parser, which makes a stream reader for each row.

A text is plain if it is one object whose fields are just what their columns are: a text for a STRING, a whole number
that fits for a BIGINT. It means the same to every parser. About any other one, odd or bad, Spark's parser decides.
"""

from __future__ import annotations

from functools import partial, reduce
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql.types import StructField, StructType

    from penstock.connectors.expressions import Expressions

__all__ = ["PlainJson", "can_be_plain"]

_JACKSON = "com.fasterxml.jackson.databind"
_VALUES = {
    "int": ("intValue", ("isInt",)),
    "bigint": ("longValue", ("isInt", "isLong")),
    "double": ("doubleValue", ("isNumber",)),
    "boolean": ("booleanValue", ("isBoolean",)),
}
_TEXTS = ("string", "timestamp", "date")
_WITH_Z = 24  # a time to the millisecond: 2020-02-29T12:34:56.789Z
_ZERO, _NINE, _POINT, _Z = map(ord, "09.Z")
_MOST = 40  # Java compiles no method of more than 8,000 bytes, and there are up to 170 for a column


def can_be_plain(columns: StructType) -> bool:
    """Whether there is a plain form of all these columns, and its code is not too long for Java's compiler."""
    kinds = list(_kinds(columns))
    return len(kinds) <= _MOST and all(one in _VALUES or one in _TEXTS for one in kinds)


def _kinds(columns: StructType) -> Iterator[str]:
    from pyspark.sql.types import StructType

    for one in columns:
        if isinstance(one.dataType, StructType):
            yield from _kinds(one.dataType)
        else:
            yield one.dataType.simpleString()


class PlainJson:
    """The expression that reads columns out of a text."""

    def __init__(self, expressions: Expressions, *, utc: bool) -> None:
        self.e = expressions
        self.utc = utc  # whether a time without a zone is one in UTC
        self.node, self.words = self.e.object(f"{_JACKSON}.JsonNode"), self.e.object("java.lang.String")
        self.boolean, self.string = self.e.kind("boolean"), self.e.kind("string")
        self.odd: list[Any] = []

    def row(self, text: Any, columns: Iterable[StructField], mark: str) -> Any:
        """A struct of the columns, behind one more that is null; in that of a text that is not plain it is not."""
        words = self.e.call(text, "toString", self.words, null=True)
        read = self.e.make("TryEval", self.e.call(self._jackson(), "readTree", self.node, words, null=True))
        nothing = self.e.constant(self.e.jvm.com.fasterxml.jackson.databind.node.MissingNode.getInstance(), self.node)
        tree = self.e.make("Coalesce", self.e.seq(read, nothing))
        self.odd.append(self._none(tree, ("isObject",)))
        fields = self._fields(tree, columns)
        # `greatest` looks at all of them, so that Spark takes each field out of the tree once, for this and the row.
        odd = self.e.make("Greatest", self.e.seq(*self.odd, self.odd[0]))
        marked = self.e.make("If", odd, self.e.text("odd"), self.e.constant(None, self.string))
        return self.e.make("CreateNamedStruct", self.e.seq(self.e.text(mark), marked, *fields))

    def _fields(self, tree: Any, columns: Iterable[StructField]) -> list[Any]:
        return [part for one in columns for part in (self.e.text(one.name), self._field(tree, one))]

    def _field(self, tree: Any, column: StructField) -> Any:
        name, spelt = self.e.constant(column.name, self.words), column.dataType.simpleString()
        node = self.e.call(tree, "path", self.node, name)
        if spelt in _TEXTS:
            words = self.e.call(node, "textValue", self.words, null=True)
            text = self.e.string(self._without_z(words) if self.utc and spelt == "timestamp" else words)
            value = text if spelt == "string" else self.e.cast(text, spelt)
            wrong = self.e.make("IsNull", value)
        else:
            method, checks = _VALUES.get(spelt, ("", ("isObject",)))
            wrong = self._none(node, checks)
            found = self.e.call(node, method, self.e.kind(spelt)) if method else self._inner(node, column)
            value = self.e.make("If", wrong, self.e.constant(None, found.dataType()), found)
        self.odd.append(self.e.make("And", wrong, self.e.call(tree, "hasNonNull", self.boolean, name)))
        return value

    def _without_z(self, words: Any) -> Any:
        """A time without the Z that Spark would look up as a zone; after three digits it is no other's end."""
        integer = self.e.kind("int")
        number = partial(self.e.constant, kind=integer)

        def at(place: int) -> Any:
            return self.e.call(words, "codePointAt", integer, number(place))

        def is_digit(place: int) -> Any:
            at_least = self.e.make("GreaterThanOrEqual", at(place), number(_ZERO))
            return self.e.make("And", at_least, self.e.make("LessThanOrEqual", at(place), number(_NINE)))

        z, point = (self.e.make("EqualTo", at(place), number(sign)) for place, sign in ((23, _Z), (19, _POINT)))
        form = reduce(partial(self.e.make, "And"), (z, point, *map(is_digit, (20, 21, 22))))
        cut = self.e.call(words, "substring", self.words, number(0), number(_WITH_Z - 1))
        long = self.e.make("EqualTo", self.e.call(words, "length", integer), number(_WITH_Z))
        # Not one condition: Spark may evaluate all of one before it looks at its first part.
        return self.e.make("If", long, self.e.make("If", form, cut, words), words)

    def _inner(self, node: Any, column: StructField) -> Any:
        fields = self._fields(node, column.dataType)  # type: ignore[arg-type]
        return self.e.make("CreateNamedStruct", self.e.seq(*fields))

    def _none(self, node: Any, checks: tuple[str, ...]) -> Any:
        """That a node is none of these."""
        first, *others = (self.e.call(node, one, self.boolean) for one in checks)
        for other in others:
            first = self.e.make("Or", first, other)
        return self.e.make("Not", first)

    def _jackson(self) -> Any:
        """A parser that refuses a name that comes twice: Spark's looks at both values."""
        databind = self.e.jvm.com.fasterxml.jackson.databind
        strict = databind.DeserializationFeature.FAIL_ON_READING_DUP_TREE_KEY
        return self.e.constant(databind.ObjectMapper().reader(strict), self.e.object(f"{_JACKSON}.ObjectReader"))
