"""A contract that wants something to be unique within a time: every double is told of once, the rows go on."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import penstock as ps
from penstock.broker import read
from penstock.errors import DeclarationError
from penstock.pipeline.compile import compile_pipeline
from penstock.pipeline.run import start
from penstock.registry.client import Registry
from penstock.registry.contract import keep_contract, read_contract
from penstock.registry.producer import SchemaProducer
from penstock.registry.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from penstock.connectors.base import Context
    from penstock.settings import Kafka

AT = {"type": "long", "logicalType": "timestamp-micros"}
ORDER = Schema(
    "AVRO",
    json.dumps(
        {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}, {"name": "at", "type": AT}]}
    ),
)
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def pipeline(source: str, out: str, time: ps.EventTime | None) -> ps.Pipeline:
    made = ps.Pipeline(f"unique-{uuid.uuid4().hex[:6]}")
    made.source("orders", ps.Kafka(source, format=ps.Avro()), time=time)

    @made.flow
    def copied(orders: DataFrame) -> DataFrame:
        return orders

    made.sink(copied, ps.Kafka(out))
    return made


def given(context: Context, source: str, *rows: tuple[int, float]) -> None:
    for number, second in rows:  # one producer each: a producer would refuse what it has sent itself
        with SchemaProducer(context.settings, source) as producer:
            producer.send({"id": number, "at": BEGIN + timedelta(seconds=second)}, key=str(second))


def contract(context: Context, source: str) -> None:
    with Registry(context.settings.registry) as registry:
        registry.register(f"{source}-value", ORDER)
        rules = {"rules": {"id": {"unique_within": "1 hour"}}}
        keep_contract(registry, f"{source}-value", read_contract(json.dumps(rules), "here"))


def run(made: ps.Pipeline, context: Context) -> None:
    running = start(compile_pipeline(made, context), context, until_caught_up=True)
    assert running.wait(120)
    running.close()


def test_every_double_is_told_of_once(context: Context, kafka: Kafka, topic: Callable[..., str]) -> None:
    source, out = topic("orders", partitions=2), topic("out")
    contract(context, source)
    made = pipeline(source, out, ps.EventTime("at", delay="10 seconds"))
    given(context, source, (1, 5), (1, 0), (2, 0), (3, 0), (1, 3599))
    run(made, context)
    given(context, source, (1, 3600), (2, 3600), (3, 3590), (4, 20_000))
    run(made, context)
    given(context, source, (4, 21_000), (5, 40_000))
    run(made, context)
    given(context, source, (5, 60_000))
    run(made, context)
    letters: list[dict[str, Any]] = [one.json() for one in read(kafka, f"{made.name}-dead-letters")]
    assert sorted((one["key"], one["rule"]) for one in letters) == [
        (key, "contract: id is unique within 1 hour") for key in ("21000", "3590", "3599", "5")
    ]
    assert {one["topic"] for one in letters} == {source}
    assert letters[0]["message"].startswith("id is ")
    assert len(list(read(kafka, out))) == 12


def test_without_an_event_time_it_is_refused(context: Context, topic: Callable[..., str]) -> None:
    source = topic("orders")
    contract(context, source)
    with pytest.raises(DeclarationError, match="id is unique within 1 hour, and source 'orders' has no event time"):
        compile_pipeline(pipeline(source, topic("out"), None), context)


def test_a_producer_refuses_what_it_has_sent(context: Context, topic: Callable[..., str]) -> None:
    source = topic("orders")
    contract(context, source)
    with SchemaProducer(context.settings, source) as producer:
        producer.send({"id": 1, "at": BEGIN})
        producer.send({"id": 2, "at": BEGIN})
        with pytest.raises(DeclarationError, match="id is unique within 1 hour does not hold"):
            producer.send({"id": 1, "at": BEGIN})
