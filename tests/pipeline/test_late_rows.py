"""Late rows on a real broker: what was on time and what was late is all there was, each row once."""

from __future__ import annotations

import random
import uuid
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

import penstock as ps
from penstock.broker import Producer, read
from penstock.connectors.base import Context
from penstock.pipeline.compile import compile_pipeline
from penstock.pipeline.run import start

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from penstock.settings import Kafka
    from tests.conftest import Project

ROWS = 4000
START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("slide", ["1 minute", "20 seconds"])
def test_on_time_and_late_are_all_rows_exactly(
    spark: SparkSession,
    platform: Project,
    kafka: Kafka,
    topic: Callable[..., str],
    tmp_path: Path,
    slide: str,
) -> None:
    source, out = topic("orders"), topic("totals")
    pipeline = ps.Pipeline(f"late-{uuid.uuid4().hex[:6]}")
    pipeline.source(
        "orders",
        ps.Kafka(source, format=ps.Json("id LONG, at TIMESTAMP"), rows_per_batch=500),
        time=ps.EventTime("at", delay="30 seconds", late="keep"),
    )

    @pipeline.flow
    def totals(orders: DataFrame) -> DataFrame:
        return orders.groupBy(F.window("at", "1 minute", slide)).agg(F.collect_list("id").alias("ids"))

    pipeline.sink(totals, ps.Kafka(out))
    chance = random.Random(7)
    with Producer(kafka) as producer:
        for number in range(ROWS):
            behind = chance.choice((600, 1200)) if chance.random() < 0.01 else chance.random() * 20
            producer.send(source, {"id": number, "at": (START + timedelta(seconds=number - behind)).isoformat()})
        producer.send(source, {"id": ROWS, "at": (START + timedelta(days=1)).isoformat()})
    context = Context(spark, replace(platform.settings, project=tmp_path))
    running = start(compile_pipeline(pipeline, context), context, until_caught_up=True)
    assert running.wait(180)
    running.close()
    on_time = Counter(number for record in read(kafka, out) for number in record.json()["ids"])
    letters = [record.json() for record in read(kafka, f"{pipeline.name}-dead-letters")]
    late = Counter(int(one["offset"]) for one in letters)
    windows = 60 // (60 if slide == "1 minute" else 20)
    assert set(late.values()) == {1}
    assert len(late) > 20
    missed = {number for number in range(ROWS) if on_time[number] < windows}
    assert missed == set(late)
    assert {one["rule"] for one in letters} == {"late"}
