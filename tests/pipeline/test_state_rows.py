"""What a query remembers can be read from its checkpoint."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from pyspark.sql import functions as F  # noqa: N812

import penstock as ps
from penstock.broker import Producer
from penstock.cli.main import penstock
from penstock.errors import DeclarationError
from penstock.pipeline.compile import compile_pipeline
from penstock.pipeline.run import start
from penstock.pipeline.state_rows import refuse_without_state, state_rows
from tests.pipeline.keyed.processes import PAYMENT, Fraud
from tests.pipeline.keyed.test_on_spark import row

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame

    from penstock.connectors.base import Context
    from penstock.settings import Kafka


def test_keys_windows_and_joins_are_shown(
    context: Context, kafka: Kafka, topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = topic("payments")
    made = ps.Pipeline(f"bank-{uuid.uuid4().hex[:6]}")
    time = ps.EventTime("at", delay="10 seconds")
    made.source("payments", ps.Kafka(source, format=ps.Json(PAYMENT)), time=time)
    made.source("refunds", ps.Kafka(topic("refunds"), format=ps.Json(PAYMENT)), time=time)
    made.sink(made.keyed(by="card", returns=PAYMENT, name="fraud")(Fraud), ps.Kafka(topic("alerts")))

    @made.flow
    def spent(payments: DataFrame) -> DataFrame:
        return payments.groupBy(F.window("at", "1 minute"), "card").agg(F.sum("amount").alias("amount"))

    made.sink(spent, ps.Kafka(topic("spent")))

    @made.flow
    def again(payments: DataFrame, refunds: DataFrame) -> DataFrame:
        one, other = payments.alias("one"), refunds.alias("other")
        near = F.expr("one.card = other.card AND other.at BETWEEN one.at AND one.at + INTERVAL 1 MINUTE")
        return one.join(other, near).select("one.card", "one.at", "one.amount")

    made.sink(again, ps.Kafka(topic("again")))
    with Producer(kafka) as producer:
        for one in (row(0, 0.5), row(5, 7.0, "b"), row(30, 8.0, "b")):
            producer.send(source, one)
    running = start(compile_pipeline(made, context), context, until_caught_up=True)
    assert running.wait(120)
    running.close()
    found = {
        one["key"]["card"]: one["value"]
        for one in state_rows(context.spark, running.state.checkpoint("fraud"), None, 20)
    }
    assert found["a"]["states"] == {"small": True}
    assert found["a"]["timers"].keys() == {"timer"}
    assert [one["amount"] for one in found["b"]["waiting"]] == [8.0]
    (window,) = state_rows(context.spark, running.state.checkpoint("spent"), None, 1)
    assert window["key"]["card"] in ("a", "b")
    assert [
        one["value"]["waiting"] for one in state_rows(context.spark, running.state.checkpoint("fraud"), "a", 20)
    ] == [[]]
    joined = list(state_rows(context.spark, running.state.checkpoint("again"), "b", 20))
    assert {(one["operator"], one["part"], one["value"]["amount"]) for one in joined} == {
        ("symmetricHashJoin", "left", 7.0),
        ("symmetricHashJoin", "left", 8.0),
    }
    monkeypatch.chdir(context.settings.project)
    listed = json.loads(CliRunner().invoke(penstock, ["state", "list", "--json"]).output)["state"]
    assert {one["query"] for one in listed if one["pipeline"] == made.name} == {"fraud", "spent", "again"}


def test_a_query_without_state(tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match="There is no state in"):
        refuse_without_state(tmp_path)
