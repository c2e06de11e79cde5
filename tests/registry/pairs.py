"""Pairs of schemas with the answer of Confluent's schema registry: the facts that our own checker is held against.

An answer is that of Confluent's source (8.5, policy STRICT); the Avro ones were also asked of Apache Avro 1.12.1.
"""

from __future__ import annotations

import json

from tests.registry.avro_pairs import AVRO
from tests.registry.json_pairs import JSON
from tests.registry.pair_kinds import ID, INTEGER, NUMBER, STRING, History, Pair, closed, f, obj, order, proto, record
from tests.registry.protobuf_pairs import PAY, PROTOBUF

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
