"""Messages of registered schemas, looked at."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from penstock.broker import Producer
from penstock.registry.producer import SchemaProducer
from penstock.registry.reader import SchemaReader
from penstock.registry.schema import Schema
from penstock.registry.wire import framed

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.settings import Kafka
    from tests.conftest import Project

MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
SCHEMAS = {
    "AVRO": json.dumps(
        {
            "type": "record",
            "name": "Order",
            "fields": [{"name": "id", "type": "long"}, {"name": "amount", "type": MONEY}],
        }
    ),
    "JSON": '{"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}',
    "PROTOBUF": 'syntax = "proto3"; message Order { int64 id = 1; string amount = 2; }',
}


@pytest.mark.parametrize("kind", SCHEMAS)
def test_tail_shows_rows_of_registered_schemas(
    platform: Project, kafka: Kafka, topic: Callable[..., str], kind: str
) -> None:
    name = topic("looked-at")
    amount: Any = Decimal("5.25") if kind == "AVRO" else "5.25"
    with SchemaProducer(platform.settings, name, Schema(kind, SCHEMAS[kind])) as producer:
        producer.send({"id": 1, "amount": amount}, "1")
    with Producer(kafka) as producer:
        for other in (b"no schema", framed(0x41414141, b"\x02"), b"\x00\x00\x00\x00\x01", b"\x00", '{"id": 2}'):
            producer.send(name, other, "1")
    shown = platform.run("topics", "tail", name, "--no-follow").stdout.splitlines()
    assert json.loads(shown[0].split(" ", 3)[3]) == {"id": 1, "amount": "5.25"}
    assert shown[1].endswith(" 1 no schema")
    assert len(shown) == 6
    told = json.loads(platform.run("topics", "tail", name, "--no-follow", "--json").stdout.splitlines()[0])
    assert told["value"] == {"id": 1, "amount": "5.25"}
    words = platform.command("topics", "tail", name, "--no-follow", "--format", "raw")
    raw = subprocess.run(words, cwd=platform.folder, capture_output=True, check=True, timeout=60).stdout
    assert raw.startswith(b"\x00")


def test_without_a_registry_messages_stay_what_they_are(platform: Project) -> None:
    away = replace(platform.settings, registry=replace(platform.settings.registry, url="http://127.0.0.1:1"))
    reader = SchemaReader(away)
    assert reader.row(framed(1, b"\x02")) is None
    assert reader.row(framed(1, b"\x02")) is None
    assert reader.row(b"text") is None
    assert reader.row(None) is None
