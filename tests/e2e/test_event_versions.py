"""The example of a breaking change: old events come along as new ones."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from penstock.broker import Topics, read
from penstock.pipeline.compile import compile_pipeline
from penstock.pipeline.load import load_pipeline
from penstock.pipeline.run import start
from penstock.registry.producer import SchemaProducer
from penstock.registry.schema import read_schema

if TYPE_CHECKING:
    from penstock.connectors.base import Context
    from penstock.settings import Kafka

EXAMPLE = Path(__file__).parents[2] / "examples" / "events"


def test_old_events_come_along_as_new_ones(context: Context, kafka: Kafka, tmp_path: Path) -> None:
    folder = tmp_path / "events"
    shutil.copytree(EXAMPLE, folder)
    settings = replace(context.settings, project=folder)
    here = replace(context, settings=settings)
    for name in ("orders.v1", "orders.v2"):
        Topics(kafka).create(name)
    at = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
    old = read_schema(folder / "schemas" / "order-v1.avsc")
    with SchemaProducer(settings, "orders.v1", old) as producer:
        for number in range(3):
            producer.send({"order_id": number, "amount": 1.25 * number, "created_at": at}, str(number))
    running = start(compile_pipeline(load_pipeline(folder / "upcast.py"), here), here, until_caught_up=True)
    assert running.wait(120)
    running.close()
    place = SerializationContext("orders.v2", MessageField.VALUE)
    with SchemaRegistryClient({"url": settings.registry.url}) as client:
        decode = AvroDeserializer(client)
        found: list[Any] = [decode(one.value, place) for one in read(kafka, "orders.v2")]
    assert sorted(found, key=lambda one: int(one["order_id"])) == [
        {
            "order_id": number,
            "price": {"amount": Decimal("1.25") * number, "currency": "EUR"},
            "created_at": at,
            "channel": None,
        }
        for number in range(3)
    ]
