"""What a pair of schemas is, and short ways to write one."""

from __future__ import annotations

import json
from dataclasses import dataclass

Fields = dict[str, object]


@dataclass(frozen=True)
class Pair:
    """An old schema, a new one, and whether each reads the rows of the other."""

    name: str
    kind: str
    old: str
    new: str
    backward: bool
    forward: bool
    names: str = ""


@dataclass(frozen=True)
class History:
    """Versions, oldest first, a new schema, and the levels that let it in."""

    name: str
    kind: str
    versions: tuple[str, ...]
    new: str
    allowed: frozenset[str]


def f(name: str, kind: object, **more: object) -> Fields:
    """A field of an Avro record."""
    return {"name": name, "type": kind, **more}


def record(*fields: Fields, name: str = "Order", **more: object) -> Fields:
    """An Avro record."""
    return {"type": "record", "name": name, "fields": list(fields), **more}


def status(*symbols: str, **more: object) -> Fields:
    """An Avro record with one field, an enum of these symbols."""
    return record(f("status", {"type": "enum", "name": "Status", "symbols": list(symbols), **more}))


def obj(properties: Fields, *required: str, **more: object) -> Fields:
    """A JSON Schema of an object; an open one unless it says otherwise."""
    return {"type": "object", "properties": properties, **({"required": list(required)} if required else {}), **more}


def closed(properties: Fields, *required: str) -> Fields:
    """A JSON Schema of an object with no other properties."""
    return obj(properties, *required, additionalProperties=False)


def proto(body: str, syntax: str = "proto3", package: str = "shop") -> str:
    """A Protobuf file."""
    return f'syntax = "{syntax}";\npackage {package};\n{body}\n'


def order(body: str, syntax: str = "proto3") -> str:
    """A Protobuf file with one message."""
    return proto(f"message Order {{ {body} }}", syntax)


def avro(name: str, old: object, new: object, backward: bool, forward: bool, names: str = "") -> Pair:
    """A pair of Avro schemas."""
    return Pair(f"avro: {name}", "AVRO", json.dumps(old), json.dumps(new), backward, forward, names)


def json_(name: str, old: object, new: object, backward: bool, forward: bool, names: str = "") -> Pair:
    """A pair of JSON Schemas."""
    return Pair(f"json: {name}", "JSON", json.dumps(old), json.dumps(new), backward, forward, names)


def value(name: str, old: object, new: object, backward: bool, forward: bool) -> Pair:
    """A pair of JSON Schemas of an object, whose one property "item" changes."""
    return json_(name, obj({"item": old}), obj({"item": new}), backward, forward, "item")


def proto_(name: str, old: str, new: str, backward: bool, forward: bool, names: str = "") -> Pair:
    """A pair of Protobuf files."""
    return Pair(f"protobuf: {name}", "PROTOBUF", old, new, backward, forward, names)


def field_(name: str, old: str, new: str, allowed: bool, syntax: str = "proto3") -> Pair:
    """A pair of Protobuf messages, whose one field "item" changes its type; the answer is the same both ways."""
    before, after = (order(f"{kind} item = 1;", syntax) for kind in (old, new))
    return proto_(name, before, after, allowed, allowed, "" if allowed else "item")


ID = f("id", "long")
STRING = {"type": "string"}
INTEGER = {"type": "integer"}
NUMBER = {"type": "number"}
MODERN: Fields = {"$schema": "https://json-schema.org/draft/2020-12/schema"}

PROMOTIONS = (
    ("int", "long"),
    ("int", "float"),
    ("int", "double"),
    ("long", "float"),
    ("long", "double"),
    ("float", "double"),
)


def category(*fields: Fields) -> Fields:
    """An Avro record that contains itself."""
    return record(f("title", "string"), f("parent", ["null", "Category"]), *fields, name="Category")


def payment(*fields: Fields, name: str = "Payment") -> Fields:
    """An Avro record with a record in it."""
    return record(ID, f("payment", record(f("cents", "long"), *fields, name=name)))
