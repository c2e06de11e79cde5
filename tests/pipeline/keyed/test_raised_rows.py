"""A row that makes a process raise is a dead letter with its coordinates; the query goes on as if it had not come."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812

import penstock as ps
from penstock.broker import Producer, read
from penstock.errors import DeclarationError
from penstock.pipeline.compile import compile_pipeline
from penstock.pipeline.run import start
from penstock.testing import CRASH, END, PAUSE, Trial
from tests.pipeline.keyed.processes import PAYMENT, Careless
from tests.pipeline.keyed.test_on_spark import pipeline, row

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from penstock.connectors.base import Context
    from penstock.pipeline.keyed.process import Now
    from penstock.settings import Kafka


def test_on_trial(spark: SparkSession) -> None:
    made = pipeline()
    made.sink(made.keyed(by="card", returns=PAYMENT, name="fraud")(Careless), ps.Kafka("alerts"))
    with Trial(made, spark) as trial:
        trial.given(
            "payments", [row(0, 0.5), row(1, 13), PAUSE, row(59, 20_000), row(60, 0.5), row(30, 13, "b"), CRASH]
        )
        trial.given("payments", [row(200, 5.0), row(150, 13), END])
        trial.expect("fraud", [{"card": "a", "amount": 20_000.0}])
        letters = trial.dead()
    assert [(one["stage"], one["rule"], one["message"]) for one in letters] == [("fraud", "ValueError", "unlucky")] * 3


class Sequence:
    """The amounts so far, as they came."""

    last = ps.ListState("DOUBLE")

    def on_event(self, payments: dict[str, Any], now: Now) -> None:
        if payments["amount"] == 13:
            raise ValueError("unlucky")
        self.last.append(payments["amount"])
        now.emit({"card": now.key, "told": str(self.last.get())})


def test_the_query_that_has_them_tells_of_them(
    context: Context, kafka: Kafka, topic: Callable[..., str], tmp_path: Path
) -> None:
    source, out = topic("payments"), topic("told")
    made = ps.Pipeline(f"bank-{uuid.uuid4().hex[:6]}")
    made.source("payments", ps.Kafka(source, format=ps.Json(PAYMENT)), time=ps.EventTime("at", delay="10 seconds"))
    told = made.keyed(by="card", returns="card STRING, told STRING", name="told")(Sequence)
    made.sink(told, ps.Files(str(tmp_path / "files"), "parquet"))  # Spark writes it by itself, in a query of its own
    made.sink(told, ps.Kafka(out))
    with Producer(kafka) as producer:
        for one in (row(0, 9), row(0, 10), row(0, 13), row(0, 8), row(100, 1, "b")):
            producer.send(source, one)
    running = start(compile_pipeline(made, context), context, until_caught_up=True)
    assert running.wait(120)
    running.close()
    letters = [one.json() for one in read(kafka, f"{made.name}-dead-letters")]
    assert [(one["offset"], one["rule"]) for one in letters] == [(2, "ValueError")]
    # Rows of one time are taken in the order in which they came.
    assert [one.json()["told"] for one in read(kafka, out)] == ["[9.0]", "[9.0, 10.0]", "[9.0, 10.0, 8.0]"]


def test_a_process_with_state_after_it_stops_at_such_a_row(context: Context, topic: Callable[..., str]) -> None:
    made = pipeline()
    made.keyed(by="card", returns=PAYMENT, name="fraud")(Careless)

    @made.flow(unbounded=True)
    def again(fraud: DataFrame) -> DataFrame:
        return fraud.dropDuplicates(["card"])

    made.sink(again, ps.Kafka(topic("again")))
    plan = compile_pipeline(made, context)
    assert not plan.graph.quarantines("fraud__outputs")

    @made.flow
    def windows(fraud: DataFrame) -> DataFrame:
        return fraud.groupBy(F.window("at", "1 minute")).count()

    made.sink(windows, ps.Kafka(topic("windows")))
    with pytest.raises(DeclarationError, match="what a process, a pattern or features give out has none"):
        compile_pipeline(made, context)


def test_with_coordinates_through_flows(context: Context, kafka: Kafka, topic: Callable[..., str]) -> None:
    source, out = topic("payments"), topic("alerts")
    made = ps.Pipeline(f"bank-{uuid.uuid4().hex[:6]}")
    time = ps.EventTime("at", delay="10 seconds")
    made.source("given", ps.Kafka(source, format=ps.Json(PAYMENT)), time=time)

    @made.each("card STRING, amount DOUBLE, at TIMESTAMP")
    def checked(given):  # type: ignore[no-untyped-def]
        return given

    @made.flow
    def payments(checked: DataFrame) -> DataFrame:
        return checked.filter("amount IS NOT NULL").select("at", "card", "amount")

    made.sink(made.keyed(by="card", returns=PAYMENT, name="fraud")(Careless), ps.Kafka(out))
    rows = [row(0, 0.5), row(1, 13), row(2, 20_000), row(3, 13, "b"), row(100, 1)]
    with Producer(kafka) as producer:
        for one in rows:
            producer.send(source, one)
    for _ in range(2):
        running = start(compile_pipeline(made, context), context, until_caught_up=True)
        assert running.wait(120)
        running.close()
    assert [one.json()["amount"] for one in read(kafka, out)] == [20_000]
    letters = [one.json() for one in read(kafka, f"{made.name}-dead-letters")]
    assert sorted((one["topic"], one["partition"], one["offset"]) for one in letters) == [
        (source, 0, 1),
        (source, 0, 3),
    ]
    assert {(one["stage"], one["rule"], one["message"]) for one in letters} == {("fraud", "ValueError", "unlucky")}
    assert all('"amount":13.0' in one["value"] for one in letters)
    assert running.totals()["fraud"]["dead"] == 0
