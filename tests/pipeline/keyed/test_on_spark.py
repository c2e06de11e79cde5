"""Processes on Spark: what they give equals what they give without it, also after a crash."""

from __future__ import annotations

import json
import random
import uuid
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import penstock as ps
from penstock.broker import Producer, read
from penstock.errors import DeclarationError, StateError
from penstock.pipeline.compile import compile_pipeline
from penstock.pipeline.run import start
from penstock.pipeline.state import PipelineState
from penstock.testing import CRASH, END, PAUSE, Trial
from tests.conftest import wait_until
from tests.pipeline.keyed.processes import PAYMENT, Everything, Fraud
from tests.pipeline.keyed.test_process import BEGIN, FAR, given_out, payment

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from penstock.connectors.base import Context
    from penstock.pipeline.keyed.process import Now
    from penstock.pipeline.plan import Plan
    from penstock.settings import Kafka


def row(second: float, amount: float, card: str = "a") -> dict[str, Any]:
    return {"card": card, "amount": amount, "at": (BEGIN + timedelta(seconds=second)).isoformat()}


def pipeline(late: str = "drop") -> ps.Pipeline:
    made = ps.Pipeline("payments")
    time = ps.EventTime("at", delay="10 seconds", late=late)
    made.source("payments", ps.Kafka("payments", format=ps.Json(PAYMENT)), time=time)
    return made


def test_the_fraud_detector(spark: SparkSession) -> None:
    made = pipeline()
    made.sink(made.keyed(by="card", returns=PAYMENT, name="fraud")(Fraud), ps.Kafka("alerts"))
    with Trial(made, spark) as trial:
        trial.given("payments", [row(0, 0.5), row(0, 0.5, "b"), PAUSE, row(59, 20_000), row(61, 20_000, "b"), CRASH])
        trial.given("payments", [row(70, 0.5, "c"), row(65, 0.5), row(66, 9_000), END])
        trial.expect("fraud", [{"card": "a", "amount": 20000.0}])


def test_rows_that_come_too_late_are_kept(spark: SparkSession) -> None:
    made = pipeline(late="keep")
    made.sink(made.keyed(by="card", returns=PAYMENT, name="fraud")(Fraud), ps.Kafka("alerts"))
    made.sink("fraud$late", ps.Kafka("late"))
    with Trial(made, spark) as trial:
        trial.given("payments", [row(0, 0.5), PAUSE, row(100, 5.0), PAUSE, row(50, 20_000), row(90.5, 0.5), END])
        assert [one["amount"] for one in trial.rows("fraud$late")] == [20_000]
        trial.expect("fraud", [])


def test_states_timers_and_outputs_equal_those_without_spark(spark: SparkSession) -> None:
    made = pipeline()
    outputs = {"rung": "card STRING, told STRING, at TIMESTAMP"}
    totals = made.keyed(by="card", returns=PAYMENT, outputs=outputs, name="totals")(Everything)
    made.sink(totals, ps.Kafka("totals"))
    made.sink("rung", ps.Kafka("rung"))
    chance = random.Random(7)
    rows = [(second, chance.randrange(6)) for second in range(0, 60, 2)]
    with Trial(made, spark) as trial:
        for at in range(0, 30, 6):
            batch = [row(*one) for one in rows[at : at + 6]]
            chance.shuffle(batch)
            trial.given("payments", [*batch, CRASH if at == 12 else PAUSE])
        trial.end()
        found = {"": trial.rows("totals"), "rung": trial.rows("rung")}
    wanted = given_out(Everything, [([payment(*one) for one in rows], FAR)])
    for name in ("", "rung"):
        told = [json.loads(text) for output, text in wanted if output == name]
        shown = [
            {**one, "at": one["at"].isoformat(timespec="microseconds").replace("+00:00", "Z")} for one in found[name]
        ]
        assert sorted(map(str, shown)) == sorted(map(str, told))


def test_three_failed_payments_within_five_minutes(spark: SparkSession) -> None:
    made = pipeline()
    failed = ps.pattern("failed", "amount < 0").times(3).within("5 minutes").skip("past")

    @made.flow
    def alerts(payments: DataFrame) -> DataFrame:
        return ps.matches(payments, failed, by="card")

    made.sink(alerts, ps.Kafka("alerts"))
    with Trial(made, spark) as trial:
        trial.given("payments", [row(0, -1), row(100, -2), row(50, 5), PAUSE, row(310, -3), row(299, -4, "b"), CRASH])
        trial.given("payments", [row(320, -5), row(312, -6), row(320, 7, "b"), END])
        (found,) = trial.rows("alerts")
    assert [one["amount"] for one in found["failed"]] == [-2, -3, -6]
    assert (found["card"], found["end"] - found["start"]) == ("a", timedelta(seconds=212))


def test_a_cart_that_is_left_alone_for_half_an_hour(spark: SparkSession) -> None:
    made = pipeline()
    left = ps.pattern("filled", "amount > 0").not_followed_by(lambda one: one["amount"] == 0).within("30 minutes")

    @made.flow
    def abandoned(payments: DataFrame) -> DataFrame:
        return ps.matches(payments, left.skip("past"), by=["card"])

    made.sink(abandoned, ps.Kafka("abandoned"))
    with Trial(made, spark) as trial:
        trial.given("payments", [row(0, 5.5), row(60, 0), row(0, 6.5, "b"), row(1700, 7.5, "c"), row(1800, 0, "b")])
        trial.advance("00:31")
        trial.expect("abandoned", [{"card": "b"}])
        assert trial.rows("abandoned")[0]["filled"]["amount"] == 6.5
        trial.end()
        trial.expect("abandoned", [{"card": "b"}, {"card": "c"}])


class Reminded:
    """Says a name again, by the clock."""

    name = ps.ValueState("STRING")

    def on_event(self, names: dict[str, Any], now: Now) -> None:
        self.name.set(names["name"])
        now.timer("1 second")

    def on_timer(self, name: str, now: Now) -> None:
        now.emit({"name": self.name.get()})
        self.name.clear()


def test_a_timer_by_the_clock(context: Context, kafka: Kafka, topic: Callable[..., str]) -> None:
    source, out = topic("names"), topic("reminded")
    made = ps.Pipeline(f"names-{uuid.uuid4().hex[:6]}")
    made.source("names", ps.Kafka(source, format=ps.Json("id LONG, name STRING")))
    made.sink(made.keyed(by="id", returns="name STRING", clock="processing", name="reminded")(Reminded), ps.Kafka(out))
    with Producer(kafka) as producer:
        producer.send(source, {"id": 1, "name": "Ada"})
        producer.send(source, {"id": None, "name": "nobody"})
    running = start(compile_pipeline(made, context), context)
    try:
        wait_until(lambda: len(list(read(kafka, out))) >= 2, 60, "the timers ring")
    finally:
        running.stop()
    assert sorted(one.json()["name"] for one in read(kafka, out)) == ["Ada", "nobody"]
    with pytest.raises(DeclarationError, match="goes by the clock"):
        Trial(made, context.spark)
    with pytest.raises(DeclarationError, match="would never end"):
        start(compile_pipeline(made, context), context, until_caught_up=True)


def test_another_pattern_is_refused_before_the_start(context: Context, tmp_path: Path) -> None:
    def matching(condition: str) -> Plan:
        given = pipeline()

        @given.flow
        def alerts(payments: DataFrame) -> DataFrame:
            return ps.matches(payments, ps.pattern("one", condition).times(2), by="card")

        given.sink(alerts, ps.Kafka("alerts"))
        return compile_pipeline(given, context)

    before, after = matching("amount < 1"), matching("amount < 2")
    state = PipelineState(tmp_path, "payments")
    (query,) = before.queries
    state.adopt(before, query, state.owners(before))
    state.checkpoint(query.name).mkdir(parents=True)
    state.adopt(before, query, state.owners(before))
    with pytest.raises(StateError, match="can't go on from its checkpoint"):
        state.adopt(after, after.queries[0], state.owners(after))
