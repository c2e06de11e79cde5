"""Schemas that refer to others: rows of them are written by Python, read and written by Spark."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import penstock as ps
from penstock.broker import read
from penstock.pipeline.compile import compile_pipeline
from penstock.pipeline.run import start
from penstock.registry.avro_whole import whole_avro
from penstock.registry.client import Registry
from penstock.registry.producer import SchemaProducer
from penstock.registry.schema import Reference, Schema

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from penstock.connectors.base import Context
    from penstock.settings import Kafka

MONEY = {
    "AVRO": (
        "shop.Money",
        json.dumps({"type": "record", "name": "shop.Money", "fields": [{"name": "cents", "type": "long"}]}),
    ),
    "JSON": (
        "money.json",
        json.dumps(
            {
                "type": "object",
                "properties": {"cents": {"$ref": "#/$defs/whole"}},
                "$defs": {"whole": {"type": "integer"}},
            }
        ),
    ),
    "PROTOBUF": ("shop/money.proto", 'syntax = "proto3";\npackage shop;\nmessage Money { int64 cents = 1; }\n'),
}
ORDER = {
    "AVRO": json.dumps(
        {
            "type": "record",
            "name": "shop.Order",
            "fields": [
                {"name": "id", "type": "long"},
                {"name": "price", "type": "Money"},
                {"name": "was", "type": ["null", "shop.Money"], "default": None},
            ],
        }
    ),
    "JSON": json.dumps(
        {
            "type": "object",
            "properties": {"id": {"type": "integer"}, "price": {"$ref": "money.json"}, "was": {"$ref": "money.json"}},
        }
    ),
    "PROTOBUF": (
        'syntax = "proto3";\npackage shop;\nimport "shop/money.proto";\n'
        "message Order { int64 id = 1; Money price = 2; Money was = 3; }\n"
    ),
}
ROW = {"id": 1, "price": {"cents": 250}, "was": {"cents": 300}}


def run_copies(context: Context, name: str, sources: dict[str, ps.Kafka], sinks: dict[str, ps.Kafka]) -> None:
    pipeline = ps.Pipeline(name)
    for kind, source in sources.items():
        pipeline.source(f"given_{kind.lower()}", source)

    @pipeline.flow
    def avro(given_avro: DataFrame) -> DataFrame:
        return given_avro

    @pipeline.flow
    def json_(given_json: DataFrame) -> DataFrame:
        return given_json

    @pipeline.flow
    def protobuf(given_protobuf: DataFrame) -> DataFrame:
        return given_protobuf

    for kind, flow in {"AVRO": avro, "JSON": json_, "PROTOBUF": protobuf}.items():
        pipeline.sink(flow, sinks[kind])
    running = start(compile_pipeline(pipeline, context), context, until_caught_up=True)
    assert running.wait(120)
    running.close()


def test_rows_of_schemas_with_references(context: Context, kafka: Kafka, topic: Callable[..., str]) -> None:
    formats: dict[str, Any] = {"AVRO": ps.Avro, "JSON": ps.JsonSchema, "PROTOBUF": ps.Protobuf}
    given, outs = {kind: topic(kind) for kind in formats}, {kind: topic(f"out-{kind}") for kind in formats}
    written: dict[str, ps.Kafka] = {}
    for kind, source in given.items():
        name, text = MONEY[kind]
        with Registry(context.settings.registry) as registry:
            registry.register(f"{source}-money", Schema(kind, text))
        uses = Reference(name, f"{source}-money", 1)
        with SchemaProducer(context.settings, source, Schema(kind, ORDER[kind], (uses,))) as producer:
            producer.send(ROW)
        format_ = formats[kind](ORDER[kind], references=(f"{name}={source}-money:1",))
        written[kind] = ps.Kafka(outs[kind], format=format_)
    newest = {kind: ps.Kafka(source, format=formats[kind]()) for kind, source in given.items()}
    run_copies(context, "references", newest, written)
    for source in given.values():
        with SchemaProducer(context.settings, source) as producer:
            producer.send(ROW | {"id": 2})
    run_copies(context, "references", newest, written)  # with the schemas that are frozen
    again = {kind: ps.Kafka(out, format=formats[kind]()) for kind, out in outs.items()}
    plain = {kind: topic(f"plain-{kind}") for kind in formats}
    run_copies(context, "references-read", again, {kind: ps.Kafka(out) for kind, out in plain.items()})
    found = {
        kind: sorted((one.json() for one in read(kafka, out)), key=lambda row: int(row["id"]))
        for kind, out in plain.items()
    }
    assert found == {kind: [ROW, ROW | {"id": 2}] for kind in formats}


def test_a_definition_is_put_where_it_is_first_named() -> None:
    name = {"type": "record", "name": "Name", "namespace": "people", "fields": [{"name": "first", "type": "string"}]}
    pair = {
        "type": "record",
        "name": "people.Pair",
        "fields": [{"name": "one", "type": "Name"}, {"name": "two", "type": "Name"}],
    }
    schema = {
        "type": "record",
        "name": "shop.Order",
        "fields": [
            {"name": "both", "type": {"type": "array", "items": "people.Pair"}},
            {"name": "names", "type": {"type": "map", "values": ["null", "people.Name"]}},
        ],
    }
    used = (("people.Name", json.dumps(name)), ("people.Pair", json.dumps(pair)))
    made = json.loads(whole_avro(Schema("AVRO", json.dumps(schema), used=used)))
    pairs = made["fields"][0]["type"]["items"]
    assert (pairs["name"], pairs["namespace"]) == ("Pair", "people")
    assert pairs["fields"][0]["type"] == name
    assert pairs["fields"][1]["type"] == "people.Name"
    assert made["fields"][1]["type"]["values"] == ["null", "people.Name"]
