"""Avro, JSON Schema and Protobuf with the real registry, on real Spark and a real broker."""

from __future__ import annotations

import io
import json
import random
import uuid
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import fastavro
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

import penstock as ps
from penstock.broker import Producer, read
from penstock.errors import DeclarationError
from penstock.pipeline.compile import compile_pipeline
from penstock.pipeline.run import start
from penstock.registry.client import Registry
from penstock.registry.contract import keep_contract, read_contract
from penstock.registry.protobuf import compiled
from penstock.registry.protobuf_rows import encoded
from penstock.registry.schema import Schema
from penstock.registry.wire import framed
from tests.conftest import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame

    from penstock.connectors.base import Context
    from penstock.settings import Kafka

ID = {"name": "id", "type": "long"}
AMOUNT = {"name": "amount", "type": "double", "default": -1.0}
NOTE = {"name": "note", "type": ["null", "string"], "default": None}
MUTATED = 100_000


def avro(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "shop.Order", "fields": list(fields)}


def body(schema: dict[str, Any], row: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, row)
    return out.getvalue()


@pytest.fixture
def registry(context: Context) -> Iterator[Registry]:
    with Registry(context.settings.registry) as client:
        yield client


def register(registry: Registry, topic: str, schema: dict[str, Any]) -> int:
    return registry.register(f"{topic}-value", Schema("AVRO", json.dumps(schema)))


def copy(source: ps.Kafka, sink: ps.Kafka) -> ps.Pipeline:
    pipeline = ps.Pipeline(f"copy-{uuid.uuid4().hex[:6]}")
    pipeline.source("given", source)

    @pipeline.flow
    def copied(given: DataFrame) -> DataFrame:
        return given

    pipeline.sink(copied, sink)
    return pipeline


def run(pipeline: ps.Pipeline, context: Context) -> list[str]:
    running = start(compile_pipeline(pipeline, context), context, until_caught_up=True)
    assert running.wait(120)
    running.close()
    return running.notes


def values(kafka: Kafka, topic: str) -> list[Any]:
    return [record.json() for record in read(kafka, topic)]


def letters(kafka: Kafka, pipeline: ps.Pipeline) -> list[dict[str, Any]]:
    return values(kafka, f"{pipeline.name}-dead-letters")


def test_rows_of_older_and_newer_schemas_have_the_readers_columns(
    context: Context, kafka: Kafka, topic: Callable[..., str], registry: Registry
) -> None:
    source, out = topic("orders"), topic("out")
    old = avro({"name": "id", "type": "int"}, {"name": "gone", "type": "string", "default": ""})
    middle = avro(ID, AMOUNT)
    new = avro(ID, AMOUNT, NOTE)
    ids = [register(registry, source, one) for one in (old, middle, new)]
    with Producer(kafka) as producer:
        producer.send(source, framed(ids[0], body(old, {"id": 1, "gone": "x"})))
        producer.send(source, framed(ids[1], body(middle, {"id": 2, "amount": 5.5})))
        producer.send(source, framed(ids[2], body(new, {"id": 3, "amount": 6.5, "note": "n"})))
    given = json.dumps(avro(ID, AMOUNT))
    pipeline = copy(ps.Kafka(source, format=ps.Avro(given)), ps.Kafka(out))
    run(pipeline, context)
    assert sorted(values(kafka, out), key=lambda row: row["id"]) == [
        {"id": 1, "amount": -1.0},
        {"id": 2, "amount": 5.5},
        {"id": 3, "amount": 6.5},
    ]


def test_without_a_schema_the_newest_is_frozen(
    context: Context, kafka: Kafka, topic: Callable[..., str], registry: Registry
) -> None:
    source, out = topic("orders"), topic("out")
    first = register(registry, source, avro(ID))
    with Producer(kafka) as producer:
        producer.send(source, framed(first, body(avro(ID), {"id": 1})))
    pipeline = copy(ps.Kafka(source, format=ps.Avro()), ps.Kafka(out))
    run(pipeline, context)
    frozen = context.settings.project / "schemas" / f"kafka-{source}.avsc"
    assert json.loads(frozen.read_text())["name"] == "shop.Order"
    second = register(registry, source, avro(ID, AMOUNT))
    with Producer(kafka) as producer:
        producer.send(source, framed(second, body(avro(ID, AMOUNT), {"id": 2, "amount": 1.0})))
    run(pipeline, context)
    assert values(kafka, out) == [{"id": 1}, {"id": 2}]


def test_a_source_without_any_schema_is_told_of(context: Context, topic: Callable[..., str]) -> None:
    source = topic("orders")
    with pytest.raises(DeclarationError, match=f"the registry has no subject '{source}-value'"):
        compile_pipeline(copy(ps.Kafka(source, format=ps.Avro()), ps.Kafka(topic("out"))), context)


def test_an_id_first_seen_in_mid_stream_is_learnt_without_losing_a_row(
    context: Context, kafka: Kafka, topic: Callable[..., str], registry: Registry
) -> None:
    source, out = topic("orders", partitions=2), topic("out")
    first = register(registry, source, avro(ID))
    pipeline = copy(ps.Kafka(source, format=ps.Avro()), ps.Kafka(out))
    with Producer(kafka) as producer:
        for n in range(10):
            producer.send(source, framed(first, body(avro(ID), {"id": n})), str(n))
    running = start(compile_pipeline(pipeline, context), context)
    try:
        wait_until(lambda: len(values(kafka, out)) == 10)
        second = register(registry, source, avro(ID, AMOUNT))
        with Producer(kafka) as producer:
            for n in range(10, 20):
                number, schema, row = (
                    (second, avro(ID, AMOUNT), {"id": n, "amount": 1.0}) if n % 2 else (first, avro(ID), {"id": n})
                )
                producer.send(source, framed(number, body(schema, row)), str(n))
            producer.send(source, framed(second + 4000, b"\x02"), "foreign")

        def through() -> bool:
            running.wait(0.1)
            return len(values(kafka, out)) >= 20 and len(letters(kafka, pipeline)) >= 1

        wait_until(through, 90)
    finally:
        running.stop()
    assert sorted(row["id"] for row in values(kafka, out)) == list(range(20))
    (letter,) = letters(kafka, pipeline)
    assert letter["key"] == "foreign"
    assert f"the registry has no schema id {second + 4000}" in letter["message"]
    assert any(f"schema id {second} is known now" in note for note in running.notes)


def test_bytes_that_are_not_of_their_schema_are_dead_letters(
    context: Context, kafka: Kafka, topic: Callable[..., str], registry: Registry
) -> None:
    source, out = topic("orders"), topic("out")
    schema = avro(ID, {"name": "word", "type": "string"})
    number = register(registry, source, schema)
    good = framed(number, body(schema, {"id": 1, "word": "hello"}))
    bad = [good[:-3], good[:5], good[:3], b"{}", b"\x01" + good[1:], framed(number, b"\x02\xfe\xff\xff\xff\x0fx")]
    with Producer(kafka) as producer:
        producer.send(source, good)
        for one in bad:
            producer.send(source, one)
        producer.send(source, None, "tombstone")
    pipeline = copy(ps.Kafka(source, format=ps.Avro()), ps.Kafka(out))
    run(pipeline, context)
    assert values(kafka, out) == [{"id": 1, "word": "hello"}]
    assert len(letters(kafka, pipeline)) == len(bad) + 1


def test_mutated_messages_never_stop_the_query(
    context: Context, kafka: Kafka, topic: Callable[..., str], registry: Registry
) -> None:
    source, out = topic("orders"), topic("out")
    schema = avro(ID, {"name": "words", "type": {"type": "array", "items": "string"}}, NOTE)
    number = register(registry, source, schema)
    chance = random.Random(7)
    sent = 0
    with Producer(kafka) as producer:
        for n in range(MUTATED):
            message = bytearray(framed(number, body(schema, {"id": n, "words": ["a", "bb"], "note": "n"})))
            for _ in range(chance.randint(0, 3)):
                at = chance.randrange(len(message))
                kind = chance.randrange(3)
                if kind == 0:
                    message[at] = chance.randrange(256)
                elif kind == 1:
                    del message[at:]
                else:
                    message[at:at] = chance.randbytes(2)
                if not message:
                    message = bytearray(b"\x00")
            producer.send(source, bytes(message))
            sent += 1
    pipeline = copy(ps.Kafka(source, format=ps.Avro()), ps.Kafka(out))
    run(pipeline, context)
    dead = letters(kafka, pipeline)
    assert len({one["offset"] for one in dead}) == len(dead)
    assert len(values(kafka, out)) + len(dead) == sent
    assert len(dead) > MUTATED / 4


def test_values_are_what_they_were(
    context: Context, kafka: Kafka, topic: Callable[..., str], registry: Registry
) -> None:
    """Logical types both ways: written by Confluent's serializer, read and written by Spark, read by theirs."""
    source, out = topic("orders"), topic("out")
    nested = {"type": "record", "name": "Place", "fields": [{"name": "city", "type": "string"}]}
    kinds: dict[str, tuple[Any, Any]] = {
        "price": ({"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}, Decimal("1234567890.12")),
        "at": ({"type": "long", "logicalType": "timestamp-millis"}, datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)),
        "exactly": (
            {"type": "long", "logicalType": "timestamp-micros"},
            datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC),
        ),
        "day": ({"type": "int", "logicalType": "date"}, date(2026, 2, 3)),
        "unique": ({"type": "string", "logicalType": "uuid"}, uuid.UUID("12345678-1234-5678-1234-567812345678")),
        "state": ({"type": "enum", "name": "State", "symbols": ["OPEN", "DONE"]}, "DONE"),
        "place": (nested, {"city": "Bern"}),
        "words": ({"type": "array", "items": "string"}, ["a", "b"]),
        "sizes": ({"type": "map", "values": "long"}, {"small": 1}),
        "maybe": (["null", "double"], None),
        "bytes": ("bytes", b"\x00\xff"),
        "flag": ("boolean", True),
    }
    schema = avro(*({"name": name, "type": kind} for name, (kind, _) in kinds.items()))
    row = {name: value for name, (_, value) in kinds.items()}
    with SchemaRegistryClient({"url": context.settings.registry.url}) as client:
        written = AvroSerializer(client, json.dumps(schema))(row, SerializationContext(source, MessageField.VALUE))
    with Producer(kafka) as producer:
        producer.send(source, written)
    pipeline = copy(ps.Kafka(source, format=ps.Avro()), ps.Kafka(out, format=ps.Avro(name="shop.Copied")))
    running = start(compile_pipeline(pipeline, context), context, until_caught_up=True)
    assert registry.versions(f"{out}-value") == [1]  # registered at the start
    assert running.wait(120)
    running.close()
    (found,) = read(kafka, out)
    with SchemaRegistryClient({"url": context.settings.registry.url}) as client:
        again: Any = AvroDeserializer(client)(found.value, SerializationContext(out, MessageField.VALUE))
    assert again == {**row, "unique": str(row["unique"])}
    newest = registry.version(f"{out}-value")
    assert newest is not None
    assert json.loads(newest.schema.text)["name"] == "Copied"


def test_a_sink_with_an_incompatible_schema_does_not_start(
    context: Context, topic: Callable[..., str], registry: Registry
) -> None:
    source, out = topic("orders"), topic("out")
    register(registry, source, avro(ID))
    register(registry, out, avro({"name": "id", "type": "string"}))
    pipeline = copy(ps.Kafka(source, format=ps.Avro()), ps.Kafka(out, format=ps.Avro(name="shop.Order")))
    with pytest.raises(DeclarationError) as refused:
        compile_pipeline(pipeline, context)
    assert f"Subject {out}-value (BACKWARD) refuses this schema: id: a consumer with the new schema" in str(
        refused.value
    )
    assert registry.versions(f"{out}-value") == [1]


def test_rows_that_a_given_schema_does_not_take_are_dead_letters(
    context: Context, kafka: Kafka, topic: Callable[..., str], registry: Registry
) -> None:
    source, out = topic("orders"), topic("out")
    state = {"name": "state", "type": ["null", {"type": "enum", "name": "State", "symbols": ["OPEN", "DONE"]}]}
    line = {"type": "record", "name": "Line", "fields": [{"name": "n", "type": "long"}]}
    lines = {"name": "lines", "type": ["null", {"type": "array", "items": line}]}
    given = avro(ID, {"name": "amount", "type": "double"}, state, lines)
    rows = [
        {"id": 1, "amount": 1.5, "state": "OPEN", "lines": [{"n": 1}]},
        {"id": 2, "state": "OPEN"},
        {"id": 3, "amount": 2.5, "state": "LOST"},
        {"id": 4, "amount": 2.5, "lines": [{"n": 1}, {}]},
        {"id": 5, "amount": 3.5},
    ]
    with Producer(kafka) as producer:
        for row in rows:
            producer.send(source, json.dumps(row).encode())
    columns = "id LONG, amount DOUBLE, state STRING, lines ARRAY<STRUCT<n: LONG>>"
    pipeline = copy(ps.Kafka(source, format=ps.Json(columns)), ps.Kafka(out, format=ps.Avro(json.dumps(given))))
    run(pipeline, context)
    bodies = [one.value[5:] for one in read(kafka, out) if one.value]
    written: list[Any] = [fastavro.schemaless_reader(io.BytesIO(one), given) for one in bodies]
    assert sorted(one["id"] for one in written) == [1, 5]
    told = {json.loads(one["value"])["id"]: (one["rule"], one["message"]) for one in letters(kafka, pipeline)}
    rule = "refused by the schema"
    assert told == {
        2: (rule, "amount is empty, which the schema does not allow"),
        3: (rule, "state is no word of the schema's enum"),
        4: (rule, "lines has a value that the schema does not allow"),
    }


def test_json_schema_both_ways(context: Context, kafka: Kafka, topic: Callable[..., str], registry: Registry) -> None:
    source, out, last = topic("orders"), topic("out"), topic("last")
    schema = {
        "title": "Order",
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "at": {"type": "string", "format": "date-time"},
            "words": {"type": "array", "items": {"type": "string"}},
            "place": {"type": "object", "properties": {"city": {"type": ["string", "null"]}}},
        },
    }
    number = registry.register(f"{source}-value", Schema("JSON", json.dumps(schema)))
    row = {"id": 1, "at": "2026-01-02T03:04:05.000006Z", "words": ["a"], "place": {"city": "Bern"}}
    with Producer(kafka) as producer:
        producer.send(source, framed(number, json.dumps(row).encode()))
        producer.send(source, framed(number, b'{"id": "no number"}'))
        producer.send(source, framed(number, b"{"))
        producer.send(source, json.dumps(row))
    pipeline = copy(ps.Kafka(source, format=ps.JsonSchema()), ps.Kafka(out, format=ps.JsonSchema()))
    run(pipeline, context)
    assert len(letters(kafka, pipeline)) == 3
    run(copy(ps.Kafka(out, format=ps.JsonSchema()), ps.Kafka(last)), context)
    assert values(kafka, last) == [row]


def test_protobuf_both_ways(context: Context, kafka: Kafka, topic: Callable[..., str], registry: Registry) -> None:
    source, out, last = topic("orders"), topic("out"), topic("last")
    old = 'syntax = "proto3";\npackage shop;\nmessage Order { int64 id = 1; string word = 2; }\n'
    new = (
        'syntax = "proto3";\npackage shop;\nimport "google/protobuf/timestamp.proto";\n'
        "message Order { int64 id = 1; string word = 2; optional double amount = 3; google.protobuf.Timestamp at = 4;\n"
        "  repeated string words = 5; map<string, int32> sizes = 6; State state = 7; Place place = 8;\n"
        "  enum State { OPEN = 0; DONE = 1; }\n  message Place { string city = 1; } }\n"
    )
    first, second = (registry.register(f"{source}-value", Schema("PROTOBUF", text)) for text in (old, new))
    row = {
        "id": 2,
        "word": "y",
        "amount": 1.5,
        "at": datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC),
        "words": ["a", "b"],
        "sizes": {"small": 1},
        "state": "DONE",
        "place": {"city": "Bern"},
    }
    with Producer(kafka) as producer:
        producer.send(source, framed(first, encoded(compiled(old).SerializeToString(), {"id": 1, "word": "x"})))
        producer.send(source, framed(second, encoded(compiled(new).SerializeToString(), row)))
        producer.send(source, framed(second, b"\x00\x08"))
        producer.send(source, framed(second, b""))
    pipeline = copy(ps.Kafka(source, format=ps.Protobuf()), ps.Kafka(out, format=ps.Protobuf()))
    run(pipeline, context)
    assert len(letters(kafka, pipeline)) == 2
    run(copy(ps.Kafka(out, format=ps.Protobuf()), ps.Kafka(last)), context)
    found = sorted(values(kafka, last), key=lambda one: one["id"])
    assert found[0] == {"id": 1, "word": "x", "words": [], "sizes": {}, "state": "OPEN"}
    assert found[1] == {**row, "at": "2026-01-02T03:04:05.678901Z"}


def test_rules_of_a_contract_are_expectations(
    context: Context, kafka: Kafka, topic: Callable[..., str], registry: Registry
) -> None:
    source, out = topic("orders"), topic("out")
    number = register(registry, source, avro(ID, AMOUNT, NOTE))
    rules = {"amount": {"at_least": 0, "at_most": 100}, "note": {"required": True, "pattern": "^[a-z]+$"}}
    keep_contract(registry, f"{source}-value", read_contract(json.dumps({"rules": rules}), "here"))
    rows = [(1, 5.0, "fine"), (2, -1.0, "fine"), (3, 101.0, "fine"), (4, 1.0, None), (5, 1.0, "NO")]
    with Producer(kafka) as producer:
        for n, amount, note in rows:
            row = {"id": n, "amount": amount, "note": note}
            producer.send(source, framed(number, body(avro(ID, AMOUNT, NOTE), row)))
    pipeline = copy(ps.Kafka(source, format=ps.Avro()), ps.Kafka(out))
    run(pipeline, context)
    assert [row["id"] for row in values(kafka, out)] == [1]
    assert sorted(one["rule"] for one in letters(kafka, pipeline)) == [
        "contract: amount is at least 0",
        "contract: amount is at most 100",
        "contract: note is like ^[a-z]+$",
        "contract: note is there",
    ]


def test_a_foreign_id_does_not_take_a_new_one_with_it(
    context: Context, kafka: Kafka, topic: Callable[..., str], registry: Registry
) -> None:
    """A row of a foreign id is met before rows of an id that is registered, and that nobody has asked for yet."""
    source, out = topic("orders"), topic("out")
    register(registry, source, avro(ID))
    other = registry.register(
        f"{source}-other", Schema("AVRO", json.dumps(avro(ID, NOTE)))
    )  # not of the topic's subject
    with Producer(kafka) as producer:
        producer.send(source, framed(other + 5000, b"\x02"), "foreign")
        for n in range(3):
            producer.send(source, framed(other, body(avro(ID, NOTE), {"id": n, "note": None})))
    pipeline = copy(ps.Kafka(source, format=ps.Avro()), ps.Kafka(out))
    run(pipeline, context)
    assert [letter["key"] for letter in letters(kafka, pipeline)] == ["foreign"]
    assert [row["id"] for row in values(kafka, out)] == [0, 1, 2]


def test_rows_of_a_foreign_id_that_go_on_do_not_stop_the_query_again(
    context: Context, kafka: Kafka, topic: Callable[..., str], registry: Registry
) -> None:
    source, out = topic("orders"), topic("out")
    known = register(registry, source, avro(ID))
    pipeline = copy(ps.Kafka(source, format=ps.Avro()), ps.Kafka(out))
    running = start(compile_pipeline(pipeline, context), context)
    try:
        with Producer(kafka) as producer:
            for n in range(4):
                producer.send(source, framed(known + 6000, b"\x02"), f"foreign {n}")
                producer.send(source, framed(known, body(avro(ID), {"id": n})))
                producer.flush()
                wait_until(lambda n=n: running.wait(0.1) or len(values(kafka, out)) > n, 60)  # type: ignore[misc]
    finally:
        running.stop()
    assert len([note for note in running.notes if "not in the registry" in note]) == 1
    assert sorted(letter["key"] for letter in letters(kafka, pipeline)) == [f"foreign {n}" for n in range(4)]
    assert sorted(row["id"] for row in values(kafka, out)) == [0, 1, 2, 3]
