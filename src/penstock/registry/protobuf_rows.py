"""Protobuf messages as rows and back, by descriptors that came with a schema."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.message import DecodeError

from penstock.registry.wire import message_path

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor
    from google.protobuf.message import Message

__all__ = ["columns_of", "decoded", "encoded", "message_name"]

Field = Any  # a field's descriptor: the stubs know two classes for it
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DEPTH = 16
_SIMPLE = {
    FieldDescriptor.TYPE_DOUBLE: "DOUBLE",
    FieldDescriptor.TYPE_FLOAT: "FLOAT",
    FieldDescriptor.TYPE_INT64: "BIGINT",
    FieldDescriptor.TYPE_SINT64: "BIGINT",
    FieldDescriptor.TYPE_SFIXED64: "BIGINT",
    FieldDescriptor.TYPE_UINT64: "DECIMAL(20,0)",
    FieldDescriptor.TYPE_FIXED64: "DECIMAL(20,0)",
    FieldDescriptor.TYPE_INT32: "INT",
    FieldDescriptor.TYPE_SINT32: "INT",
    FieldDescriptor.TYPE_SFIXED32: "INT",
    FieldDescriptor.TYPE_UINT32: "BIGINT",
    FieldDescriptor.TYPE_FIXED32: "BIGINT",
    FieldDescriptor.TYPE_BOOL: "BOOLEAN",
    FieldDescriptor.TYPE_STRING: "STRING",
    FieldDescriptor.TYPE_BYTES: "BINARY",
    FieldDescriptor.TYPE_ENUM: "STRING",
}
_WRAPPED = {
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
}
_TIME = "google.protobuf.Timestamp"
_BIG = (FieldDescriptor.TYPE_UINT64, FieldDescriptor.TYPE_FIXED64)


def columns_of(files: bytes) -> str:
    """The columns of the first message of a schema, as DDL."""
    return _fields(_first(files), 0, " ")


def message_name(files: bytes, path: tuple[int, ...]) -> str | None:
    """The name of a message by its place in the file, None if there is none there."""
    file = FileDescriptorSet.FromString(files).file[-1]
    messages, names = file.message_type, []
    for number in path:
        if number >= len(messages):
            return None
        names.append(messages[number].name)
        messages = messages[number].nested_type
    return ".".join(names)


def decoded(files: bytes, writers: dict[int, dict[tuple[int, ...], str]], number: int, body: bytes) -> Any:
    """A row of the reader's schema out of a message of any schema, None if it can't be had."""
    split = message_path(body)
    if split is None:
        return None
    descriptor = _first(files)
    if writers.get(number, {}).get(split[0]) != descriptor.name:
        return None
    made = message_factory.GetMessageClass(descriptor)()
    try:
        made.ParseFromString(split[1])
    except (DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return _row(made)


def encoded(files: bytes, row: dict[str, Any]) -> bytes:
    """A row as the first message of a schema, with the path to it."""
    made = message_factory.GetMessageClass(_first(files))()
    _fill(made, row)
    return b"\x00" + made.SerializeToString()


@lru_cache(maxsize=64)
def _first(files: bytes) -> Descriptor:
    pool = descriptor_pool.DescriptorPool()
    told = FileDescriptorSet.FromString(files)
    for one in told.file:
        pool.Add(one)
    file = told.file[-1]
    found: Descriptor = pool.FindMessageTypeByName(f"{file.package}.{file.message_type[0].name}".lstrip("."))
    return found


def _fields(message: Descriptor, depth: int, colon: str) -> str:
    return ", ".join(f"`{one.name}`{colon}{_kind(one, depth)}" for one in message.fields)


def _kind(one: Field, depth: int) -> str:
    if _is_map(one):
        key, value = one.message_type.fields_by_name["key"], one.message_type.fields_by_name["value"]
        return f"MAP<{_kind(key, depth + 1)}, {_kind(value, depth + 1)}>"
    kind = _single(one, depth)
    return f"ARRAY<{kind}>" if one.is_repeated else kind


def _single(one: Field, depth: int) -> str:
    if one.message_type is None:
        return _SIMPLE[one.type]
    name = one.message_type.full_name
    if name == _TIME:
        return "TIMESTAMP"
    if name in _WRAPPED:
        return _SIMPLE[one.message_type.fields_by_name["value"].type]
    if depth >= _DEPTH or not one.message_type.fields:
        return "BINARY"  # a message within itself, or without fields: as it lies
    return f"STRUCT<{_fields(one.message_type, depth + 1, ': ')}>"


def _is_map(one: Field) -> bool:
    return one.message_type is not None and bool(one.message_type.GetOptions().map_entry)


def _row(message: Message, depth: int = 0) -> dict[str, Any]:
    return {one.name: _value(message, one, depth) for one in message.DESCRIPTOR.fields}


def _value(message: Message, one: Field, depth: int) -> Any:
    if one.has_presence and not message.HasField(one.name):
        return None
    value = getattr(message, one.name)
    if _is_map(one):
        of = one.message_type.fields_by_name["value"]
        return [(key, _plain(of, found, depth + 1)) for key, found in value.items()]
    if one.is_repeated:
        return [_plain(one, found, depth) for found in value]
    return _plain(one, value, depth)


def _plain(one: Field, value: Any, depth: int) -> Any:
    if one.enum_type is not None:
        known = one.enum_type.values_by_number.get(value)
        return known.name if known else str(value)
    if one.type in _BIG:
        return Decimal(value)
    if one.message_type is None:
        return value
    name = one.message_type.full_name
    if name == _TIME:
        return _EPOCH + timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
    if name in _WRAPPED:
        return _plain(one.message_type.fields_by_name["value"], value.value, depth)
    if depth >= _DEPTH or not one.message_type.fields:
        return value.SerializeToString()
    return _row(value, depth + 1)


def _fill(message: Message, row: dict[str, Any]) -> None:
    fields: list[Field] = list(message.DESCRIPTOR.fields)
    for one in fields:
        value = row.get(one.name)
        if value is None:
            continue
        if _is_map(one):
            of = one.message_type.fields_by_name["value"]
            for key, found in dict(value).items():
                if of.message_type is not None:
                    _put(getattr(message, one.name)[key], of, found)
                else:
                    getattr(message, one.name)[key] = _native(of, found)
        elif one.is_repeated:
            for found in value:
                if one.message_type is not None:
                    _put(getattr(message, one.name).add(), one, found)
                else:
                    getattr(message, one.name).append(_native(one, found))
        elif one.message_type is not None:
            getattr(message, one.name).SetInParent()
            _put(getattr(message, one.name), one, value)
        else:
            setattr(message, one.name, _native(one, value))


def _put(message: Any, one: Field, value: Any) -> None:
    name = one.message_type.full_name
    if name == _TIME:
        micros = (value - _EPOCH) // timedelta(microseconds=1)
        message.seconds, message.nanos = micros // 1_000_000, micros % 1_000_000 * 1000
    elif name in _WRAPPED:
        message.value = _native(one.message_type.fields_by_name["value"], value)
    elif isinstance(value, bytes):
        message.ParseFromString(value)
    else:
        _fill(message, value)


def _native(one: Field, value: Any) -> Any:
    if one.enum_type is not None:
        known = one.enum_type.values_by_name.get(str(value))
        return known.number if known else int(value)
    return int(value) if one.type in _BIG else value
