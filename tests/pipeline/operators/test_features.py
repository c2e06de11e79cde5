"""Features on Spark: they equal windows of Spark's SQL over the same rows, with the types that were promised."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812

import penstock as ps
from penstock.errors import DeclarationError
from penstock.testing import CRASH, END, PAUSE, Trial
from tests.pipeline.operators.events import NOON, batch_of, disorder, event, pipeline_of, same, timed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WANTED: dict[str, Any] = {
    "rows": ps.Count(over=("5 seconds", "1 minute")),
    "values": ps.Count("v", over="5 seconds"),
    "real": ps.Total("v", over="1 minute"),
    "exact": ps.Total("d", over="5 seconds"),
    "whole": ps.Total("id", over="5 seconds"),
    "different": ps.Distinct("d", over="1 minute"),
}
OVER = "OVER (PARTITION BY k ORDER BY at RANGE BETWEEN INTERVAL '{}' SECOND PRECEDING AND CURRENT ROW)"


def with_decimals(events: DataFrame) -> DataFrame:
    return events.withColumn("d", F.round("v", 1).cast("DECIMAL(10, 2)"))


def features(events: DataFrame) -> DataFrame:
    return ps.features(with_decimals(events), by="k", empty_rows=False, **WANTED).drop("created")


def by_sql(rows: DataFrame) -> DataFrame:
    """The same by Spark's windows, which have their beginning too: so they are a microsecond shorter."""
    short, long = OVER.format("4.999999"), OVER.format("59.999999")
    return with_decimals(rows).selectExpr(
        "k",
        "at AS event_timestamp",
        f"count(*) {short} AS rows_5s",
        f"count(*) {long} AS rows_1m",
        f"count(v) {short} AS values_5s",
        f"coalesce(sum(v) {long}, 0) AS real_1m",
        f"cast(coalesce(sum(d) {short}, 0) AS DECIMAL(38, 2)) AS exact_5s",
        f"sum(id) {short} AS whole_5s",
        f"cast(size(collect_set(d) {long}) AS BIGINT) AS different_1m",
    )


def test_features_equal_windows_of_sql(spark: SparkSession) -> None:
    rows = disorder(300, seconds=300, delay=9)
    with Trial(pipeline_of(features, late="keep"), spark) as trial:
        trial.given("events", [*rows[:100], PAUSE, rows[100], PAUSE, *rows[101:220], CRASH, *rows[220:]])
        trial.given("events", [event(-1000, id=-1, k="a", v=1e6)])
        trial.end()
        found = trial.rows("out")
        assert [row["id"] for row in trial.rows("out$late")] == [-1]
    same(found, by_sql(batch_of(spark, rows)))
    for key in ("a", None):
        times = [row["event_timestamp"] for row in found if row["k"] == key]
        assert times == sorted(times)


def test_columns_have_the_types_that_were_promised(spark: SparkSession) -> None:
    rows = timed(batch_of(spark, [])).withColumn("f", F.col("v").cast("float"))
    made = ps.features(
        with_decimals(rows),
        by=["k", "id"],
        time="at",
        **WANTED,
        float=ps.Total("f", over="1 hour 30 minutes"),
        last=ps.Last("at", 2, over="24 hours"),
        decimals=ps.Last("d", 2, over="1.5 days"),
    )
    assert [(one.name, one.dataType.simpleString()) for one in made.schema.fields] == [
        ("k", "string"),
        ("id", "bigint"),
        ("at", "timestamp"),
        ("created", "timestamp"),
        ("rows_5s", "bigint"),
        ("rows_1m", "bigint"),
        ("values_5s", "bigint"),
        ("real_1m", "double"),
        ("exact_5s", "decimal(38,2)"),
        ("whole_5s", "bigint"),
        ("different_1m", "bigint"),
        ("float_1h30m", "double"),
        ("last_24h", "array<timestamp>"),
        ("decimals_1_5d", "array<decimal(10,2)>"),
    ]


def test_the_last_values_are_what_they_were(spark: SparkSession) -> None:
    def last(events: DataFrame) -> DataFrame:
        named = {"r": F.struct("v", F.lit("a\n'b").alias("text")), "f": F.col("v").cast("float")}
        wide = {"d": F.col("v").cast("DECIMAL(38, 18)"), "t": F.col("at"), "yes": F.col("v") > 1}
        kinds = {**named, **wide}
        wanted: Any = {name: ps.Last(name, 2, over="5 seconds") for name in ("v", *kinds)}
        return ps.features(events.withColumns(kinds), by="k", empty_rows=False, **wanted)

    with Trial(pipeline_of(last), spark) as trial:
        trial.given("events", [event(0, k="a", v=0.1), event(1.25, k="a", v=2.5), event(2, k="a", v=float("nan")), END])
        *_, before, row = trial.rows("out")
    assert before["v_5s"] == [0.1, 2.5]
    assert before["f_5s"] == [pytest.approx(0.1), 2.5]
    assert [str(one) for one in before["d_5s"]] == ["0.100000000000000000", "2.500000000000000000"]
    assert before["t_5s"] == [NOON, NOON + timedelta(seconds=1.25)]
    assert before["yes_5s"] == [False, True]
    assert before["r_5s"][1] == {"v": 2.5, "text": "a\n'b"}
    assert str(row["v_5s"]) == "[2.5, nan]"


def test_what_is_served_goes_to_zero(spark: SparkSession) -> None:
    def served(events: DataFrame) -> DataFrame:
        return ps.features(
            events, by="k", n=ps.Count(over=("5 seconds", "1 minute")), spent=ps.Total("v", over="5 seconds")
        )

    with Trial(pipeline_of(served), spark) as trial:
        trial.advance("11:00")
        assert trial.rows("out") == []
        trial.given("events", [event(1, k="a", v=2.5), event(2, k="a", v=1.5), event(2, k="a", v=None), PAUSE])
        trial.advance("12:00:17")
        trial.crash().advance("12:01:12")
        told = [
            ((row["event_timestamp"] - NOON).total_seconds(), row["n_5s"], row["n_1m"], row["spent_5s"])
            for row in trial.rows("out")
        ]
        assert told == [(1, 1, 1, 2.5), (2, 3, 3, 4.0), (2, 3, 3, 4.0), (7, 0, 3, 0.0), (62, 0, 0, 0.0)]
        assert all(row["created"] > NOON for row in trial.rows("out"))
        trial.end()
        assert len(trial.rows("out")) == 5


def test_what_can_not_be_is_refused(spark: SparkSession) -> None:
    rows = batch_of(spark, [])
    hour: Any = {"n": ps.Count(over="1 hour")}
    with pytest.raises(DeclarationError, match="features needs rows with an event time"):
        ps.features(rows, by="k", **hour)
    known = timed(rows).withColumn("n_1h", F.create_map("k", "v"))
    wrong: dict[str, Any] = {
        "features without a feature can't be": {},
        "Two columns that come out are called 'n_1h'": {"n": ps.Count(over=("1 hour", "1 hours"))},
        "n=3 is not a feature": {"n": 3},
        "Feature 'n' is over no time": {"n": ps.Count(over=())},
        "over='long' is not a duration": {"n": ps.Count(over="long")},
        "there is no column 'amount'": {"n": ps.Total("amount", over="1 hour")},
        "'k' is no number": {"n": ps.Total("k", over="1 hour")},
        "maps can't be compared": {"n": ps.Distinct("n_1h", over="1 hour")},
        "Feature 'n' has the last 0 values": {"n": ps.Last("k", 0, over="1 hour")},
    }
    for said, wanted in wrong.items():
        with pytest.raises(DeclarationError, match=said):
            ps.features(known, by="k", **wanted)
    with pytest.raises(DeclarationError, match="Two columns that come out are called 'n_1h'"):
        ps.features(known, by="n_1h", **hour)
    with pytest.raises(DeclarationError, match="Two columns that come out are called 'k'"):
        ps.features(known, by="k", time="k", **hour)
