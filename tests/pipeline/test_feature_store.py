"""Features where models read them: a table with the newest of each key, and files with all of them."""

from __future__ import annotations

import random
import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import duckdb
import psycopg
import pyarrow as pa
import pyarrow.dataset as ds

import penstock as ps
from penstock.broker import Producer
from penstock.pipeline.compile import compile_pipeline
from penstock.pipeline.run import start
from penstock.pipeline.state_rows import state_rows

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame

    from penstock.connectors.base import Context, SinkConnector
    from penstock.pipeline.state import PipelineState
    from penstock.settings import Kafka

SCHEMA = "card LONG, amount DOUBLE, at TIMESTAMP"
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
CARDS = 20


def pipeline(source: str, *sinks: SinkConnector) -> ps.Pipeline:
    made = ps.Pipeline(f"cards-{uuid.uuid4().hex[:6]}")
    time = ps.EventTime("at", delay="10 seconds")
    made.source("payments", ps.Kafka(source, format=ps.Json(SCHEMA), rows_per_batch=150), time=time)

    @made.flow
    def card_features(payments: DataFrame) -> DataFrame:
        return ps.features(
            payments,
            by="card",
            payments=ps.Count(over=("1 minute", "1 hour")),
            spent=ps.Total("amount", over="1 hour"),
        )

    for sink in sinks:
        made.sink(card_features, sink)
    return made


def run(made: ps.Pipeline, context: Context) -> PipelineState:
    running = start(compile_pipeline(made, context), context, until_caught_up=True)
    assert running.wait(180)
    running.close()
    return running.state


def sent(kafka: Kafka, topic: str, count: int) -> list[dict[str, Any]]:
    """Payments out of order by less than the delay; a last one, without a card, lets the others be complete."""
    chance = random.Random(5)
    rows: list[dict[str, Any]] = [
        {"card": chance.randrange(CARDS), "amount": number + 0.5, "at": BEGIN + timedelta(seconds=number)}
        for number in range(count)
    ]
    late = sorted(rows, key=lambda row: row["at"] + timedelta(seconds=9 * chance.random()))
    end: dict[str, Any] = {"card": None, "amount": 0.0, "at": BEGIN + timedelta(seconds=count + 20)}
    with Producer(kafka) as producer:
        for row in (*late, end):
            producer.send(topic, {**row, "at": row["at"].isoformat()})
    return rows


def newest(rows: list[dict[str, Any]], card: int) -> tuple[datetime, int, int, float]:
    """The features of a card at its last payment."""
    last = max(row["at"] for row in rows if row["card"] == card)

    def amounts(length: timedelta) -> list[float]:
        return [row["amount"] for row in rows if row["card"] == card and last - length < row["at"] <= last]

    hour = amounts(timedelta(hours=1))
    return last, len(amounts(timedelta(minutes=1))), len(hour), sum(hour)


def test_the_newest_features_of_each_key_are_served(context: Context, kafka: Kafka, topic: Callable[..., str]) -> None:
    source, table = topic("payments"), f"features_{uuid.uuid4().hex[:8]}"
    rows = sent(kafka, source, 600)
    # Two kinds of sink: the rows of a batch are kept on disk between them, and must stay in their order.
    made = pipeline(source, ps.Postgres(table, key="card", create=True, writers=2), ps.Delta(f"{table}.history"))
    several = context.spark.newSession()
    several.conf.set("spark.sql.shuffle.partitions", "3")
    state = run(made, replace(context, spark=several))
    asked = f"SELECT card, event_timestamp, payments_1m, payments_1h, spent_1h FROM {table}"
    with psycopg.connect(context.settings.postgres.url) as connection:
        found = {card: told for card, *told in connection.execute(asked)}
    for card, told in found.items():
        last, _, hour, spent = newest(rows, card)
        # A minute after the last payment it went to zero, where time has come so far.
        assert told[0] in (last, last + timedelta(minutes=1))
        assert told[2:] == [hour, spent]
        assert told[1] == (newest(rows, card)[1] if told[0] == last else 0)
    assert found.keys() == set(range(CARDS))
    (kept,) = state_rows(context.spark, state.checkpoint("card_features"), "7", 20)
    assert len(kept["value"]["at"]) == len(kept["value"]["values"]["value:amount"]) == found[7][2]


def test_files_are_what_a_feature_store_reads(
    context: Context, kafka: Kafka, topic: Callable[..., str], tmp_path: Path
) -> None:
    source, folder = topic("payments"), tmp_path / "card_features"
    rows = sent(kafka, source, 200)
    made = pipeline(source, ps.Files(str(folder), "parquet"))
    run(made, context)
    files = ds.dataset(folder)
    utc = pa.timestamp("us", tz="UTC")
    assert [(one.name, one.type) for one in files.schema] == [
        ("card", pa.int64()),
        ("event_timestamp", utc),
        ("created", utc),
        ("payments_1m", pa.int64()),
        ("payments_1h", pa.int64()),
        ("spent_1h", pa.float64()),
    ]
    features, asked = files.to_table(), pa.table({"card": [7, 7], "at": [BEGIN, BEGIN + timedelta(seconds=100)]})
    at_rest = context.spark.createDataFrame(asked.to_pylist(), "card LONG, at TIMESTAMP")
    known = context.spark.read.parquet(str(folder))
    told = ps.features_at(at_rest, known, by="card", at="at", ttl="1 hour").select("payments_1h", "spent_1h")
    found = (
        duckdb.connect()
        .sql(
            "SELECT payments_1h, spent_1h FROM asked ASOF LEFT JOIN features ON asked.card = features.card"
            " AND asked.at >= features.event_timestamp ORDER BY asked.at"
        )
        .fetchall()
    )
    before = [row["amount"] for row in rows if row["card"] == 7 and row["at"] <= BEGIN + timedelta(seconds=100)]
    assert found == [(None, None), (len(before), sum(before))]
    assert sorted(map(tuple, told.collect()), key=str) == sorted(found, key=str)
    assert features.num_rows >= len(rows)
