"""Pairs of schemas with the answer of Confluent's schema registry: the facts that our own checker is held against.

An answer is that of Confluent's source (8.5, policy STRICT); the Avro ones were also asked of Apache Avro 1.12.1.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

__all__ = ["HISTORIES", "PAIRS", "History", "Pair"]

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


AVRO = (
    avro("a field with a default is added", record(ID), record(ID, f("note", "string", default="")), True, True),
    avro("a field without a default is added", record(ID), record(ID, f("note", "string")), False, True, "note"),
    avro("a field with a default is removed", record(ID, f("note", "string", default="")), record(ID), True, True),
    avro("a field without a default is removed", record(ID, f("note", "string")), record(ID), True, False, "note"),
    avro(
        "a nullable field with the default null is added",
        record(ID),
        record(ID, f("coupon", ["null", "string"], default=None)),
        True,
        True,
    ),
    avro(  # null as a branch is no default
        "a nullable field without a default is added",
        record(ID),
        record(ID, f("coupon", ["null", "string"])),
        False,
        True,
        "coupon",
    ),
    *(
        avro(f"{narrow} becomes {wide}", record(f("total", narrow)), record(f("total", wide)), True, False, "total")
        for narrow, wide in PROMOTIONS
    ),
    *(
        avro(f"{wide} becomes {narrow}", record(f("total", wide)), record(f("total", narrow)), False, True, "total")
        for narrow, wide in PROMOTIONS
    ),
    avro("string becomes bytes", record(f("sku", "string")), record(f("sku", "bytes")), True, True),
    avro("bytes becomes string", record(f("sku", "bytes")), record(f("sku", "string")), True, True),
    avro("int becomes string", record(f("sku", "int")), record(f("sku", "string")), False, False, "sku"),
    avro("boolean becomes int", record(f("paid", "boolean")), record(f("paid", "int")), False, False, "paid"),
    avro("a bare int becomes a bare long", "int", "long", True, False),
    avro(
        "a union gets a branch",
        record(f("ref", ["null", "string"])),
        record(f("ref", ["null", "string", "long"])),
        True,
        False,
        "ref",
    ),
    avro(
        "a union loses a branch",
        record(f("ref", ["null", "string", "long"])),
        record(f("ref", ["null", "string"])),
        False,
        True,
        "ref",
    ),
    avro(
        "a union's branches change places",
        record(f("ref", ["null", "string"])),
        record(f("ref", ["string", "null"])),
        True,
        True,
    ),
    avro("null is added", record(f("ref", "string")), record(f("ref", ["null", "string"])), True, False, "ref"),
    avro("null is removed", record(f("ref", ["null", "string"])), record(f("ref", "string")), False, True, "ref"),
    avro(
        "a union's branch is promoted",
        record(f("total", ["null", "int"])),
        record(f("total", ["null", "long"])),
        True,
        False,
        "total",
    ),
    avro(
        "a union becomes the one type that reads all of its branches",
        record(f("total", ["int", "long"])),
        record(f("total", "long")),
        True,
        True,
    ),
    avro("an enum gets a symbol", status("NEW", "PAID"), status("NEW", "PAID", "SENT"), True, False, "SENT"),
    avro("an enum loses a symbol", status("NEW", "PAID", "SENT"), status("NEW", "PAID"), False, True, "SENT"),
    avro(
        "an enum with a default gets a symbol",
        status("NEW", "PAID", default="NEW"),
        status("NEW", "PAID", "SENT", default="NEW"),
        True,
        True,
    ),
    avro(
        "an enum with a default loses a symbol",
        status("NEW", "PAID", "SENT", default="NEW"),
        status("NEW", "PAID", default="NEW"),
        True,
        True,
    ),
    avro(  # the reader's default counts, and the old one has none
        "an enum gets a symbol and a default at once",
        status("NEW", "PAID"),
        status("NEW", "PAID", "SENT", default="NEW"),
        True,
        False,
        "SENT",
    ),
    avro(  # a field's default isn't the enum's default
        "an enum loses a symbol, and only the field has a default",
        status("NEW", "SENT"),
        record(f("status", {"type": "enum", "name": "Status", "symbols": ["NEW"]}, default="NEW")),
        False,
        True,
        "SENT",
    ),
    avro("an enum becomes a string", status("NEW", "PAID"), record(f("status", "string")), False, False, "status"),
    avro("a record is renamed", record(ID), record(ID, name="Purchase"), False, False, "Purchase"),
    avro("a record is renamed with an alias", record(ID), record(ID, name="Purchase", aliases=["Order"]), True, False),
    avro("a record's namespace changes only", record(ID, namespace="shop"), record(ID, namespace="store"), True, True),
    avro(
        "a field is renamed",
        record(ID, f("note", "string")),
        record(ID, f("remark", "string")),
        False,
        False,
    ),
    avro(
        "a field is renamed with an alias",
        record(ID, f("note", "string")),
        record(ID, f("remark", "string", aliases=["note"])),
        True,
        False,
        "note",
    ),
    avro(
        "a field with a default is renamed with an alias",
        record(ID, f("note", "string", default="")),
        record(ID, f("remark", "string", aliases=["note"])),
        True,
        True,
    ),
    avro(
        "a fixed changes its size",
        record(f("hash", {"type": "fixed", "name": "Hash", "size": 16})),
        record(f("hash", {"type": "fixed", "name": "Hash", "size": 32})),
        False,
        False,
        "hash",
    ),
    avro(
        "a fixed becomes bytes",
        record(f("hash", {"type": "fixed", "name": "Hash", "size": 16})),
        record(f("hash", "bytes")),
        False,
        False,
        "hash",
    ),
    avro(
        "an array's items are promoted",
        record(f("lines", {"type": "array", "items": "int"})),
        record(f("lines", {"type": "array", "items": "long"})),
        True,
        False,
        "lines",
    ),
    avro(
        "a map's values change their type",
        record(f("labels", {"type": "map", "values": "string"})),
        record(f("labels", {"type": "map", "values": "int"})),
        False,
        False,
        "labels",
    ),
    avro(
        "an array becomes a map",
        record(f("labels", {"type": "array", "items": "string"})),
        record(f("labels", {"type": "map", "values": "string"})),
        False,
        False,
        "labels",
    ),
    avro("a nested record gets a field", payment(), payment(f("bank", "string")), False, True, "bank"),
    avro(
        "a nested record gets a field with a default",
        payment(),
        payment(f("bank", "string", default="")),
        True,
        True,
    ),
    avro("a nested record is renamed", payment(), payment(name="Settlement"), False, False, "Settlement"),
    avro(
        "a recursive record gets a field with a default", category(), category(f("rank", "int", default=0)), True, True
    ),
    avro("a recursive record gets a field", category(), category(f("rank", "int")), False, True, "rank"),
    avro(
        "a logical type is added",
        record(f("at", "long")),
        record(f("at", {"type": "long", "logicalType": "timestamp-millis"})),
        True,
        True,
    ),
    avro(  # surprising: Avro's compatibility doesn't look at logical types
        "a decimal changes its scale",
        record(f("price", {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2})),
        record(f("price", {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 4})),
        True,
        True,
    ),
    avro(
        "a record among a union's branches gets a field",
        record(f("buyer", ["null", record(name="Person")])),
        record(f("buyer", ["null", record(f("age", "int"), name="Person")])),
        False,
        True,
        "buyer",
    ),
    avro("a doc is added", record(ID), record(f("id", "long", doc="the number"), doc="an order"), True, True),
    avro("fields change places", record(ID, f("note", "string")), record(f("note", "string"), ID), True, True),
    avro("an order of sorting is added", record(ID), record(f("id", "long", order="descending")), True, True),
    avro(
        "a default changes",
        record(ID, f("note", "string", default="")),
        record(ID, f("note", "string", default="none")),
        True,
        True,
    ),
)


def address(**city: object) -> Fields:
    """A JSON Schema whose property is defined elsewhere in it."""
    return obj({"home": {"$ref": "#/definitions/Address"}}, definitions={"Address": obj({"city": city})})


def shelf(**more: object) -> Fields:
    """A JSON Schema that contains itself."""
    return closed({"label": STRING, "inner": {"type": "array", "items": {"$ref": "#"}}, **more})


def tuple_(*items: object, **more: object) -> Fields:
    """A JSON Schema of an array with a type for each place."""
    return {"type": "array", "items": list(items), **more}


JSON = (
    json_(
        "an optional property is added to an open object",
        obj({"id": INTEGER}),
        obj({"id": INTEGER, "note": STRING}),
        False,
        True,
        "note",
    ),
    json_(
        "an optional property is added to a closed object",
        closed({"id": INTEGER}),
        closed({"id": INTEGER, "note": STRING}),
        True,
        False,
        "note",
    ),
    json_(
        "a property that the others' schema covers is added",
        obj({"id": INTEGER}, additionalProperties=STRING),
        obj({"id": INTEGER, "note": STRING}, additionalProperties=STRING),
        True,
        True,
    ),
    json_(
        "a property that the others' schema doesn't cover is added",
        obj({"id": INTEGER}, additionalProperties=STRING),
        obj({"id": INTEGER, "weight": INTEGER}, additionalProperties=STRING),
        False,
        False,
        "weight",
    ),
    json_(
        "a property narrower than the others' schema is added",
        obj({"id": INTEGER}, additionalProperties=NUMBER),
        obj({"id": INTEGER, "weight": INTEGER}, additionalProperties=NUMBER),
        False,
        True,
        "weight",
    ),
    json_(
        "a required property that the others' schema covers is added",
        obj({"id": INTEGER}, additionalProperties=STRING),
        obj({"id": INTEGER, "note": STRING}, "note", additionalProperties=STRING),
        False,
        True,
        "note",
    ),
    json_(
        "a property that a pattern covers is added",
        obj({"id": INTEGER}, patternProperties={"^tag_": STRING}),
        obj({"id": INTEGER, "tag_gift": STRING}, patternProperties={"^tag_": STRING}),
        True,
        True,
    ),
    json_(  # surprising: with patternProperties, Confluent takes an object for closed to names that match none of them
        "a property that no pattern covers is added",
        obj({"id": INTEGER}, patternProperties={"^tag_": STRING}),
        obj({"id": INTEGER, "note": STRING}, patternProperties={"^tag_": STRING}),
        True,
        False,
        "note",
    ),
    json_(
        "a property is removed from an open object",
        obj({"id": INTEGER, "note": STRING}),
        obj({"id": INTEGER}),
        True,
        False,
        "note",
    ),
    json_(
        "a property is removed from a closed object",
        closed({"id": INTEGER, "note": STRING}),
        closed({"id": INTEGER}),
        False,
        True,
        "note",
    ),
    json_(
        "a property that the others' schema covers is removed",
        obj({"id": INTEGER, "weight": INTEGER}, additionalProperties=NUMBER),
        obj({"id": INTEGER}, additionalProperties=NUMBER),
        True,
        False,
        "weight",
    ),
    json_(
        "a required property is removed from an open object",
        obj({"id": INTEGER, "note": STRING}, "note"),
        obj({"id": INTEGER}),
        True,
        False,
        "note",
    ),
    json_(
        "a required property is added to a closed object",
        closed({"id": INTEGER}, "id"),
        closed({"id": INTEGER, "note": STRING}, "id", "note"),
        False,
        False,
        "note",
    ),
    json_(
        "a required property with a default is added to a closed object",
        closed({"id": INTEGER}, "id"),
        closed({"id": INTEGER, "note": {**STRING, "default": ""}}, "id", "note"),
        True,
        False,
        "note",
    ),
    json_(  # allowed under the policy LENIENT only
        "a required property with a default is added to an open object",
        obj({"id": INTEGER}, "id"),
        obj({"id": INTEGER, "note": {**STRING, "default": ""}}, "id", "note"),
        False,
        True,
        "note",
    ),
    json_(
        "a property becomes required",
        obj({"id": INTEGER, "note": STRING}),
        obj({"id": INTEGER, "note": STRING}, "note"),
        False,
        True,
        "note",
    ),
    json_(
        "a property with a default becomes required",
        obj({"id": INTEGER, "note": {**STRING, "default": ""}}),
        obj({"id": INTEGER, "note": {**STRING, "default": ""}}, "note"),
        True,
        True,
    ),
    json_(
        "a property becomes optional",
        obj({"id": INTEGER, "note": STRING}, "note"),
        obj({"id": INTEGER, "note": STRING}),
        True,
        False,
        "note",
    ),
    json_(  # surprising: Confluent compares "required" for the names under "properties" only
        "a name that is no property becomes required",
        obj({"id": INTEGER}, "id"),
        obj({"id": INTEGER}, "id", "email"),
        True,
        True,
    ),
    json_(
        "a property of any value is added to an open object",
        obj({"id": INTEGER}),
        obj({"id": INTEGER, "extra": True}),
        True,
        True,
    ),
    json_(
        "a property that must be absent is removed from a closed object",
        closed({"id": INTEGER, "secret": False}),
        closed({"id": INTEGER}),
        True,
        True,
    ),
    json_(
        "an object becomes closed", obj({"id": INTEGER}), closed({"id": INTEGER}), False, True, "additionalProperties"
    ),
    json_("an object becomes open", closed({"id": INTEGER}), obj({"id": INTEGER}), True, False, "additionalProperties"),
    json_(
        "an open object gets a schema for other properties",
        obj({"id": INTEGER}),
        obj({"id": INTEGER}, additionalProperties=STRING),
        False,
        True,
        "additionalProperties",
    ),
    json_(
        "a closed object gets a schema for other properties",
        closed({"id": INTEGER}),
        obj({"id": INTEGER}, additionalProperties=STRING),
        True,
        False,
        "additionalProperties",
    ),
    json_(
        "a dependency is added",
        obj({"coupon": STRING, "customer": STRING}),
        obj({"coupon": STRING, "customer": STRING}, dependencies={"coupon": ["customer"]}),
        False,
        True,
        "coupon",
    ),
    json_(
        "a dependency on a schema is added",
        obj({"coupon": STRING, "customer": STRING}),
        obj({"coupon": STRING, "customer": STRING}, dependencies={"coupon": {"required": ["customer"]}}),
        False,
        True,
        "coupon",
    ),
    json_(
        "a property is added to an object closed by unevaluatedProperties",
        obj({"id": INTEGER}, unevaluatedProperties=False, **MODERN),
        obj({"id": INTEGER, "note": STRING}, unevaluatedProperties=False, **MODERN),
        True,
        False,
        "note",
    ),
    json_("fewer properties are allowed", obj({}, maxProperties=9), obj({}, maxProperties=5), False, True),
    value("string becomes integer", STRING, INTEGER, False, False),
    value("integer becomes number", INTEGER, NUMBER, True, False),
    value("number becomes integer", NUMBER, INTEGER, False, True),
    value("string gets null", STRING, {"type": ["string", "null"]}, True, False),
    value("a list of types loses one", {"type": ["string", "null"]}, STRING, False, True),
    value(
        "an enum is extended",
        {"type": "string", "enum": ["new", "paid"]},
        {"type": "string", "enum": ["new", "paid", "sent"]},
        True,
        False,
    ),
    value("an enum is narrowed", {"enum": ["new", "paid", "sent"]}, {"enum": ["new", "paid"]}, False, True),
    value("an enum's value is replaced", {"enum": ["new", "paid"]}, {"enum": ["new", "sent"]}, False, False),
    value("an enum is added to a string", STRING, {"type": "string", "enum": ["new", "paid"]}, False, True),
    value("a const changes", {"const": "EUR"}, {"const": "USD"}, False, False),
    # surprising: an enum reads what a const wrote, but Confluent never compares two kinds of schema
    value("a const becomes an enum with it", {"const": "EUR"}, {"enum": ["EUR", "USD"]}, False, False),
    value("a maximum is raised", {**NUMBER, "maximum": 10}, {**NUMBER, "maximum": 20}, True, False),
    value("a maximum is lowered", {**NUMBER, "maximum": 20}, {**NUMBER, "maximum": 10}, False, True),
    value("a maximum is removed", {**NUMBER, "maximum": 20}, NUMBER, True, False),
    value("a minimum is added", NUMBER, {**NUMBER, "minimum": 0}, False, True),
    value(
        "an exclusiveMinimum is raised",
        {**NUMBER, "exclusiveMinimum": 0},
        {**NUMBER, "exclusiveMinimum": 1},
        False,
        True,
    ),
    value("a minimum is lowered", {**NUMBER, "minimum": 5}, {**NUMBER, "minimum": 0}, True, False),
    value("a divisor is replaced by its own", {**INTEGER, "multipleOf": 10}, {**INTEGER, "multipleOf": 5}, True, False),
    value("a pattern is added", STRING, {**STRING, "pattern": "^A"}, False, True),
    value("a pattern is removed", {**STRING, "pattern": "^A"}, STRING, True, False),
    value("a pattern changes", {**STRING, "pattern": "^A"}, {**STRING, "pattern": "^[AB]"}, False, False),
    value("a maxLength is raised", {**STRING, "maxLength": 10}, {**STRING, "maxLength": 20}, True, False),
    value("a maxLength is added", STRING, {**STRING, "maxLength": 20}, False, True),
    value("a minLength is raised", {**STRING, "minLength": 1}, {**STRING, "minLength": 2}, False, True),
    value(  # surprising: Confluent doesn't compare formats
        "a format is added", STRING, {**STRING, "format": "date"}, True, True
    ),
    value(
        "an array's items are widened",
        {"type": "array", "items": INTEGER},
        {"type": "array", "items": NUMBER},
        True,
        False,
    ),
    value("an array's items get a schema", {"type": "array"}, {"type": "array", "items": STRING}, False, True),
    value("a place is added to an open tuple", tuple_(STRING), tuple_(STRING, INTEGER), False, True),
    value(
        "a place is added to a closed tuple",
        tuple_(STRING, additionalItems=False),
        tuple_(STRING, INTEGER, additionalItems=False),
        True,
        False,
    ),
    json_(
        "a place is added to an open tuple of prefixItems",
        {"type": "array", "prefixItems": [STRING], **MODERN},
        {"type": "array", "prefixItems": [STRING, INTEGER], **MODERN},
        False,
        True,
    ),
    json_(
        "a place that the others' schema covers is added to prefixItems",
        {"type": "array", "prefixItems": [INTEGER], "items": STRING, **MODERN},
        {"type": "array", "prefixItems": [INTEGER, STRING], "items": STRING, **MODERN},
        True,
        True,
    ),
    value("fewer items are allowed", {"type": "array", "maxItems": 9}, {"type": "array", "maxItems": 5}, False, True),
    value("fewer items are enough", {"type": "array", "minItems": 2}, {"type": "array", "minItems": 1}, True, False),
    value("items become unique", {"type": "array"}, {"type": "array", "uniqueItems": True}, False, True),
    value("a oneOf gets a branch", {"oneOf": [STRING, INTEGER]}, {"oneOf": [STRING, INTEGER, obj({})]}, True, False),
    value("an anyOf loses a branch", {"anyOf": [STRING, INTEGER, obj({})]}, {"anyOf": [STRING, INTEGER]}, False, True),
    value(
        "a oneOf's branch is replaced",
        {"oneOf": [STRING, INTEGER]},
        {"oneOf": [STRING, {"type": "boolean"}]},
        False,
        False,
    ),
    value("a string becomes a oneOf with it", STRING, {"oneOf": [STRING, INTEGER]}, True, False),
    value("a oneOf becomes an anyOf", {"oneOf": [STRING, INTEGER]}, {"anyOf": [STRING, INTEGER]}, True, False),
    value(
        "an allOf gets a part",
        {"allOf": [STRING, {"maxLength": 20}]},
        {"allOf": [STRING, {"maxLength": 20}, {"pattern": "^A"}]},
        False,
        True,
    ),
    value("a not excludes more", {"not": INTEGER}, {"not": NUMBER}, False, True),
    value("a schema of anything gets a type", {}, STRING, False, True),
    value("a schema of a type takes anything", STRING, True, True, False),
    json_("a definition changes", address(type="string"), address(type="integer"), False, False, "city"),
    json_("a definition is widened", address(type="integer"), address(type="number"), True, False, "city"),
    json_(
        "a definition under $defs changes",
        obj({"home": {"$ref": "#/$defs/Address"}}, **{"$defs": {"Address": obj({"city": STRING})}}, **MODERN),
        obj({"home": {"$ref": "#/$defs/Address"}}, **{"$defs": {"Address": obj({"city": INTEGER})}}, **MODERN),
        False,
        False,
        "city",
    ),
    json_(
        "a definition is written in place",
        address(type="string"),
        obj({"home": obj({"city": STRING})}),
        True,
        True,
    ),
    json_("a recursive object gets a property", shelf(), shelf(width=INTEGER), True, False, "width"),
    json_("a recursive object's property changes", shelf(width=STRING), shelf(width=INTEGER), False, False, "width"),
    json_(
        "title, description and default change",
        obj({"id": {**INTEGER, "title": "Id"}}, title="Order"),
        obj({"id": {**INTEGER, "description": "its number", "default": 0}}, title="Purchase"),
        True,
        True,
    ),
)


ADDRESS = "message Address { string city = 1; }"
PAY = "string card = 1; string cash = 2;"
TIMESTAMP = 'import "google/protobuf/timestamp.proto";\nmessage Order { '

PROTOBUF = (
    proto_("a field is added", order("int64 id = 1;"), order("int64 id = 1; string note = 2;"), True, True),
    proto_("a field is removed", order("int64 id = 1; string note = 2;"), order("int64 id = 1;"), True, True),
    proto_("a field is renamed", order("string note = 1;"), order("string remark = 1;"), True, True),
    proto_("a field gets another number", order("string note = 1;"), order("string note = 2;"), True, True),
    proto_(
        "a number is reserved", order("int64 id = 1; string note = 2;"), order("reserved 2; int64 id = 1;"), True, True
    ),
    field_("int32 becomes int64", "int32", "int64", True),
    field_("bool becomes uint64", "bool", "uint64", True),
    field_("int32 becomes sint32", "int32", "sint32", False),
    field_("int32 becomes fixed32", "int32", "fixed32", False),
    field_("int32 becomes string", "int32", "string", False),
    field_("string becomes bytes", "string", "bytes", True),
    field_("sint32 becomes sint64", "sint32", "sint64", True),
    field_("fixed32 becomes sfixed32", "fixed32", "sfixed32", True),
    field_("fixed32 becomes fixed64", "fixed32", "fixed64", False),
    field_("float becomes double", "float", "double", False),
    field_("a number optional becomes repeated", "optional int32", "repeated int32", False),
    # surprising: a field of proto3 without a label has none to compare, so that the same change goes unseen
    field_("a number without a label becomes repeated", "int32", "repeated int32", True),
    field_("a string becomes repeated", "optional string", "repeated string", True),
    field_("a number becomes optional", "int32", "optional int32", True),
    field_("a proto2 number becomes required", "optional int32", "required int32", False, "proto2"),
    # surprising: a label of a string is free to change, "required" too
    field_("a proto2 string becomes required", "optional string", "required string", True, "proto2"),
    field_("a map's values become int64", "map<string, int32>", "map<string, int64>", True),
    field_("a map's values become strings", "map<string, int32>", "map<string, string>", False),
    field_("a map's keys become strings", "map<int32, string>", "map<string, string>", False),
    field_("a map becomes a string", "map<string, string>", "string", False),
    proto_(  # a proto3 optional is no oneof
        "two fields become optional",
        order(PAY),
        order("optional string card = 1; optional string cash = 2;"),
        True,
        True,
    ),
    proto_(
        "an optional field is removed", order("int64 id = 1; optional int32 n = 2;"), order("int64 id = 1;"), True, True
    ),
    proto_(
        "a number changes its syntax only", order("optional int32 n = 1;", "proto2"), order("int32 n = 1;"), True, True
    ),
    proto_(
        "a proto2 required field is added",
        order("optional int64 id = 1;", "proto2"),
        order("optional int64 id = 1; required string note = 2;", "proto2"),
        False,
        False,
        "note",
    ),
    proto_(
        "an enum gets a value",
        order("enum Status { NEW = 0; } Status status = 1;"),
        order("enum Status { NEW = 0; PAID = 1; } Status status = 1;"),
        True,
        True,
    ),
    proto_(
        "an enum loses a value and renames another",
        order("enum Status { NEW = 0; PAID = 1; SENT = 2; } Status status = 1;"),
        order("enum Status { NEW = 0; SETTLED = 1; } Status status = 1;"),
        True,
        True,
    ),
    proto_(
        "an optional enum becomes repeated",
        order("enum Status { NEW = 0; } optional Status status = 1;"),
        order("enum Status { NEW = 0; } repeated Status status = 1;"),
        False,
        False,
        "status",
    ),
    proto_(
        "an enum becomes int32",
        order("enum Status { NEW = 0; } Status status = 1;"),
        order("int32 status = 1;"),
        True,
        True,
    ),
    proto_(
        "an enum becomes a string",
        order("enum Status { NEW = 0; } Status status = 1;"),
        order("string status = 1;"),
        False,
        False,
        "status",
    ),
    proto_(
        "a message is added",
        order("int64 id = 1;"),
        proto("message Order { int64 id = 1; } message Refund { int64 id = 1; }"),
        True,
        False,
        "Refund",
    ),
    proto_(
        "a message is removed",
        proto("message Order { int64 id = 1; } message Refund { int64 id = 1; }"),
        order("int64 id = 1;"),
        False,
        True,
        "Refund",
    ),
    proto_(
        "a nested message is removed",
        order("int64 id = 1; message Line { int32 count = 1; }"),
        order("int64 id = 1;"),
        False,
        True,
        "Line",
    ),
    proto_(
        "messages change places",
        proto("message Order { int64 id = 1; } message Refund { int64 id = 1; }"),
        proto("message Refund { int64 id = 1; } message Order { int64 id = 1; }"),
        True,
        True,
    ),
    proto_(
        "a field moves into a new oneof", order("string card = 1;"), order("oneof pay { string card = 1; }"), True, True
    ),
    proto_(  # the old schema reads a oneof of which it lacks a member
        "a field moves into a new oneof with a new field",
        order("string card = 1;"),
        order(f"oneof pay {{ {PAY} }}"),
        True,
        False,
        "cash",
    ),
    proto_("two fields move into a new oneof", order(PAY), order(f"oneof pay {{ {PAY} }}"), False, True, "pay"),
    proto_(
        "a field moves into an old oneof",
        order("oneof pay { string card = 1; } string cash = 2;"),
        order(f"oneof pay {{ {PAY} }}"),
        False,
        True,
        "pay",
    ),
    proto_("a oneof is dissolved", order(f"oneof pay {{ {PAY} }}"), order(PAY), True, False, "pay"),
    proto_(
        "a oneof gets a field",
        order("oneof pay { string card = 1; }"),
        order(f"oneof pay {{ {PAY} }}"),
        True,
        False,
        "cash",
    ),
    proto_(
        "a oneof loses a field",
        order(f"oneof pay {{ {PAY} }}"),
        order("oneof pay { string card = 1; }"),
        False,
        True,
        "cash",
    ),
    proto_(
        "a oneof is removed wholly", order(f"int64 id = 3; oneof pay {{ {PAY} }}"), order("int64 id = 3;"), True, True
    ),
    proto_("a oneof is renamed", order(f"oneof pay {{ {PAY} }}"), order(f"oneof paid_by {{ {PAY} }}"), True, True),
    proto_(
        "a oneof is renamed and loses a field",
        order(f"oneof pay {{ {PAY} }}"),
        order("oneof paid_by { string card = 1; }"),
        False,
        True,
        "cash",
    ),
    proto_(
        "a field moves from a oneof to another",
        order(f"oneof pay {{ {PAY} }} oneof gift {{ string voucher = 3; }}"),
        order("oneof pay { string card = 1; } oneof gift { string cash = 2; string voucher = 3; }"),
        False,
        False,
    ),
    proto_(
        "two oneofs become one",
        order("oneof pay { string card = 1; } oneof gift { string cash = 2; }"),
        order(f"oneof either {{ {PAY} }}"),
        False,
        True,
        "either",
    ),
    proto_(
        "a oneof's field changes its type",
        order(f"oneof pay {{ {PAY} }}"),
        order("oneof pay { string card = 1; int64 cash = 2; }"),
        False,
        False,
        "cash",
    ),
    proto_(
        "a message of a field changes within",
        proto(f"{ADDRESS} message Order {{ Address home = 1; }}"),
        proto("message Address { int32 city = 1; } message Order { Address home = 1; }"),
        False,
        False,
        "city",
    ),
    proto_(
        "a message of a field is renamed",
        proto(f"{ADDRESS} message Order {{ Address home = 1; }}"),
        proto("message Place { string city = 1; } message Order { Place home = 1; }"),
        False,
        False,
        "Address",
    ),
    proto_(
        "a field gets another message",
        proto(f"{ADDRESS} message Place {{ string city = 1; }} message Order {{ Address home = 1; }}"),
        proto(f"{ADDRESS} message Place {{ string city = 1; }} message Order {{ Place home = 1; }}"),
        False,
        False,
        "home",
    ),
    proto_(
        "a string becomes a message",
        proto(f"{ADDRESS} message Order {{ string home = 1; }}"),
        proto(f"{ADDRESS} message Order {{ Address home = 1; }}"),
        False,
        False,
        "home",
    ),
    proto_(
        "a message becomes repeated",
        proto(f"{ADDRESS} message Order {{ Address home = 1; }}"),
        proto(f"{ADDRESS} message Order {{ repeated Address home = 1; }}"),
        True,
        True,
    ),
    proto_(
        "a type is written out in full",
        proto(f"{ADDRESS} message Order {{ Address home = 1; }}"),
        proto(f"{ADDRESS} message Order {{ .shop.Address home = 1; }}"),
        True,
        True,
    ),
    proto_(
        "a nested message moves to the top",
        order(f"{ADDRESS} Address home = 1;"),
        proto(f"{ADDRESS} message Order {{ Address home = 1; }}"),
        False,
        False,
        "Address",
    ),
    proto_(
        "a recursive message gets a field",
        proto("message Category { string title = 1; Category parent = 2; }"),
        proto("message Category { string title = 1; Category parent = 2; int32 rank = 3; }"),
        True,
        True,
    ),
    proto_(
        "a string becomes a timestamp",
        proto(f"{TIMESTAMP}string at = 1; google.protobuf.Timestamp seen = 2; }}"),
        proto(f"{TIMESTAMP}google.protobuf.Timestamp at = 1; google.protobuf.Timestamp seen = 2; }}"),
        False,
        False,
        "at",
    ),
    proto_(
        "the package changes",
        order("int64 id = 1;"),
        proto("message Order { int64 id = 1; }", package="store"),
        False,
        False,
    ),
    proto_(
        "a service is added",
        order("int64 id = 1;"),
        proto("message Order { int64 id = 1; } service Shop { rpc Buy (Order) returns (Order); }"),
        True,
        True,
    ),
    proto_("a comment is added", order("int64 id = 1;"), order("/* its number */ int64 id = 1;"), True, True),
)

PAIRS: tuple[Pair, ...] = (*AVRO, *JSON, *PROTOBUF)


def levels(text: str) -> frozenset[str]:
    """Levels by their initials: "B F FULL" and, with a T, the transitive ones."""
    short = {"B": "BACKWARD", "F": "FORWARD", "FULL": "FULL"}
    names = {**short, **{f"{key}T": f"{name}_TRANSITIVE" for key, name in short.items()}}
    return frozenset({"NONE", *(names[word] for word in text.split())})


def avro_history(name: str, versions: tuple[object, ...], new: object, allowed: str) -> History:
    """A history of Avro schemas."""
    texts = tuple(json.dumps(version) for version in versions)
    return History(f"avro: {name}", "AVRO", texts, json.dumps(new), levels(allowed))


def json_history(name: str, versions: tuple[object, ...], new: object, allowed: str) -> History:
    """A history of JSON Schemas."""
    texts = tuple(json.dumps(version) for version in versions)
    return History(f"json: {name}", "JSON", texts, json.dumps(new), levels(allowed))


def proto_history(name: str, versions: tuple[str, ...], new: str, allowed: str) -> History:
    """A history of Protobuf files."""
    return History(f"protobuf: {name}", "PROTOBUF", versions, new, levels(allowed))


NOTE = f("note", "string")
OPTIONAL_NOTE = f("note", "string", default="")

HISTORIES: tuple[History, ...] = (
    avro_history(
        "a field comes with a default and then loses it",
        (record(ID), record(ID, OPTIONAL_NOTE)),
        record(ID, NOTE),
        "B F FULL FT",
    ),
    avro_history(
        "a field gets a default and then goes",
        (record(ID, NOTE), record(ID, OPTIONAL_NOTE)),
        record(ID),
        "B F FULL BT",
    ),
    avro_history(
        "a field goes and comes back with another type",
        (record(ID, f("note", "long", default=0)), record(ID)),
        record(ID, OPTIONAL_NOTE),
        "B F FULL",
    ),
    avro_history(
        "fields with defaults come one by one",
        (record(ID), record(ID, OPTIONAL_NOTE)),
        record(ID, OPTIONAL_NOTE, f("gift", "boolean", default=False)),
        "B F FULL BT FT FULLT",
    ),
    json_history(
        "a required property comes with a default and then loses it",
        (
            closed({"id": INTEGER}, "id"),
            closed({"id": INTEGER, "note": {**STRING, "default": ""}}, "id", "note"),
        ),
        closed({"id": INTEGER, "note": STRING}, "id", "note"),
        "B F FULL",
    ),
    json_history(
        "a property goes and comes back with any value",
        (obj({"id": INTEGER, "note": STRING}), obj({"id": INTEGER})),
        obj({"id": INTEGER, "note": True}),
        "B F FULL BT",
    ),
    json_history(
        "a maximum falls and rises again, but not as high",
        (obj({"n": {**NUMBER, "maximum": 100}}), obj({"n": {**NUMBER, "maximum": 50}})),
        obj({"n": {**NUMBER, "maximum": 80}}),
        "B",
    ),
    json_history(
        "a maximum rises and falls again, but not as low",
        (obj({"n": {**NUMBER, "maximum": 50}}), obj({"n": {**NUMBER, "maximum": 100}})),
        obj({"n": {**NUMBER, "maximum": 80}}),
        "F",
    ),
    json_history(
        "titles change",
        (obj({"id": INTEGER}), obj({"id": INTEGER}, title="Order")),
        obj({"id": INTEGER}, title="Purchase"),
        "B F FULL BT FT FULLT",
    ),
    proto_history(
        "a field goes and its number comes back with another type",
        (order("int64 id = 1; string note = 2;"), order("int64 id = 1;")),
        order("int64 id = 1; int32 count = 2;"),
        "B F FULL",
    ),
    proto_history(
        "a message is gone for two versions",
        (proto("message Order { int64 id = 1; } message Refund { int64 id = 1; }"), order("int64 id = 1;")),
        order("int64 id = 1; string note = 2;"),
        "B F FULL FT",
    ),
    proto_history(
        "a message is there for two versions",
        (order("int64 id = 1;"), proto("message Order { int64 id = 1; } message Refund { int64 id = 1; }")),
        proto("message Order { int64 id = 1; string note = 2; } message Refund { int64 id = 1; }"),
        "B F FULL BT",
    ),
    proto_history(
        "two fields go and come back as a oneof",
        (order(f"int64 id = 3; {PAY}"), order("int64 id = 3;")),
        order(f"int64 id = 3; oneof pay {{ {PAY} }}"),
        "B F FULL FT",
    ),
    proto_history(
        "fields come one by one",
        (order("int64 id = 1;"), order("int64 id = 1; string note = 2;")),
        order("int64 id = 1; string note = 2; bool gift = 3;"),
        "B F FULL BT FT FULLT",
    ),
)
