"""Our client and the one that people already have, against the real registry."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.schema_registry import Schema as TheirSchema
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from penstock.broker import read
from penstock.errors import DeclarationError, TransientError
from penstock.registry.client import Registry
from penstock.registry.contract import Contract, contract_of, keep_contract, read_contract
from penstock.registry.evolution import judge, refuse_breaks
from penstock.registry.producer import SchemaProducer
from penstock.registry.schema import Reference, Schema
from penstock.registry.wire import framed, split
from penstock.settings import Registry as Settings
from tests.registry.conftest import AMOUNT, NOTE, order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from penstock.settings import Kafka
    from tests.conftest import Project


@pytest.fixture
def theirs(platform: Project) -> Iterator[SchemaRegistryClient]:
    """Confluent's client."""
    with SchemaRegistryClient({"url": platform.settings.registry.url}) as client:
        yield client


def test_versions_of_a_subject(registry: Registry, subject: str) -> None:
    assert registry.versions(subject) == []
    assert registry.version(subject) is None
    first = registry.register(subject, order())
    assert registry.register(subject, order()) == first
    second = registry.register(subject, order(AMOUNT))
    assert registry.versions(subject) == [1, 2]
    newest = registry.version(subject)
    assert newest is not None
    assert (newest.version, newest.id) == (2, second)
    assert newest.schema.same(order(AMOUNT))
    found = registry.find(subject, order())
    assert found is not None
    assert found.version == 1
    assert registry.find(subject, order(NOTE)) is None
    assert [one.id for one in registry.history(subject)] == [first, second]


def test_a_refused_change_says_which_field_breaks_whom(registry: Registry, subject: str) -> None:
    registry.register(subject, order())
    required = order({"name": "amount", "type": "double"})
    with pytest.raises(DeclarationError) as refused:
        refuse_breaks(registry, subject, required)
    told = str(refused.value)
    assert "amount: a consumer with the new schema can't read rows of version 1" in told
    assert "allowed: a default for amount" in told
    with pytest.raises(DeclarationError, match="refuses the schema"):
        registry.register(subject, required)
    registry.set_level("NONE", subject)
    assert registry.level(subject) == "NONE"
    assert judge(registry, subject, required).allowed
    registry.register(subject, required)


def test_the_default_is_backward(registry: Registry, subject: str) -> None:
    assert registry.level() == "BACKWARD"
    registry.register(subject, order())
    assert registry.level(subject) == "BACKWARD"


def test_references(registry: Registry, subject: str) -> None:
    money = Schema(
        "AVRO", json.dumps({"type": "record", "name": "shop.Money", "fields": [{"name": "cents", "type": "long"}]})
    )
    registry.register(f"{subject}-money", money)
    uses = (Reference("shop.Money", f"{subject}-money", 1),)
    whole = Schema("AVRO", order({"name": "price", "type": "shop.Money"}).text, uses)
    number = registry.register(subject, whole)
    again = registry.by_id(number)
    assert again is not None
    assert again.references == uses
    assert again.used == (("shop.Money", money.text),)
    wider = Schema("AVRO", order({"name": "price", "type": "shop.Money"}, NOTE).text, uses)
    assert judge(registry, subject, wider).allowed


def test_deleting(registry: Registry, subject: str) -> None:
    number = registry.register(subject, order())
    registry.register(subject, order(AMOUNT))
    assert registry.delete(subject, 1) == [1]
    assert registry.versions(subject) == [2]
    assert registry.by_id(number) is not None  # messages of it can still be read
    registry.delete(subject, permanent=True)
    assert registry.versions(subject) == []


def test_schemas_by_id_outlive_the_registry(
    registry: Registry, platform: Project, subject: str, tmp_path: Path
) -> None:
    number = registry.register(subject, order())
    with Registry(platform.settings.registry, tmp_path) as kept:
        assert kept.by_id(number) is not None
        assert kept.by_id(999_999_999) is None
    with Registry(Settings("http://127.0.0.1:9"), tmp_path) as gone:
        found = gone.by_id(number)
        assert found is not None
        assert found.same(order())
        with pytest.raises(TransientError, match="does not answer"):
            gone.by_id(number + 1_000_000)


def test_what_they_register_we_read_and_the_other_way_round(
    registry: Registry, theirs: SchemaRegistryClient, subject: str
) -> None:
    number = theirs.register_schema(subject, TheirSchema(order().text, "AVRO"))
    found = registry.by_id(number)
    assert found is not None
    assert found.same(order())
    ours = registry.register(subject, order(AMOUNT))
    assert json.loads(theirs.get_schema(ours).schema_str or "") == json.loads(order(AMOUNT).text)
    assert theirs.get_latest_version(subject).version == 2
    assert not theirs.test_compatibility(subject, TheirSchema(order({"name": "x", "type": "long"}).text, "AVRO"))


def test_their_serializers_work_and_write_our_wire_format(theirs: SchemaRegistryClient, subject: str) -> None:
    import fastavro

    topic = subject.removesuffix("-value")
    place = SerializationContext(topic, MessageField.VALUE)
    schema = order(NOTE).text
    written = AvroSerializer(theirs, schema)({"id": 7, "note": "hello"}, place)
    assert written is not None
    found = split(written)
    assert found is not None
    import io

    told: Any = fastavro.schemaless_reader(io.BytesIO(found[1]), json.loads(schema))
    assert told == {"id": 7, "note": "hello"}
    body = io.BytesIO()
    fastavro.schemaless_writer(body, json.loads(schema), {"id": 8, "note": None})
    assert AvroDeserializer(theirs)(framed(found[0], body.getvalue()), place) == {"id": 8, "note": None}


def test_their_json_serializer_works(theirs: SchemaRegistryClient, subject: str) -> None:
    topic = subject.removesuffix("-value")
    place = SerializationContext(topic, MessageField.VALUE)
    schema = json.dumps({"title": "Order", "type": "object", "properties": {"id": {"type": "integer"}}})
    written = JSONSerializer(schema, theirs)({"id": 7}, place)
    assert written is not None
    found = split(written)
    assert found is not None
    assert json.loads(found[1]) == {"id": 7}
    assert JSONDeserializer(schema)(framed(found[0], b'{"id": 8}'), place) == {"id": 8}


def test_protobuf_is_taken(registry: Registry, subject: str) -> None:
    first = Schema("PROTOBUF", 'syntax = "proto3";\nmessage Order { int64 id = 1; }\n')
    registry.register(subject, first)
    wider = Schema("PROTOBUF", 'syntax = "proto3";\nmessage Order { int64 id = 1; string note = 2; }\n')
    assert judge(registry, subject, wider).allowed
    other = Schema("PROTOBUF", 'syntax = "proto3";\nmessage Order { string id = 1; }\n')
    judged = judge(registry, subject, other)
    assert not judged.allowed
    assert "Order.id: a consumer with the new schema can't read rows of version 1" in str(judged.breaks[0])


def test_a_contract_is_kept_beside_its_schema(registry: Registry, subject: str) -> None:
    registry.register(subject, order(AMOUNT))
    assert contract_of(registry, subject) == Contract()
    first = read_contract('{"rules": {"amount": {"at_least": 0}}}', "here")
    keep_contract(registry, subject, first)
    assert contract_of(registry, subject) == first
    second = read_contract('{"rules": {"amount": {"at_least": 0, "at_most": 10}, "id": {"required": true}}}', "here")
    keep_contract(registry, subject, second)
    assert contract_of(registry, subject) == second


def test_a_producer_keeps_schema_and_contract(
    platform: Project, kafka: Kafka, topic: Callable[..., str], registry: Registry
) -> None:
    name = topic("orders")
    rules = {"amount": {"at_least": 0}, "note": {"pattern": "^[a-z]+$"}, "id": {"required": True, "one_of": [1, 2]}}
    registry.register(f"{name}-value", order(AMOUNT, NOTE))
    keep_contract(registry, f"{name}-value", read_contract(json.dumps({"rules": rules}), "here"))
    with SchemaProducer(platform.settings, name) as producer:
        producer.send({"id": 1, "amount": 5.0, "note": "fine"}, "1")
        for wrong, said in (
            ({"id": 1, "amount": -1.0}, "amount is at least 0"),
            ({"id": 1, "amount": 1.0, "note": "NO"}, "note is like"),
            ({"id": 3, "amount": 1.0}, "id is one of 1, 2"),
            ({"amount": 1.0}, "id is there"),
        ):
            with pytest.raises(DeclarationError, match=said):
                producer.send(wrong)
        with pytest.raises(DeclarationError, match="not of its schema"):
            producer.send({"id": 1, "amount": None, "note": "fine"})
    (sent,) = read(kafka, name)
    assert sent.value is not None
    found = split(sent.value)
    assert found is not None
    assert registry.by_id(found[0]) is not None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "not under"),
        ('{"rules": {"a": {"above": 1}}}', "none of required"),
        ('{"rules": {"a": {"pattern": "("}}}', "pattern of 'a'"),
        ('{"rules": {"a": {"one_of": 3}}}', "one_of of 'a'"),
    ],
)
def test_rules_that_are_none(text: str, said: str) -> None:
    with pytest.raises(DeclarationError, match=said):
        read_contract(text, "rules.json")
