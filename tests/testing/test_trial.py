"""The test kit, used as a user would."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

import penstock as ps
from penstock.pipeline.load import load_pipeline
from penstock.testing import CRASH, END, PAUSE, Trial

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession


def shop(late: str = "drop") -> ps.Pipeline:
    pipeline = ps.Pipeline("shop")
    schema = "order_id LONG, customer LONG, amount DOUBLE, created_at TIMESTAMP"
    pipeline.source(
        "orders",
        ps.Kafka("orders", format=ps.Json(schema)),
        time=ps.EventTime("created_at", delay="1 minute", late=late),
    )

    @pipeline.flow(expect={"positive amount": "amount > 0"})
    def valid(orders: DataFrame) -> DataFrame:
        return orders

    @pipeline.flow
    def metrics(valid: DataFrame) -> DataFrame:
        grouped = valid.groupBy(F.window("created_at", "10 minutes"), "customer")
        return grouped.agg(F.count("*").alias("orders"), F.sum("amount").alias("spent"))

    pipeline.sink(valid, ps.Kafka("valid"))
    pipeline.sink(metrics, ps.Kafka("metrics"))
    return pipeline


@pytest.fixture
def trial(spark: SparkSession) -> Iterator[Trial]:
    with Trial(shop(), spark) as made:
        yield made


def test_a_window_closes_when_event_time_passes_it(trial: Trial) -> None:
    trial.given("orders", [{"customer": 1, "amount": 5.0}, {"customer": 1, "amount": 7.0}], at="10:00")
    trial.expect("metrics", [])
    trial.advance("10:10:30")
    trial.expect("metrics", [])
    trial.advance("10:11:01")
    trial.expect("metrics", [{"customer": 1, "orders": 2, "spent": 12.0}])
    trial.expect("valid", [{"amount": 5.0}, {"amount": 7.0}])


def test_a_crash_changes_nothing(trial: Trial) -> None:
    first, second = {"customer": 1, "amount": 5.0}, {"customer": 1, "amount": 7.0}
    trial.given("orders", [first, PAUSE, second, CRASH, {"customer": 2, "amount": 1.0}, END], at="10:00")
    trial.expect(
        "metrics",
        [{"customer": 1, "orders": 2, "spent": 12.0}, {"customer": 2, "orders": 1, "spent": 1.0}],
    )
    assert len(trial.rows("valid")) == 3


def test_late_rows_do_not_count(trial: Trial) -> None:
    trial.given("orders", [{"customer": 1, "amount": 5.0}], at="10:00").advance("11:00")
    trial.given("orders", [{"customer": 1, "amount": 9.0}], at="10:01").end()
    trial.expect("metrics", [{"customer": 1, "orders": 1, "spent": 5.0}])


def test_late_rows_are_kept_each_once(spark: SparkSession) -> None:
    with Trial(shop(late="keep"), spark) as trial:
        trial.given("orders", [{"order_id": 1, "customer": 1, "amount": 5.0}], at="10:00").advance("10:15")
        trial.given(
            "orders",
            [
                {"order_id": 2, "customer": 1, "amount": 9.0, "created_at": "2026-01-01T10:01:00Z"},
                {"order_id": 3, "customer": 2, "amount": 9.0, "created_at": "2026-01-01T10:02:00Z"},
                {
                    "order_id": 4,
                    "customer": 1,
                    "amount": 9.0,
                    "created_at": "2026-01-01T10:11:00Z",
                },  # its window is open
                {"order_id": 5, "customer": 1, "amount": -9.0, "created_at": "2026-01-01T10:01:00Z"},
            ],
        ).end()
        late = [letter for letter in trial.dead() if letter["rule"] == "late"]
        assert sorted(json.loads(letter["value"])["order_id"] for letter in late) == [2, 3]
        assert {letter["stage"] for letter in late} == {"metrics"}
        assert "its window ended at 2026-01-01 10:10:00" in late[0]["message"]
        assert [letter["rule"] for letter in trial.dead("valid")] == ["positive amount"]
        trial.expect("metrics", [{"customer": 1, "spent": 5.0}, {"customer": 1, "spent": 9.0}])


def test_broken_rows_are_dead_letters(trial: Trial) -> None:
    trial.given("orders", [{"order_id": 1, "amount": -5.0}, {"order_id": 2, "amount": 5.0}], at="10:00")
    (letter,) = trial.dead("valid")
    assert letter["rule"] == "positive amount"
    assert '"order_id":1' in letter["value"]


def test_an_expectation_that_fails_shows_both_sides(trial: Trial) -> None:
    trial.given("orders", [{"customer": 1, "amount": 5.0}], at="10:00").end()
    with pytest.raises(AssertionError, match=r"metrics gave 1 rows, expected 1\n  missing: .*'orders': 2"):
        trial.expect("metrics", [{"orders": 2}])


def test_every_row_counts(trial: Trial) -> None:
    trial.given("orders", [{"amount": 5.0}, {"amount": 7.0}, {"amount": 7.0}], at="10:00")
    with pytest.raises(AssertionError, match=r"missing: \[{'amount': 5.0}\]\n  not expected: \[{'amount': 7.0}\]"):
        trial.expect("valid", [{"amount": 5.0}, {"amount": 5.0}, {"amount": 7.0}])
    assert trial.rows("valid")[0]["created_at"].isoformat() == "2026-01-01T10:00:00+00:00"


REGISTERED = """
import penstock as ps

shop = ps.Pipeline("shop")
shop.source("orders", ps.Kafka("orders", format=ps.Avro()))
shop.table("customers", ps.Changes("shop.public.customers"))


@shop.flow
def named(orders, customers):
    return orders.join(customers, "customer", "left")


shop.sink(named, ps.Kafka("named"))
"""


def test_columns_that_are_frozen_beside_the_pipeline_are_known(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(REGISTERED, encoding="utf-8")
    (tmp_path / "penstock.toml").write_text('[captures.shop]\ntables = ["public.customers"]\n', encoding="utf-8")
    (tmp_path / "schemas").mkdir()
    fields = [{"name": "order_id", "type": "long"}, {"name": "customer", "type": "long"}]
    avro = {"type": "record", "name": "Order", "fields": fields}
    (tmp_path / "schemas" / "kafka-orders.avsc").write_text(json.dumps(avro), encoding="utf-8")
    columns = [{"name": name, "kind": kind} for name, kind in (("customer", "BIGINT"), ("name", "STRING"))]
    known = {"columns": columns, "shapes": [["customer", "name"]], "tolerant": False}
    (tmp_path / "schemas" / "shop.public.customers.json").write_text(json.dumps(known), encoding="utf-8")
    with Trial(load_pipeline(tmp_path / "shop.py"), spark) as trial:
        trial.given("customers", [{"customer": 1, "name": "Ada"}])
        trial.given("orders", [{"order_id": 7, "customer": 1}, {"order_id": 8, "customer": 2}])
        trial.expect("named", [{"order_id": 7, "name": "Ada"}, {"order_id": 8, "name": None}])
