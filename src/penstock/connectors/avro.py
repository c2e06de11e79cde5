"""Avro with a registry, decoded and encoded in Spark's JVM."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.connectors.avro_fit import avro_unfit
from penstock.connectors.base import quoted
from penstock.connectors.formats import PARSED, Writing
from penstock.connectors.registered import Decoder, RegistryFormat
from penstock.errors import DeclarationError
from penstock.registry.avro_whole import whole_avro
from penstock.registry.schema import Schema
from penstock.registry.wire import HEADER, header

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

    from penstock.connectors.base import Context
    from penstock.connectors.formats import Reading, Topical
    from penstock.connectors.schema_ids import SchemaIds

__all__ = ["Avro", "avro_schema_of"]

_END = b"penstock"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Avro(RegistryFormat):
    """Avro messages with their schema's id; rows of older and newer schemas have the columns of one reader's schema.

    Without a schema a source reads with the newest one of its topic, frozen in `schemas/`; a sink makes one from its
    columns (`name` is the record's) and registers it. `subject` names subjects by "topic", "record" or "topic-record".
    `references` are what a given schema uses: "shop.Money=money-value:1".
    """

    name: str = "penstock.Row"

    kind: ClassVar = "AVRO"

    def writer(self, context: Context, topic: str, rows: DataFrame) -> Schema:
        """The schema that is given, or that of the columns."""
        return (
            self.given(context) if self.schema else Schema("AVRO", json.dumps(avro_schema_of(rows.schema, self.name)))
        )

    def narrowed(self, columns: Collection[str], context: Context, source: Topical) -> Avro:
        """The others are skipped in the bytes; one that names a type stays, another may use it."""
        reader = self.reader(context, source.topics, source.target())
        told = json.loads(reader.text)
        if reader.references or not isinstance(told, dict) or told.get("type") != "record":
            return self
        kept = [one for one in told["fields"] if one["name"] in columns or _names_a_type(one["type"])]
        kept = kept or told["fields"][:1]
        return replace(self, schema=json.dumps({**told, "fields": kept})) if len(kept) < len(told["fields"]) else self

    def decoder(self, reader: Schema, target: str, ids: SchemaIds, schemas: Mapping[int, Schema]) -> Reading:
        """One branch for each id."""
        return _AvroDecoder(reader, target, ids, schemas)

    def encoder(self, schema: Schema, number: int) -> Writing:
        """One schema for all rows."""
        return _AvroEncoder(schema, number)


@dataclass(frozen=True)
class _AvroDecoder(Decoder):
    """Behind each row lies a mark: if it is not found where the row ends, the bytes are not a row of the schema."""

    inner: ClassVar = "row."

    def parse(self, raw: DataFrame) -> DataFrame:
        """Each row with the schema that wrote it, as the reader's."""
        from pyspark.sql import functions as F  # noqa: N812
        from pyspark.sql.avro.functions import from_avro

        body = F.concat(F.expr(f"substring(value, {HEADER + 1})"), F.lit(_END))
        reader = _with_end(whole_avro(self.reader))
        found: Column | None = None
        for number, writer in self.readable().items():
            one = from_avro(body, _with_end(whole_avro(writer)), {"avroSchema": reader, "mode": "PERMISSIVE"})
            found = F.when(self.of(number), one) if found is None else found.when(self.of(number), one)
        if found is None:
            found = F.when(F.lit(False), from_avro(body, reader))
        return raw.withColumn(PARSED, found)

    def failed(self, parsed: Column) -> Column:
        """Whether the mark is not there: Spark gives nulls for what it can't decode."""
        from pyspark.sql import functions as F  # noqa: N812

        return ~parsed.getField("end").eqNullSafe(F.lit(_END))


def _with_end(schema: str) -> str:
    """A row's schema, and the mark behind the row."""
    end = {"type": "fixed", "name": "penstock_end", "size": len(_END)}
    fields = [{"name": "row", "type": json.loads(schema)}, {"name": "end", "type": end}]
    return json.dumps({"type": "record", "name": "penstock_row", "fields": fields})


@dataclass(frozen=True)
class _AvroEncoder(Writing):
    schema: Schema
    number: int

    def encode(self, rows: DataFrame) -> Column:
        """The header, then the record."""
        from pyspark.sql import functions as F  # noqa: N812
        from pyspark.sql.avro.functions import to_avro

        return F.concat(F.lit(header(self.number)), to_avro(F.struct(*quoted(rows.columns)), whole_avro(self.schema)))

    def unfit(self, rows: DataFrame) -> Column | None:
        """Rows that the given schema does not take."""
        return avro_unfit(rows, whole_avro(self.schema))


def avro_schema_of(columns: StructType, name: str) -> dict[str, Any]:
    """The Avro schema of columns: what may be null is a union with null and has null as its default."""
    space, _, short = name.rpartition(".")
    made = _record(columns, short, "")
    return {"type": "record", "name": short, **({"namespace": space} if space else {}), "fields": made["fields"]}


def _record(columns: StructType, name: str, path: str) -> dict[str, Any]:
    fields = []
    for one in columns.fields:
        if not _NAME.fullmatch(one.name):
            raise DeclarationError(
                f"Column {one.name!r} can't be a field of Avro.",
                code="avro-name",
                remedy="Rename it: letters, digits and _, not beginning with a digit.",
            )
        kind = _kind(one.dataType, f"{path}_{one.name}" if path else one.name)
        # Every column of Spark may become null by an outer join or a cast: null is always allowed.
        fields.append({"name": one.name, "type": ["null", kind], "default": None})
    return {"type": "record", "name": name, "fields": fields}


def _kind(kind: DataType, path: str) -> Any:
    from pyspark.sql import types as T  # noqa: N812

    simple: dict[type[DataType], Any] = {
        T.BooleanType: "boolean",
        T.ByteType: "int",
        T.ShortType: "int",
        T.IntegerType: "int",
        T.LongType: "long",
        T.FloatType: "float",
        T.DoubleType: "double",
        T.StringType: "string",
        T.BinaryType: "bytes",
        T.DateType: {"type": "int", "logicalType": "date"},
        T.TimestampType: {"type": "long", "logicalType": "timestamp-micros"},
        T.TimestampNTZType: {"type": "long", "logicalType": "local-timestamp-micros"},
    }
    if type(kind) in simple:
        return simple[type(kind)]
    if isinstance(kind, T.DecimalType):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if isinstance(kind, T.ArrayType):
        return {"type": "array", "items": ["null", _kind(kind.elementType, path)]}
    if isinstance(kind, T.MapType) and isinstance(kind.keyType, T.StringType):
        return {"type": "map", "values": ["null", _kind(kind.valueType, path)]}
    if isinstance(kind, T.StructType):
        return _record(kind, path, path)
    raise DeclarationError(
        f"Column {path.replace('_', '.')!r} of type {kind.simpleString()} can't be written as Avro.",
        code="avro-type",
        remedy="Cast it, to STRING for example.",
    )


def _names_a_type(given: Any) -> bool:
    """Whether a type of a field defines a record, an enum or a fixed, here or deeper."""
    if isinstance(given, list):
        return any(map(_names_a_type, given))
    return isinstance(given, dict) and (
        "name" in given or any(_names_a_type(given.get(at)) for at in ("items", "values"))
    )
