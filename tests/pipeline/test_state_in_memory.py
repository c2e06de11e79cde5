"""State in Java's memory instead of on disk: the same rows, also after a crash; a checkpoint has one of both."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

import penstock as ps
from penstock.broker import Producer
from penstock.errors import DeclarationError, StateError
from penstock.pipeline.compile import compile_pipeline
from penstock.pipeline.run import Running, start
from penstock.pipeline.state import PipelineState
from penstock.pipeline.state_rows import state_rows
from penstock.testing import CRASH, PAUSE, Trial
from tests.pipeline.keyed.processes import PAYMENT, Fraud
from tests.pipeline.operators.events import SCHEMA, batch_of, disorder, same

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from penstock.connectors.base import Context
    from penstock.settings import Kafka

TIME = ps.EventTime("at", delay="10 seconds")
MEMORY = "HDFSBackedStateStoreProvider"


def hops(events: DataFrame) -> DataFrame:
    return events.groupBy(F.window("at", "1 minute", "20 seconds"), "k").agg(F.count("*").alias("count"))


def visits(events: DataFrame) -> DataFrame:
    return events.groupBy("k", F.session_window("at", "5 seconds").alias("visit")).agg(F.count("*").alias("count"))


def firsts(events: DataFrame) -> DataFrame:
    return ps.deduplicated(events.withColumn("minute", F.minute("at")), by=["k", "minute"], within="1 hour")


def pairs(events: DataFrame) -> DataFrame:
    one, other = events.alias("one"), events.select("k", "at", "id").alias("other")
    near = F.expr("one.k = other.k AND other.at BETWEEN one.at AND one.at + INTERVAL 2 SECONDS AND one.id <> other.id")
    return one.join(other, near).select("one.k", F.col("one.id").alias("a"), F.col("other.id").alias("b"))


def pipeline_of(flow: Callable[[DataFrame], DataFrame], source: str = "events", **how: str) -> ps.Pipeline:
    made = ps.Pipeline(f"memory-{uuid.uuid4().hex[:6]}", **how)
    made.source("events", ps.Kafka(source, format=ps.Json(SCHEMA)), time=TIME)

    @made.flow
    def out(events: DataFrame) -> DataFrame:
        return flow(events)

    made.sink(out, ps.Kafka("out"))
    return made


@pytest.mark.parametrize("flow", [hops, visits, pairs])
def test_rows_are_those_of_a_batch_computation(spark: SparkSession, flow: Callable[[DataFrame], DataFrame]) -> None:
    rows = disorder(300, seconds=300, delay=9)
    with Trial(pipeline_of(flow, state="memory"), spark) as trial:
        trial.given("events", [*rows[:120], PAUSE, *rows[120:200], CRASH, *rows[200:]]).end()
        same(trial.rows("out"), flow(batch_of(spark, rows)))


def test_a_key_is_remembered_over_a_crash(spark: SparkSession) -> None:
    rows = disorder(200, seconds=200, delay=9)
    with Trial(pipeline_of(firsts, state="memory"), spark) as trial:
        trial.given("events", [*rows[:100], CRASH, *rows[100:], CRASH, *rows]).end()
        seen = [(one["k"], one["minute"]) for one in trial.rows("out")]
        assert len(seen) == len(set(seen)) == batch_of(spark, rows).select("k", F.minute("at")).distinct().count()


def test_it_is_told_and_what_spark_can_not_keep_there_stays_on_disk(context: Context) -> None:
    made = pipeline_of(hops, state="memory")
    made.source("payments", ps.Kafka("payments", format=ps.Json(PAYMENT)), time=TIME)
    made.sink(made.keyed(by="card", returns=PAYMENT, name="fraud")(Fraud), ps.Kafka("alerts"))
    made.sink(made.flow(name="quick", emit="changes")(hops), ps.Kafka("quick"), latency="realtime")
    plan = compile_pipeline(made, context)
    assert [one["store"] for one in plan.as_dict()["queries"]] == ["memory", "disk", "disk"]
    kept = [line.strip() for line in plan.as_text().splitlines() if line.strip().startswith("keeps ")]
    assert [line.rpartition(", ")[2] for line in kept] == ["in memory", "on disk", "on disk"]


def test_a_store_that_is_not_known_is_refused(context: Context) -> None:
    with pytest.raises(DeclarationError, match="state='rocksdb' is not known") as caught:
        compile_pipeline(pipeline_of(hops, state="rocksdb"), context)
    assert caught.value.remedy == "Write one of disk, memory."


def test_the_checkpoint_goes_on_with_its_own_store_only(
    context: Context, kafka: Kafka, topic: Callable[..., str]
) -> None:
    source = topic("events")
    made = pipeline_of(hops, source, state="memory")
    with Producer(kafka) as producer:
        for one in disorder(20, seconds=20, delay=1):
            producer.send(source, one)
    running = _caught_up(made, context)
    checkpoint = running.state.checkpoint("out")
    assert MEMORY in (checkpoint / "offsets" / "0").read_text(encoding="utf-8")
    assert running.latest["out"]["state_rows"] == len(list(state_rows(context.spark, checkpoint, None, 100))) > 0
    made.state = "disk"
    with pytest.raises(StateError, match="its state is on disk now, in memory then"):
        _caught_up(made, context)
    made.state = "memory"
    _caught_up(made, context)


def test_a_checkpoint_from_before_there_was_a_choice_is_on_disk(context: Context) -> None:
    made = pipeline_of(hops)
    plan = compile_pipeline(made, context)
    state, (query,) = PipelineState(context.settings.home, made.name), plan.queries
    state.checkpoint(query.name).mkdir(parents=True)
    state.adopt(plan, query, {})
    known = state.query(query.name) / "plan.json"
    known.write_text(known.read_text(encoding="utf-8").replace('"store": "disk",', ""), encoding="utf-8")
    state.adopt(plan, query, {})


def _caught_up(made: ps.Pipeline, context: Context) -> Running:
    running = start(compile_pipeline(made, context), context, until_caught_up=True)
    assert running.wait(120)
    running.close()
    return running
