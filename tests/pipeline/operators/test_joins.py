"""Joins of a stream with a table, and of two streams within a time."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import penstock as ps
from penstock.errors import DeclarationError
from penstock.testing import CRASH, PAUSE, Trial
from tests.pipeline.operators.events import event

IN_TIME = "ad IS NOT NULL AND ad = clicked_ad AND clicked_at BETWEEN shown_at AND shown_at + INTERVAL 30 MINUTES"


def ads(how: str, condition: str = IN_TIME, late: str = "drop") -> ps.Pipeline:
    made = ps.Pipeline("ads")
    shown = ps.Kafka("impressions", format=ps.Json("ad STRING, shown_at TIMESTAMP"))
    clicked = ps.Kafka("clicks", format=ps.Json("clicked_ad STRING, clicked_at TIMESTAMP"))
    made.source("impressions", shown, time=ps.EventTime("shown_at", delay="1 minute", late=late))
    made.source("clicks", clicked, time=ps.EventTime("clicked_at", delay="1 minute", late=late))

    @made.flow
    def outcomes(impressions: DataFrame, clicks: DataFrame) -> DataFrame:
        joined = impressions.join(clicks, F.expr(condition), how)
        wait = F.timestamp_diff("SECOND", F.col("shown_at"), F.col("clicked_at"))
        return joined.select("ad", "clicked_ad", wait.alias("seconds"))

    made.sink(outcomes, ps.Kafka("outcomes"))
    if late == "keep":
        made.sink("outcomes$late", ps.Kafka("late"))
    return made


def shown(ad: str | None, second: int) -> dict[str, str | None]:
    return {"ad": ad, "shown_at": event(second)["at"]}


def clicked(ad: str | None, second: int) -> dict[str, str | None]:
    return {"clicked_ad": ad, "clicked_at": event(second)["at"]}


@pytest.mark.parametrize("how", ["inner", "fullOuter"])
def test_impressions_meet_their_clicks_within_half_an_hour(spark: SparkSession, how: str) -> None:
    with Trial(ads(how, late="keep"), spark) as trial:
        trial.given("clicks", [clicked("a", 90)])  # before its impression arrives: streams are not in step
        trial.given("impressions", [shown("a", 60), shown("b", 60), shown("c", 30), shown(None, 60), CRASH])
        trial.given("clicks", [clicked("c", 5), clicked("b", 60 + 1800), clicked("c", 30 + 1801), PAUSE])
        trial.given("clicks", [clicked(None, 61), clicked("a", 95)])  # twice clicked
        trial.advance("12:20")
        trial.given("impressions", [shown("late", 5)])
        trial.given("clicks", [clicked("late", 6)])
        trial.end()
        met: list[dict[str, object]] = [
            {"ad": "a", "seconds": 30},
            {"ad": "a", "seconds": 35},
            {"ad": "b", "seconds": 1800},
        ]
        alone: list[dict[str, object]] = [{"ad": "c", "seconds": None}, {"ad": None, "seconds": None}]
        clicks: list[dict[str, object]] = [{"ad": None, "seconds": None}] * 3
        trial.expect("outcomes", met + (alone + clicks if how == "fullOuter" else []))
        late = trial.rows("outcomes$late")
        assert sorted(str(row.get("ad", row.get("clicked_ad"))) for row in late) == ["late", "late"]


@pytest.mark.parametrize("condition", ["ad = clicked_ad", "ad = clicked_ad AND clicked_at > shown_at"])
def test_a_join_that_forgets_nothing_is_refused(spark: SparkSession, condition: str) -> None:
    with pytest.raises(DeclarationError, match=r"grows without bound \(Join\).*BETWEEN shown_at AND"):
        Trial(ads("inner", condition), spark)


@pytest.mark.parametrize("how", ["inner", "left"])
def test_a_stream_meets_a_table(spark: SparkSession, how: str) -> None:
    made = ps.Pipeline("shop")
    made.source("orders", ps.Kafka("orders", format=ps.Json("id LONG, customer LONG")))
    made.table("customers", ps.Files("customers", schema="customer LONG, name STRING"))

    @made.flow(expect={"has a name": "name IS NOT NULL"} if how == "left" else {})
    def named(orders: DataFrame, customers: DataFrame) -> DataFrame:
        return orders.join(customers, "customer", how).select("id", "name")

    made.sink(named, ps.Kafka("named"))
    with Trial(made, spark) as trial:
        trial.given("customers", [{"customer": 1, "name": "Ada"}, {"customer": 2, "name": "Bo"}])
        trial.given("orders", [{"id": 1, "customer": 1}, {"id": 1, "customer": 1}, {"id": 2, "customer": 3}, PAUSE])
        trial.given("orders", [{"id": 3, "customer": None}, {"id": 4, "customer": 2}])
        trial.expect("named", [{"id": 1, "name": "Ada"}, {"id": 1, "name": "Ada"}, {"id": 4, "name": "Bo"}])
        dead = [letter["value"] for letter in trial.dead("named")]
        wanted = ['{"id":2,"customer":3}', '{"id":3}'] if how == "left" else []
        assert sorted(dead) == wanted  # with its origin, though the flow has selected the columns away
