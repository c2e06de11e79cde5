"""Protobuf with a registry. Spark has no decoder for it here: messages are decoded in its Python workers, by Arrow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.connectors.base import quoted
from penstock.connectors.formats import PARSED, Writing
from penstock.connectors.registered import Decoder, RegistryFormat
from penstock.errors import DeclarationError, TransientError
from penstock.registry.client import project_registry
from penstock.registry.protobuf import compiled
from penstock.registry.protobuf_rows import columns_of, decoded, encoded, message_name
from penstock.registry.schema import Schema
from penstock.registry.subjects import subject_of
from penstock.registry.wire import header, split

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

    from penstock.connectors.base import Context
    from penstock.connectors.formats import Reading
    from penstock.connectors.schema_ids import SchemaIds

__all__ = ["Protobuf", "protobuf_schema_of"]

_PATHS = 32  # messages at the top of a file that may be the one that is read


@dataclass(frozen=True)
class Protobuf(RegistryFormat):
    """Protobuf messages with their schema's id; the first message of the reader's schema gives the columns.

    Without a schema a source reads with the newest one of its topic, frozen in `schemas/`; a sink makes one from its
    columns (`name` is the message's) whose field numbers stay as they were registered before.
    """

    name: str = "Row"

    kind: ClassVar = "PROTOBUF"

    def writer(self, context: Context, topic: str, rows: DataFrame) -> Schema:
        """The schema that is given, or that of the columns with the numbers that they had."""
        if self.schema:
            return self.given(context)
        before: Schema | None = None
        try:
            found = project_registry(context.settings).version(subject_of("topic", topic))
            before = found.schema if found else None
        except TransientError:
            if context.state is not None:
                raise
        return Schema("PROTOBUF", protobuf_schema_of(rows.schema, self.name, before))

    def decoder(self, reader: Schema, target: str, ids: SchemaIds, schemas: Mapping[int, Schema]) -> Reading:
        """One way for all ids: fields have numbers."""
        return _ProtobufDecoder(reader, target, ids, schemas)

    def encoder(self, schema: Schema, number: int) -> Writing:
        """One schema for all rows."""
        return _ProtobufEncoder(schema, number)


@dataclass(frozen=True)
class _ProtobufDecoder(Decoder):
    def parse(self, raw: DataFrame) -> DataFrame:
        """Decode in Python workers."""
        from pyspark.sql import functions as F  # noqa: N812

        files = compiled(self.reader.text, self.reader.used).SerializeToString()
        writers = {number: _messages(one) for number, one in self.readable().items()}
        columns = f"STRUCT<{columns_of(files).replace('` ', '`: ')}>"
        return raw.withColumn(PARSED, F.when(self.known(), _decode(files, writers, columns)(F.col("value"))))


@dataclass(frozen=True)
class _ProtobufEncoder(Writing):
    schema: Schema
    number: int

    def encode(self, rows: DataFrame) -> Column:
        """Encode in Python workers."""
        from pyspark.sql import functions as F  # noqa: N812

        files = compiled(self.schema.text, self.schema.used).SerializeToString()
        made: Column = _encode(files, header(self.number))(F.struct(*quoted(rows.columns)))
        return made


def protobuf_schema_of(columns: StructType, name: str, before: Schema | None = None) -> str:
    """The .proto of columns; a field that was there keeps its number, one that is gone leaves it unused."""
    numbers = _numbers(before, name) if before and before.kind == "PROTOBUF" else {}
    lines = ['syntax = "proto3";', 'import "google/protobuf/timestamp.proto";', *_message(columns, name, numbers, "")]
    return "\n".join(lines) + "\n"


def _decode(files: bytes, writers: dict[int, dict[tuple[int, ...], str]], columns: str) -> Any:
    import pyarrow as pa
    from pyspark.sql import functions
    from pyspark.sql.pandas.types import to_arrow_type
    from pyspark.sql.types import _parse_datatype_string

    kind = to_arrow_type(_parse_datatype_string(columns), timezone="UTC")

    def decode(values: pa.Array) -> pa.Array:
        rows = []
        for value in values.to_pylist():
            found = split(value) if value is not None else None
            rows.append(decoded(files, writers, *found) if found else None)
        return pa.array(rows, type=kind)

    decode.__annotations__ = {"values": pa.Array, "return": pa.Array}
    udf: Any = functions.arrow_udf
    return udf(decode, returnType=columns)


def _encode(files: bytes, first: bytes) -> Any:
    import pyarrow as pa
    from pyspark.sql import functions

    def encode(rows: pa.Array) -> pa.Array:
        return pa.array([first + encoded(files, row) for row in rows.to_pylist()], type=pa.binary())

    encode.__annotations__ = {"rows": pa.Array, "return": pa.Array}
    udf: Any = functions.arrow_udf
    return udf(encode, returnType="BINARY")


def _messages(schema: Schema) -> dict[tuple[int, ...], str]:
    """The messages at the top of a writer's file by their places."""
    files = compiled(schema.text, schema.used).SerializeToString()
    found = {(number,): message_name(files, (number,)) for number in range(_PATHS)}
    return {path: name for path, name in found.items() if name is not None}


def _numbers(schema: Schema, name: str) -> dict[str, int]:
    """Field numbers by their path: `Row.customer.city`."""
    found: dict[str, int] = {}

    def walk(message: Any, path: str) -> None:
        for one in message.field:
            found[f"{path}.{one.name}"] = one.number
        for nested in message.nested_type:
            walk(nested, f"{path}.{nested.name}")

    for message in compiled(schema.text, schema.used).file[-1].message_type:
        if message.name == name:
            walk(message, name)
    return found


def _message(columns: StructType, name: str, numbers: dict[str, int], path: str) -> list[str]:
    path = f"{path}.{name}" if path else name
    here = {key: number for key, number in numbers.items() if key.rpartition(".")[0] == path}
    free = max(here.values(), default=0) + 1
    lines: list[str] = []
    nested: list[str] = []
    for one in columns.fields:
        number = here.get(f"{path}.{one.name}")
        if number is None:
            number, free = free, free + 1
        kind = _kind(one.dataType, one.name, numbers, path, nested)
        label = "" if kind.startswith(("repeated ", "map<")) else "optional "
        lines.append(f"  {label}{kind} {one.name} = {number};")
    return [f"message {name} {{", *(f"  {line}" for line in nested), *lines, "}"]


def _kind(kind: DataType, name: str, numbers: dict[str, int], path: str, nested: list[str]) -> str:
    from pyspark.sql import types as T  # noqa: N812

    simple: dict[type[DataType], str] = {
        T.BooleanType: "bool",
        T.ByteType: "int32",
        T.ShortType: "int32",
        T.IntegerType: "int32",
        T.LongType: "int64",
        T.FloatType: "float",
        T.DoubleType: "double",
        T.StringType: "string",
        T.BinaryType: "bytes",
        T.TimestampType: "google.protobuf.Timestamp",
    }
    if type(kind) in simple:
        return simple[type(kind)]
    if isinstance(kind, T.ArrayType) and not isinstance(kind.elementType, T.ArrayType | T.MapType):
        return f"repeated {_kind(kind.elementType, name, numbers, path, nested)}"
    if isinstance(kind, T.MapType) and isinstance(kind.keyType, T.StringType):
        return f"map<string, {_kind(kind.valueType, name, numbers, path, nested)}>"
    if isinstance(kind, T.StructType):
        made = "".join(part.capitalize() for part in name.split("_"))
        nested += _message(kind, made, numbers, path)
        return made
    raise DeclarationError(
        f"Column {name!r} of type {kind.simpleString()} can't be written as Protobuf.",
        code="protobuf-type",
        remedy="Cast it, to STRING for example.",
    )
