"""Rows and pipelines that the tests of all operators share."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import penstock as ps
from penstock.pipeline.spark_plan import DELAY
from penstock.testing.connectors import plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "id LONG, k STRING, v DOUBLE, at TIMESTAMP"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def event(second: float, **values: Any) -> dict[str, Any]:
    """A row so many seconds after noon."""
    return {"at": (NOON + timedelta(seconds=second)).isoformat(), **values}


def disorder(count: int, *, seconds: int, delay: int, seed: int = 1) -> list[dict[str, Any]]:
    """Rows out of order by less than the delay, some twice, some without a key, some without a value."""
    chance = random.Random(seed)
    rows = []
    for number in range(count):
        at = number * seconds / count - chance.random() * delay
        key = chance.choice(["a", "b", "c", None])
        value = None if chance.random() < 0.05 else round(chance.random() * 100, 2)
        rows.append(event(at, id=number, k=key, v=value))
        if chance.random() < 0.1:
            rows.append(rows[-1])
    return rows


def pipeline_of(flow: Callable[[DataFrame], DataFrame], late: str = "drop", **how: Any) -> ps.Pipeline:
    """One source of events, one flow, a sink, and one for late rows if they are kept."""
    made = ps.Pipeline("operators")
    time = ps.EventTime("at", delay="10 seconds", late=late)
    made.source("events", ps.Kafka("events", format=ps.Json(SCHEMA)), time=time)

    @made.flow(name="out", **how)
    def out(events: DataFrame) -> DataFrame:
        return flow(events)

    made.sink(out, ps.Kafka("out"))
    if late == "keep":
        made.sink("out$late", ps.Kafka("late"))
    return made


def batch_of(spark: SparkSession, rows: list[dict[str, Any]]) -> DataFrame:
    """The same rows at rest."""
    values = [(one.get("id"), one.get("k"), one.get("v"), datetime.fromisoformat(one["at"])) for one in rows]
    return spark.createDataFrame(values, SCHEMA)


def timed(rows: DataFrame) -> DataFrame:
    """The same rows with the mark of an event time, as a source gives it."""
    return rows.withMetadata("at", {DELAY: 10_000})


def same(found: list[dict[str, Any]], rows: DataFrame) -> None:
    """Fail unless the rows found are those of a batch computation, in any order."""
    wanted = [plain(row.asDict(recursive=True)) for row in rows.collect()]
    assert sorted(map(_told, found)) == sorted(map(_told, wanted))


def _told(row: dict[str, Any]) -> str:
    return repr({name: round(value, 6) if isinstance(value, float) else value for name, value in sorted(row.items())})
