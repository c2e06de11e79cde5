"""Protobuf: a .proto text compiled, and which reader can take what which writer wrote, by Confluent's rules."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)

from penstock.errors import DeclarationError
from penstock.registry.schema import Problem

__all__ = ["compiled", "protobuf_problems"]

_FILE = "schema.proto"
_KINDS = {
    "a whole number": ("INT32", "INT64", "UINT32", "UINT64", "BOOL", "ENUM"),
    "a signed number": ("SINT32", "SINT64"),
    "text or bytes": ("STRING", "BYTES"),
    "a fixed 32-bit number": ("FIXED32", "SFIXED32"),
    "a fixed 64-bit number": ("FIXED64", "SFIXED64"),
    "a float": ("FLOAT",),
    "a double": ("DOUBLE",),
}
_TEXT = "text or bytes"


@lru_cache(maxsize=256)
def compiled(text: str, used: tuple[tuple[str, str], ...] = (), place: str = _FILE) -> FileDescriptorSet:
    """The descriptors of a schema, its own file last; `used` are imported files by name."""
    with tempfile.TemporaryDirectory() as folder:
        for name, content in (*used, (_FILE, text)):
            path = (Path(folder) / name).resolve()
            if Path(folder).resolve() not in path.parents:
                raise _invalid(f"{name} is outside of its folder", place)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
        out = Path(folder) / "compiled"
        words = [f"-I{folder}", f"--descriptor_set_out={out}", "--include_imports", _FILE]
        done = subprocess.run(
            [sys.executable, "-m", "grpc_tools.protoc", *words], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            lines = [line.strip() for line in done.stderr.splitlines()]
            first = next((line for line in lines if ".proto:" in line), lines[-1] if lines else "protoc refuses it")
            raise _invalid(first.removeprefix(f"{_FILE}:"), place)
        return FileDescriptorSet.FromString(out.read_bytes())


def protobuf_problems(reader: FileDescriptorSet, writer: FileDescriptorSet) -> list[Problem]:
    """Where the reader can't take what the writer wrote."""
    found: list[Problem] = []
    old, new = writer.file[-1], reader.file[-1]
    if old.package != new.package:
        found.append(
            Problem(
                "package", f"it was {old.package or 'none'} and is {new.package or 'none'}", "the package as it was"
            )
        )
    sides = (_Side(_types(reader), new.syntax == "proto3"), _Side(_types(writer), old.syntax == "proto3"))
    _compare_all(list(new.message_type), list(old.message_type), "", found, sides, set())
    return found


@dataclass(frozen=True)
class _Side:
    """All messages of a schema by their names, and whether a field without a label has none."""

    types: dict[str, DescriptorProto]
    unlabelled: bool

    def label(self, one: FieldDescriptorProto) -> int | None:
        singular = one.label == FieldDescriptorProto.LABEL_OPTIONAL
        return None if self.unlabelled and singular and not one.proto3_optional else one.label


_Sides = tuple[_Side, _Side]


def _compare_all(
    new: list[DescriptorProto],
    old: list[DescriptorProto],
    where: str,
    found: list[Problem],
    sides: _Sides,
    begun: set[tuple[int, int]],
) -> None:
    """Messages of the same name; one that is gone can't be read any more."""
    by_name = {one.name: one for one in new}
    for one in old:
        if one.options.map_entry:
            continue
        path = f"{where}.{one.name}" if where else one.name
        if one.name in by_name:
            _compare(by_name[one.name], one, path, found, sides, begun)
        else:
            found.append(Problem(path, "the message is gone", "the message as it was, unused if need be"))


def _compare(
    new: DescriptorProto,
    old: DescriptorProto,
    where: str,
    found: list[Problem],
    sides: _Sides,
    begun: set[tuple[int, int]],
) -> None:
    if (id(new), id(old)) in begun:  # a message within itself
        return
    begun.add((id(new), id(old)))
    _compare_groups(new, old, where, found)
    fields, before = ({one.number: one for one in message.field} for message in (new, old))
    surviving = {_group(old, one) for one in old.field if one.number in fields} - {""}
    groups = {one.name for one in new.oneof_decl}
    for number in sorted({*fields, *before}):
        one, was = fields.get(number), before.get(number)
        if one is None:
            assert was is not None
            group = _group(old, was)
            if group and (group in surviving or group in groups):
                found.append(Problem(f"{where}.{was.name}", f"it is gone from oneof {group}", "the field as it was"))
            elif was.label == FieldDescriptorProto.LABEL_REQUIRED:
                found.append(Problem(f"{where}.{was.name}", "a required field is gone", "the field as it was"))
        elif was is None:
            if one.label == FieldDescriptorProto.LABEL_REQUIRED:
                found.append(
                    Problem(f"{where}.{one.name}", "a required field is new: older messages lack it", "optional")
                )
        else:
            _compare_field(one, was, f"{where}.{one.name}", found, sides, begun)
    _compare_all(list(new.nested_type), list(old.nested_type), where, found, sides, begun)


def _compare_groups(new: DescriptorProto, old: DescriptorProto, where: str, found: list[Problem]) -> None:
    """Fields that come together in a oneof: only one of them can be set from then on."""
    before = {one.number: one for one in old.field}
    for index, group in enumerate(new.oneof_decl):
        members = [one for one in new.field if one.HasField("oneof_index") and one.oneof_index == index]
        origins = set()
        for one in members:
            if one.number in before and not one.proto3_optional:
                was = before[one.number]
                origins.add(_group(old, was) or f"field {one.number}")
        if len(origins) > 1:
            found.append(
                Problem(
                    f"{where}.{group.name}",
                    "fields that could be set together are in one oneof",
                    "one existing field at most in a new oneof",
                )
            )


def _compare_field(
    new: FieldDescriptorProto,
    old: FieldDescriptorProto,
    where: str,
    found: list[Problem],
    sides: _Sides,
    begun: set[tuple[int, int]],
) -> None:
    types, before = sides[0].types, sides[1].types
    kind, was = _kind(new, types), _kind(old, before)
    if kind != was:
        found.append(Problem(where, f"it was {_word(old)} and is {_word(new)}", f"{was}: {_like(was)}"))
    elif kind == "a map":
        for one, other in zip(types[new.type_name].field, before[old.type_name].field, strict=True):
            _compare_field(one, other, f"{where}.{one.name}", found, sides, begun)
    elif kind == "a message":
        name, called = _local(new.type_name, types), _local(old.type_name, before)
        if name != called:
            found.append(Problem(where, f"it was {called} and is {name}", f"{called}, or a new field number"))
        elif new.type_name in types and old.type_name in before:
            _compare(types[new.type_name], before[old.type_name], where, found, sides, begun)
    elif kind != _TEXT:
        labels = sides[0].label(new), sides[1].label(old)
        if None not in labels and labels[0] != labels[1]:
            said = "a number has another label (optional, required, repeated)"
            found.append(Problem(where, said, "the label as it was; text and bytes may change theirs"))


def _group(message: DescriptorProto, one: FieldDescriptorProto) -> str:
    """The oneof that a field is in; an optional field of proto3 is in none that a person wrote."""
    if not one.HasField("oneof_index") or one.proto3_optional:
        return ""
    return str(message.oneof_decl[one.oneof_index].name)


def _word(one: FieldDescriptorProto) -> str:
    kind = FieldDescriptorProto.Type.Name(one.type).removeprefix("TYPE_").lower()
    return one.type_name.lstrip(".") if one.type_name else kind


def _kind(one: FieldDescriptorProto, types: dict[str, DescriptorProto]) -> str:
    kind = FieldDescriptorProto.Type.Name(one.type).removeprefix("TYPE_")
    if kind in ("MESSAGE", "GROUP"):
        return "a map" if one.type_name in types and types[one.type_name].options.map_entry else "a message"
    return next(group for group, members in _KINDS.items() if kind in members)


def _like(kind: str) -> str:
    members = _KINDS.get(kind)
    return ", ".join(one.lower() for one in members) if members else "the type as it was"


def _types(files: FileDescriptorSet) -> dict[str, DescriptorProto]:
    """Every message by its full name, as fields refer to it."""
    found: dict[str, DescriptorProto] = {}

    def walk(messages: list[DescriptorProto], prefix: str) -> None:
        for one in messages:
            found[f"{prefix}.{one.name}"] = one
            walk(list(one.nested_type), f"{prefix}.{one.name}")

    for file in files.file:
        walk(list(file.message_type), _prefix(file))
    return found


def _prefix(file: FileDescriptorProto) -> str:
    return f".{file.package}" if file.package else ""


def _local(name: str, types: dict[str, DescriptorProto]) -> str:
    """A type's name without its package."""
    parts = name.lstrip(".").split(".")
    for cut in range(len(parts)):
        if cut and "." + ".".join(parts[:cut]) in types:
            return ".".join(parts[cut - 1 :])
    return parts[-1]


def _invalid(said: str, place: str) -> DeclarationError:
    return DeclarationError(
        f"A Protobuf schema is not valid: {said}", code="schema-invalid", place=place, remedy="Correct it there."
    )
