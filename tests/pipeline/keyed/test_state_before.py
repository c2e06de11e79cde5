"""What a process begins with: rows of a table, or what an older version of it remembered."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest

import penstock as ps
from penstock.broker import Producer, read
from penstock.errors import DeclarationError, StateError
from penstock.pipeline.compile import compile_pipeline, declared
from penstock.pipeline.run import start
from penstock.testing import CRASH, END, PAUSE, Trial
from tests.pipeline.keyed.processes import PAYMENT, Counted, Fraud, Limits
from tests.pipeline.keyed.test_on_spark import pipeline, row

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from penstock.connectors.base import Context
    from penstock.settings import Kafka


def limited(columns: str) -> ps.Pipeline:
    made = pipeline()
    made.table("limits", ps.Kafka("limits", format=ps.Json(columns), key="card"))
    made.sink(made.keyed(by="card", returns=PAYMENT, name="large")(Limits), ps.Kafka("large"))
    return made


def test_rows_of_a_table(spark: SparkSession) -> None:
    with Trial(limited("card STRING, limit DOUBLE"), spark) as trial:
        trial.given("limits", [{"card": "a", "limit": 5.0}, {"card": "c", "limit": 6.0}])
        trial.given("payments", [row(0, 7), row(0, 7, "b"), PAUSE, row(100, 8, "a"), CRASH, row(9000, 7, "c"), END])
        trial.expect("large", [{"card": "a", "amount": 7}, {"card": "a", "amount": 8}, {"card": "c", "amount": 7}])


def test_rows_of_a_table_with_their_time(spark: SparkSession) -> None:
    with Trial(limited("card STRING, limit DOUBLE, at TIMESTAMP"), spark) as trial:
        trial.given("limits", [{**row(0, 0), "limit": 5.0}, {**row(0, 0, "c"), "limit": 5.0}])
        trial.given("payments", [row(3599, 7), row(3600, 7, "c"), END])
        trial.expect("large", [{"card": "a", "amount": 7}])


def test_a_table_with_another_key_is_refused(context: Context) -> None:
    with pytest.raises(DeclarationError, match="has no column card of type string"):
        compile_pipeline(limited("card LONG, limit DOUBLE"), context)
    made = pipeline()
    made.source("limits", ps.Kafka("limits", format=ps.Json("card STRING, limit DOUBLE")))
    made.sink(made.keyed(by="card", returns=PAYMENT, name="large")(Limits), ps.Kafka("large"))
    with pytest.raises(DeclarationError, match="which on_initial takes, is no table"):
        declared(made)


def test_an_older_version(context: Context, kafka: Kafka, topic: Callable[..., str]) -> None:
    source, out, name = topic("payments"), topic("alerts"), f"bank-{uuid.uuid4().hex[:6]}"

    def run(made: type, *rows: dict[str, object]) -> None:
        given = ps.Pipeline(name)
        time = ps.EventTime("at", delay="1 seconds")
        given.source("payments", ps.Kafka(source, format=ps.Json(PAYMENT)), time=time)
        given.sink(given.keyed(by="card", returns=PAYMENT, name="fraud")(made), ps.Kafka(out))
        with Producer(kafka) as producer:
            for one in rows:
                producer.send(source, one)
        running = start(compile_pipeline(given, context), context, until_caught_up=True)
        assert running.wait(120)
        running.close()

    class Retyped(Fraud):
        small = ps.ValueState("STRING")

    run(Fraud, row(0, 0.5), row(10, 5, "b"))
    with pytest.raises(StateError, match="of fraud, small is value of STRING now, and was value of BOOLEAN"):
        run(Retyped)
    run(Counted, row(12, 0.5), row(14, 20_000), row(40, 5, "b"))
    assert [one.json()["amount"] for one in read(kafka, out)] == [2.0]
    with pytest.raises(StateError, match="it is version 1 now, and was 2"):
        run(Fraud)


def test_state_that_only_grows_is_warned_of() -> None:
    class Growing:
        total = ps.ValueState("LONG")
        last = ps.ListState("LONG", ttl="1 day")
        days = ps.MapState("DATE", "LONG")

        def on_event(self, payments: dict[str, object], now: object) -> None:
            del self.days[payments["at"]]

    made = pipeline()
    made.sink(made.keyed(by="card", returns=PAYMENT, name="grown")(Growing), ps.Kafka("grown"))
    (said,) = declared(made).warnings
    assert "total of grown grows with the number of keys" in said
    assert "test_state_before.py:" in said
