"""JSON with a schema of a registry, decoded and encoded in Spark's JVM."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.connectors.base import EXACT, quoted
from penstock.connectors.formats import PARSED, Writing
from penstock.connectors.json_rows import with_json
from penstock.connectors.registered import CORRUPT, Decoder, RegistryFormat
from penstock.errors import DeclarationError
from penstock.registry.json_document import DRAFT, JsonDocument, json_document
from penstock.registry.schema import Schema
from penstock.registry.wire import HEADER, header

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

    from penstock.connectors.base import Context
    from penstock.connectors.formats import Reading
    from penstock.connectors.schema_ids import SchemaIds

__all__ = ["JsonSchema", "columns_of_json_schema", "json_schema_of"]

_TEXTS = {"date-time": "TIMESTAMP", "date": "DATE"}
_SIMPLE = {"integer": "BIGINT", "number": "DOUBLE", "boolean": "BOOLEAN"}
_DEPTH = 32


@dataclass(frozen=True)
class JsonSchema(RegistryFormat):
    """JSON messages with their schema's id; the reader's schema gives the columns.

    Without a schema a source reads with the newest one of its topic, frozen in `schemas/`; a sink makes one from its
    columns (`name` is its title), closed to other properties, so that columns can be added later.
    """

    name: str = "Row"

    kind: ClassVar = "JSON"

    def writer(self, context: Context, topic: str, rows: DataFrame) -> Schema:
        """The schema that is given, or that of the columns."""
        return (
            self.given(context) if self.schema else Schema("JSON", json.dumps(json_schema_of(rows.schema, self.name)))
        )

    def decoder(self, reader: Schema, target: str, ids: SchemaIds, schemas: Mapping[int, Schema]) -> Reading:
        """One way for all ids."""
        return _JsonDecoder(reader, target, ids, schemas)

    def encoder(self, schema: Schema, number: int) -> Writing:
        """One schema for all rows."""
        return _JsonEncoder(number)


@dataclass(frozen=True)
class _JsonDecoder(Decoder):
    def parse(self, raw: DataFrame) -> DataFrame:
        """Parse the text after the header."""
        from pyspark.sql import functions as F  # noqa: N812

        columns = columns_of_json_schema(json_document(self.reader.text, dict(self.reader.used)))
        text = F.expr(f"CAST(substring(value, {HEADER + 1}) AS STRING)")
        return with_json(raw, PARSED, F.when(self.known(), text), columns, CORRUPT)

    def failed(self, parsed: Column) -> Column:
        """Whether Spark kept the text because it is not of the columns."""
        return parsed.isNull() | parsed.getField(CORRUPT).isNotNull()


@dataclass(frozen=True)
class _JsonEncoder(Writing):
    number: int

    def encode(self, rows: DataFrame) -> Column:
        """The header, then the object."""
        from pyspark.sql import functions as F  # noqa: N812

        text = F.to_json(F.struct(*quoted(rows.columns)), EXACT)
        return F.concat(F.lit(header(self.number)), text.cast("binary"))


def columns_of_json_schema(document: JsonDocument) -> str:
    """The columns of an object's schema, as DDL."""
    told = document.resolved(document.root)
    if not isinstance(told, dict) or not told.get("properties"):
        raise DeclarationError(
            "A JSON Schema without properties has no columns.",
            code="schema-columns",
            remedy="Describe an object with properties.",
        )
    return _fields(document, told, 0)


def json_schema_of(columns: StructType, title: str) -> dict[str, Any]:
    """The JSON Schema of columns: none is required, others are refused."""
    return {"$schema": DRAFT, "title": title, **_object(columns)}


def _fields(document: JsonDocument, told: dict[str, Any], depth: int, colon: str = " ") -> str:
    made = []
    for name, one in told["properties"].items():
        named = name.replace("`", "``")
        made.append(f"`{named}`{colon}{_kind(document, one, depth + 1)}")
    return ", ".join(made)


def _kind(document: JsonDocument, told: Any, depth: int) -> str:
    told = document.resolved(told)
    if not isinstance(told, dict) or depth > _DEPTH:
        return "STRING"
    for word in ("anyOf", "oneOf"):  # a value or null
        others = [one for one in told.get(word, ()) if document.resolved(one) != {"type": "null"}]
        if len(others) == 1:
            return _kind(document, others[0], depth)
    said = told.get("type")
    kinds = [one for one in said if one != "null"] if isinstance(said, list) else [said]
    kind = kinds[0] if len(kinds) == 1 else None
    if kind == "string":
        return _TEXTS.get(str(told.get("format")), "STRING")
    if kind == "array":
        items = told.get("items", {})
        return f"ARRAY<{_kind(document, items, depth + 1)}>" if not isinstance(items, list) else "STRING"
    if kind == "object" and told.get("properties"):
        return f"STRUCT<{_fields(document, told, depth, ': ')}>"
    if kind == "object" and isinstance(told.get("additionalProperties"), dict):
        return f"MAP<STRING, {_kind(document, told['additionalProperties'], depth + 1)}>"
    return _SIMPLE.get(str(kind), "STRING")


def _object(columns: StructType) -> dict[str, Any]:
    properties = {one.name: _schema(one.dataType, one.name) for one in columns.fields}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _schema(kind: DataType, path: str) -> dict[str, Any]:
    from pyspark.sql import types as T  # noqa: N812

    simple: dict[type[DataType], dict[str, Any]] = {
        T.BooleanType: {"type": "boolean"},
        T.ByteType: {"type": "integer"},
        T.ShortType: {"type": "integer"},
        T.IntegerType: {"type": "integer"},
        T.LongType: {"type": "integer"},
        T.FloatType: {"type": "number"},
        T.DoubleType: {"type": "number"},
        T.StringType: {"type": "string"},
        T.BinaryType: {"type": "string", "contentEncoding": "base64"},
        T.DateType: {"type": "string", "format": "date"},
        T.TimestampType: {"type": "string", "format": "date-time"},
        T.TimestampNTZType: {"type": "string"},
    }
    if type(kind) in simple:
        return simple[type(kind)]
    if isinstance(kind, T.DecimalType):
        return {"type": "number"}
    if isinstance(kind, T.ArrayType):
        return {"type": "array", "items": _schema(kind.elementType, path)}
    if isinstance(kind, T.MapType):
        return {"type": "object", "additionalProperties": _schema(kind.valueType, path)}
    if isinstance(kind, T.StructType):
        return _object(kind)
    raise DeclarationError(
        f"Column {path!r} of type {kind.simpleString()} can't be written as JSON.",
        code="json-type",
        remedy="Cast it, to STRING for example.",
    )
