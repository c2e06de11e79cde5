"""Event time: corrected windows, rows of the future, silent streams, a learnt delay."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

import penstock as ps
from penstock.broker import Producer, read
from penstock.pipeline.compile import compile_pipeline
from penstock.pipeline.run import start
from penstock.testing import CRASH, PAUSE, Trial
from tests.conftest import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from penstock.connectors.base import Context
    from penstock.settings import Kafka

SCHEMA = "id LONG, at TIMESTAMP"
START = datetime(2026, 1, 1, tzinfo=UTC)


def counted(topic: str, out: str, **time: Any) -> ps.Pipeline:
    made = ps.Pipeline(f"time-{uuid.uuid4().hex[:6]}")
    made.source("events", ps.Kafka(topic, format=ps.Json(SCHEMA)), time=ps.EventTime("at", **time))

    @made.flow
    def counts(events: DataFrame) -> DataFrame:
        return events.filter("id >= 0").groupBy(F.window("at", "10 seconds")).agg(F.count("*").alias("rows"))

    made.sink(counts, ps.Kafka(out))
    return made


def row(number: int, second: float) -> dict[str, Any]:
    return {"id": number, "at": (START + timedelta(seconds=second)).isoformat()}


def send(kafka: Kafka, topic: str, rows: list[dict[str, Any]]) -> None:
    with Producer(kafka) as producer:
        for one in rows:
            producer.send(topic, one)


def values(kafka: Kafka, topic: str) -> list[Any]:
    return [record.json() for record in read(kafka, topic)]


def counts_of(kafka: Kafka, topic: str) -> list[int]:
    """Of the windows by time; those of one batch come in any order."""
    found = sorted(values(kafka, topic), key=lambda one: str(one["window"]["start"]))
    return [one["rows"] for one in found]


def test_a_window_is_corrected_and_emitted_again_within_its_grace(spark: SparkSession) -> None:
    pipeline = counted("events", "out", delay="5 seconds", late="update", grace="1 minute")
    with Trial(pipeline, spark) as trial:
        trial.given("events", [row(1, 1), row(2, 2), PAUSE, row(3, 30), CRASH])
        trial.given("events", [row(4, 3)])  # after the delay, within the grace
        firsts = [one["rows"] for one in trial.rows("counts") if one["window"]["start"].second == 0]
        assert firsts == [2, 3]
        trial.advance("00:02:00")
        trial.given("events", [row(5, 4)])  # after the grace
        assert [one["rule"] for one in trial.dead("counts")] == ["late"]
        trial.end()
        assert len(trial.rows("counts")) == 3


def test_rows_of_the_future_never_move_time(context: Context, kafka: Kafka, topic: Callable[..., str]) -> None:
    source, out = topic("events"), topic("out")
    now = datetime.now(UTC).replace(microsecond=0)
    far = (now + timedelta(days=400)).isoformat()
    rows = [{"id": number, "at": (now + timedelta(seconds=number)).isoformat()} for number in range(40)]
    send(kafka, source, [rows[0], {"id": 100, "at": far}, *rows[1:]])
    pipeline = counted(source, out, delay="1 second", late="keep", future="1 hour")
    running = start(compile_pipeline(pipeline, context), context, until_caught_up=True)
    assert running.wait(60)
    running.close()
    letters = values(kafka, f"{pipeline.name}-dead-letters")
    assert [(one["rule"], one["offset"]) for one in letters] == [("future", 1)]
    assert 25 < sum(one["rows"] for one in values(kafka, out)) <= 38


def test_a_silent_stream_lets_its_windows_close(context: Context, kafka: Kafka, topic: Callable[..., str]) -> None:
    source, out = topic("events"), topic("out")
    send(kafka, source, [row(number, number) for number in range(12)])
    pipeline = counted(source, out, delay="1 second", idle="1 second")
    running = start(compile_pipeline(pipeline, context), context)
    try:
        wait_until(lambda: counts_of(kafka, out) == [10, 2], 60, "both windows close")
    finally:
        running.stop()


def test_a_silent_stream_does_not_hold_the_others(context: Context, kafka: Kafka, topic: Callable[..., str]) -> None:
    busy, silent, out = topic("busy"), topic("silent"), topic("out")
    made = ps.Pipeline(f"two-{uuid.uuid4().hex[:6]}")
    time = ps.EventTime("at", delay="1 second", idle="2 seconds")
    made.source("busy", ps.Kafka(busy, format=ps.Json(SCHEMA)), time=replace(time, idle=None))
    made.source("silent", ps.Kafka(silent, format=ps.Json(SCHEMA)), time=time)

    @made.flow
    def counts(busy: DataFrame, silent: DataFrame) -> DataFrame:
        every = busy.unionByName(silent)
        return every.groupBy(F.window("at", "10 seconds")).agg(F.count("*").alias("rows"))

    made.sink(counts, ps.Kafka(out))
    send(kafka, busy, [row(number, number) for number in range(30)])
    send(kafka, silent, [row(0, 5)])
    running = start(compile_pipeline(made, context), context)
    try:
        wait_until(lambda: counts_of(kafka, out)[:2] == [11, 10], 60, "the first windows close")
    finally:
        running.stop()


def test_a_delay_is_learnt_from_the_disorder(context: Context, kafka: Kafka, topic: Callable[..., str]) -> None:
    source, out = topic("events"), topic("out")
    rows = [row(number, number - (7.5 if number % 40 == 0 else 3.0 if number % 2 else 0)) for number in range(2000)]
    send(kafka, source, rows)
    running = start(compile_pipeline(counted(source, out, delay="p95"), context), context, until_caught_up=True)
    running.wait(60)
    running.close()
    learnt = running.learnt["events"]
    assert learnt.rows == 2000
    assert 2.0 <= float(learnt.delay.split()[0]) <= 4.0  # every 40th row lies further behind
    assert 0.02 < learnt.lost < 0.03
    assert "of them would come too late" in learnt.sentence("events")


def test_too_few_rows_to_learn_from_are_told(context: Context, kafka: Kafka, topic: Callable[..., str]) -> None:
    source, out = topic("events"), topic("out")
    send(kafka, source, [row(1, 1)])
    running = start(compile_pipeline(counted(source, out, delay="p99"), context), context, until_caught_up=True)
    running.wait(60)
    running.close()
    assert running.learnt["events"].sentence("events").startswith("events: too few rows")


def test_processing_time_where_it_is_asked_for(context: Context, kafka: Kafka, topic: Callable[..., str]) -> None:
    source, out = topic("events"), topic("out")
    made = ps.Pipeline(f"now-{uuid.uuid4().hex[:6]}")
    made.source("events", ps.Kafka(source, format=ps.Json(SCHEMA)), time=ps.ProcessingTime("seen_at"))

    @made.flow
    def counts(events: DataFrame) -> DataFrame:
        return events.groupBy(F.window("seen_at", "1 second")).agg(F.count("*").alias("rows"))

    made.sink(counts, ps.Kafka(out))
    send(kafka, source, [row(1, 0), row(2, 10**6), {"id": 3}])
    running = start(compile_pipeline(made, context), context)
    try:
        wait_until(lambda: sum(one["rows"] for one in values(kafka, out)) == 3, 60, "the window closes by itself")
    finally:
        running.stop()


def test_rows_that_a_pattern_does_not_look_at_move_its_time(
    context: Context, kafka: Kafka, topic: Callable[..., str]
) -> None:
    source, found, steps = topic("events"), topic("found"), topic("steps")
    made = ps.Pipeline(f"time-{uuid.uuid4().hex[:6]}")
    made.source("events", ps.Kafka(source, format=ps.Json(SCHEMA)), time=ps.EventTime("at", delay="5 seconds"))

    @made.flow
    def pairs(events: DataFrame) -> DataFrame:
        two = ps.pattern("first", "id = 1").followed_by("second", "id = 2").within("10 seconds")
        return ps.matches(events.withColumn("k", F.lit("k")), two, by="k")

    @made.flow
    def tries(events: DataFrame) -> DataFrame:
        return ps.funnel(events, by="id", steps={"one": "id = 1", "two": "id = 2"}, within="10 seconds")

    made.sink(pairs, ps.Kafka(found))
    made.sink(tries, ps.Kafka(steps))
    send(kafka, source, [row(1, 0), row(2, 1), row(3, 60)])
    running = start(compile_pipeline(made, context), context, until_caught_up=True)
    assert running.wait(120)
    running.close()
    assert [one["second"]["id"] for one in values(kafka, found)] == [2]
    assert [one["reached"] for one in values(kafka, steps)] == ["one"]
