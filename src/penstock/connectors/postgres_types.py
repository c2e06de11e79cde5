"""Spark's types in PostgreSQL: what a column is called there, and how its values look in a COPY."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.connectors.base import quoted
from penstock.errors import DeclarationError

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType, StructType

__all__ = ["ZERO", "copy_line", "has_zero", "sql_type"]

ZERO = "\x00"
_PLAIN = {
    "boolean": "boolean",
    "tinyint": "smallint",
    "smallint": "smallint",
    "int": "integer",
    "bigint": "bigint",
    "float": "real",
    "double": "double precision",
    "string": "text",
    "binary": "bytea",
    "date": "date",
    "timestamp": "timestamp with time zone",
    "timestamp_ntz": "timestamp without time zone",
    "variant": "jsonb",
}


def sql_type(kind: DataType, column: str) -> str:
    """The type of a column; structs, maps and what is nested deeper are JSON."""
    from pyspark.sql.types import ArrayType, CharType, DecimalType, MapType, StructType, VarcharType

    if isinstance(kind, DecimalType):
        return f"numeric({kind.precision},{kind.scale})"
    if isinstance(kind, CharType | VarcharType):
        return "text"
    if isinstance(kind, StructType | MapType):
        return "jsonb"
    if isinstance(kind, ArrayType):
        inner = sql_type(kind.elementType, column)
        return "jsonb" if inner == "jsonb" or inner.endswith("[]") else f"{inner}[]"
    try:
        return _PLAIN[kind.simpleString()]
    except KeyError:
        raise DeclarationError(
            f"PostgreSQL has no type for column {column!r} ({kind.simpleString()}).",
            code="type-unknown",
            remedy="Cast it in the flow.",
        ) from None


def copy_line(schema: StructType) -> Column:
    """A row as a line of COPY's text format, made in Spark's JVM."""
    from pyspark.sql import functions as F  # noqa: N812

    fields = [
        F.coalesce(_escaped(_text(column, one.dataType), one.dataType), F.lit("\\N"))
        for one, column in zip(schema.fields, quoted(schema.names), strict=True)
    ]
    return F.concat_ws("\t", *fields)


def has_zero(schema: StructType) -> Column:
    """Whether a text of the row has a zero byte in it, which PostgreSQL can't store."""
    from pyspark.sql import functions as F  # noqa: N812

    found = F.lit(False)
    for one, column in zip(schema.fields, quoted(schema.names), strict=True):
        if _is_text(one.dataType):
            # In JSON it is written out.
            sign = "\\u0000" if sql_type(one.dataType, one.name) == "jsonb" else ZERO
            found = found | F.coalesce(F.contains(_text(column, one.dataType), F.lit(sign)), F.lit(False))
    return found


def _is_text(kind: DataType) -> bool:
    sql = sql_type(kind, "")
    return sql in ("text", "jsonb", "text[]")


def _text(column: Column, kind: DataType) -> Column:
    """A value as PostgreSQL reads it."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import ArrayType

    sql = sql_type(kind, "")
    if sql == "jsonb":
        return F.to_json(column)
    if isinstance(kind, ArrayType):
        inner = kind.elementType

        def one(value: Column) -> Column:
            text = F.replace(F.replace(_text(value, inner), F.lit("\\"), F.lit("\\\\")), F.lit('"'), F.lit('\\"'))
            return F.coalesce(F.concat(F.lit('"'), text, F.lit('"')), F.lit("NULL"))

        listed = F.concat(F.lit("{"), F.array_join(F.transform(column, one), ","), F.lit("}"))
        return F.when(column.isNotNull(), listed)
    if sql == "bytea":
        return F.concat(F.lit("\\x"), F.hex(column))
    if sql == "timestamp with time zone":
        return F.date_format(column, "yyyy-MM-dd HH:mm:ss.SSSSSSxxx")
    return column.cast("string")


def _escaped(text: Column, kind: DataType) -> Column:
    """The signs that mean something to COPY, written out."""
    from pyspark.sql import functions as F  # noqa: N812

    if not _is_text(kind) and not sql_type(kind, "").endswith(("bytea", "[]")):
        return text
    for sign, written in (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r")):
        text = F.replace(text, F.lit(sign), F.lit(written))
    return text
