"""Sources decode what their flows use, and nothing else."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

import penstock as ps
from penstock.broker import Producer
from penstock.pipeline.compile import compile_pipeline
from penstock.registry.producer import SchemaProducer
from penstock.registry.schema import Schema
from tests.pipeline.test_run import run, values

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.connectors.base import Context
    from penstock.settings import Kafka
    from tests.conftest import Project

COLUMNS = "id LONG, amount DOUBLE, note STRING, `odd.name` LONG, more STRUCT<deep: LONG, other: STRING>"


def sums(source: ps.Kafka, target: str) -> ps.Pipeline:
    pipeline = ps.Pipeline(f"sums-{uuid.uuid4().hex[:6]}")
    pipeline.source("orders", source)

    @pipeline.flow(expect={"positive": "amount > 0"})
    def good(orders: DataFrame) -> DataFrame:
        return orders

    @pipeline.flow
    def shown(good: DataFrame) -> DataFrame:
        return good.select("id", F.col("`odd.name`").alias("odd"))

    pipeline.sink(shown, ps.Kafka(target))
    return pipeline


def decoded(pipeline: ps.Pipeline, context: Context) -> list[str]:
    (source,) = compile_pipeline(pipeline, context).graph.sources
    return [name for name in source.connector.stream(context).columns if not name.startswith("__")]


def test_a_column_that_no_sink_needs_is_not_decoded(context: Context, kafka: Kafka, topic: Callable[..., str]) -> None:
    source, target = topic("orders"), topic("shown")
    pipeline = sums(ps.Kafka(source, format=ps.Json(COLUMNS)), target)
    assert decoded(pipeline, context) == ["id", "amount", "odd.name"]
    with Producer(kafka) as producer:
        producer.send(source, {"id": 1, "amount": 2.0, "odd.name": 3, "note": "x", "more": {"deep": 4}})
        producer.send(source, {"id": 2, "amount": 2.0, "odd.name": 3, "note": "x", "more": "of another type"})
        producer.send(source, {"id": 3, "amount": "of another type", "odd.name": 3})
        producer.send(source, {"id": 4, "amount": -1.0, "odd.name": 3})
        producer.send(source, b'{"id": 5, "amount": 2.0, "odd.name": 3, "note": ')
    run(pipeline, context)
    assert sorted(row["id"] for row in values(kafka, target)) == [1, 2]
    letters = [(one["rule"], one["offset"]) for one in values(kafka, f"{pipeline.name}-dead-letters")]
    assert sorted(letters) == [("decode", 2), ("decode", 4), ("positive", 3)]


def test_rows_as_they_are_have_all_columns(context: Context, topic: Callable[..., str]) -> None:
    pipeline = ps.Pipeline(f"whole-{uuid.uuid4().hex[:6]}")
    pipeline.source("orders", ps.Kafka(topic("orders"), format=ps.Json(COLUMNS)))

    @pipeline.flow
    def same(orders: DataFrame) -> DataFrame:
        return orders

    @pipeline.flow
    def counted(orders: DataFrame) -> DataFrame:
        return orders.select(F.lit(1).alias("one"))

    pipeline.sink(counted, ps.Kafka(topic("counted")))
    assert decoded(pipeline, context) == ["id"]
    pipeline.sink(same, ps.Kafka(topic("same")))
    assert decoded(pipeline, context) == ["id", "amount", "note", "odd.name", "more"]


def test_a_topic_joined_with_itself_has_what_either_side_needs(context: Context, topic: Callable[..., str]) -> None:
    pipeline = ps.Pipeline(f"joined-{uuid.uuid4().hex[:6]}")
    rows = ps.Json("id LONG, amount DOUBLE, note STRING, at TIMESTAMP, unused STRING")
    pipeline.source("orders", ps.Kafka(topic("orders"), format=rows), time=ps.EventTime("at"))

    @pipeline.flow
    def pairs(orders: DataFrame) -> DataFrame:
        one, other = orders.alias("one"), orders.alias("other")
        soon = "one.id = other.id AND other.at BETWEEN one.at AND one.at + INTERVAL 1 MINUTE"
        return one.join(other, F.expr(soon)).select("one.id", "other.note")

    pipeline.sink(pairs, ps.Kafka(topic("pairs")))
    assert decoded(pipeline, context) == ["id", "note", "at"]


def test_avro_skips_the_bytes_of_what_nobody_needs(
    platform: Project, context: Context, kafka: Kafka, topic: Callable[..., str]
) -> None:
    source, target = topic("orders"), topic("shown")
    kind = {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}
    fields: list[dict[str, Any]] = [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "first", "type": kind},
        {"name": "second", "type": "Kind"},
        {"name": "amount", "type": "double"},
    ]
    schema = Schema("AVRO", json.dumps({"type": "record", "name": "Order", "fields": fields}))
    with SchemaProducer(platform.settings, source, schema) as producer:
        for number in range(3):
            producer.send({"id": number, "note": "x", "first": "A", "second": "B", "amount": 1.0}, "1")
    pipeline = ps.Pipeline(f"avro-{uuid.uuid4().hex[:6]}")
    pipeline.source("orders", ps.Kafka(source, format=ps.Avro()))

    @pipeline.flow
    def shown(orders: DataFrame) -> DataFrame:
        return orders.select("id", "second")

    pipeline.sink(shown, ps.Kafka(target))
    assert decoded(pipeline, context) == ["id", "first", "second"]
    run(pipeline, context)
    assert sorted((row["id"], row["second"]) for row in values(kafka, target)) == [(n, "B") for n in range(3)]
