"""Funnels on Spark: what they give equals what they give without it, and every type of key comes back."""

from __future__ import annotations

import random
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812

import penstock as ps
from penstock.errors import DeclarationError
from penstock.testing import CRASH, END, PAUSE, Trial
from tests.pipeline.keyed.test_attempts import expected
from tests.pipeline.operators.events import NOON, batch_of, event, pipeline_of, timed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STEPS = {"view": "id = 1", "cart": "id = 2", "paid": "id = 3"}


def bought(events: DataFrame) -> DataFrame:
    return ps.funnel(events, by="k", steps=STEPS, within="30 seconds")


def steps_of(row: dict[str, Any]) -> list[float]:
    times = (row[f"{step}_at"] for step in STEPS)
    return [(one - NOON).total_seconds() for one in times if one is not None]


def test_one_row_for_each_attempt(spark: SparkSession) -> None:
    with Trial(pipeline_of(bought, late="keep"), spark) as trial:
        trial.advance("11:00")
        assert trial.rows("out") == []
        trial.given("events", [event(9, k="a", id=2), event(1.5, k="a", id=1), event(2, k="a", id=9), PAUSE])
        trial.given("events", [event(12, k="a", id=3), event(5, k=None, id=1), event(7, k="b", id=2), CRASH])
        trial.advance("12:00:44")
        (row,) = trial.rows("out")
        assert list(row) == ["k", "view_at", "cart_at", "paid_at", "reached", "completed", "seconds"]
        assert (row["k"], row["reached"], row["completed"], row["seconds"]) == ("a", "paid", True, 10.5)
        assert row["cart_at"] == NOON + timedelta(seconds=9)
        trial.given("events", [event(6, k=None, id=2), event(6, k=None, id=9)])  # too late
        trial.advance("12:00:45")
        row = trial.rows("out")[1]
        assert [row[name] for name in ("k", "cart_at", "reached", "completed", "seconds")] == [
            *(None, None, "view", False, 0.0)
        ]
        trial.end()
        assert len(trial.rows("out")) == 2
        assert sorted(row["id"] for row in trial.rows("out$late")) == [2]


def test_disorder_batches_and_doubles_change_nothing(spark: SparkSession) -> None:
    chance = random.Random(3)
    rows = [(number / 2, chance.choice("ab"), chance.randrange(4)) for number in range(300)]
    rows += chance.sample(rows, 20)
    rows.sort(key=lambda one: one[0] + chance.random() * 9)
    told = [event(second, k=key, id=step) for second, key, step in rows]
    with Trial(pipeline_of(bought), spark) as trial:
        trial.given("events", [*told[:100], PAUSE, told[100], CRASH, *told[101:230], PAUSE, *told[230:], END])
        found = trial.rows("out")
    for key in "ab":
        known = [(int(at * 1e6), f"{1 << step - 1} {{}}") for at, one, step in rows if one == key and step]
        wanted = [[micros / 1e6 for micros in one] for one in expected(known, 3, 30_000_000)]
        assert [steps_of(row) for row in found if row["k"] == key] == wanted
        assert len(wanted) > 3


def test_rows_of_one_time_come_in_the_order_of_the_steps(spark: SparkSession) -> None:
    steps = {f"s{number}": f"id = {number}" for number in range(5)}
    flow = pipeline_of(lambda events: ps.funnel(events, by="k", steps=steps, within="1 second"))
    with Trial(flow, spark) as trial:
        trial.given("events", [*(event(1, k="a", id=number) for number in (3, 4, 1, 0, 2)), END])
        trial.expect("out", [{"k": "a", "reached": "s4", "completed": True, "seconds": 0.0}])


def test_every_type_of_key_comes_back_as_it_was(spark: SparkSession) -> None:
    def odd(events: DataFrame) -> DataFrame:
        keys = {
            "d": F.lit("12345678901234567890.123456789").cast("DECIMAL(38, 9)"),
            "when": F.expr("at + INTERVAL 1 DAY"),
        }
        made = events.withColumns({**keys, "deep": F.struct("id", F.lit("a\nb").alias("text")), "b": F.lit(b"\x00")})
        return ps.funnel(made, by=[*keys, "deep", "b"], steps={"one": "id > 0", "two": "false"}, within="1 second")

    with Trial(pipeline_of(odd), spark) as trial:
        trial.given("events", [event(0.123456, id=1), END])
        (row,) = trial.rows("out")
    assert row["d"] == Decimal("12345678901234567890.123456789")
    assert row["when"] - timedelta(days=1) == row["one_at"] == NOON + timedelta(microseconds=123456)
    assert (row["deep"], bytes(row["b"])) == ({"id": 1, "text": "a\nb"}, b"\x00")


def test_what_can_not_be_is_refused(spark: SparkSession) -> None:
    rows = batch_of(spark, [])
    with pytest.raises(DeclarationError, match="funnel needs rows with an event time"):
        ps.funnel(rows, by="k", steps=STEPS, within="1 minute")
    known = timed(rows).withColumnRenamed("id", "view_at")
    with pytest.raises(DeclarationError, match="Two columns that come out are called 'view_at'"):
        ps.funnel(known, by="view_at", steps=STEPS, within="1 minute")
    with pytest.raises(DeclarationError, match="A funnel of 1 steps can't be"):
        ps.funnel(known, by="k", steps={"view": "true"}, within="1 minute")
    with pytest.raises(DeclarationError, match="within='soon' is not a duration"):
        ps.funnel(known, by="k", steps=STEPS, within="soon")
