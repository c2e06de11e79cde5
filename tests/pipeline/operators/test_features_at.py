"""Features as of a moment: never from after it, never older than asked for."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import penstock as ps
from penstock.errors import DeclarationError
from tests.pipeline.operators.events import NOON

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def at(second: float | None) -> Any:
    return None if second is None else NOON + timedelta(seconds=second)


def known(spark: SparkSession, *rows: tuple[str | None, float | None, float, int | None]) -> DataFrame:
    told = [(card, at(second), at(created), paid) for card, second, created, paid in rows]
    return spark.createDataFrame(told, "card STRING, event_timestamp TIMESTAMP, created TIMESTAMP, paid_1h INT")


def asked(spark: SparkSession, *rows: tuple[int, str | None, float | None]) -> DataFrame:
    told = [(number, card, at(second)) for number, card, second in rows]
    return spark.createDataFrame(told, "number INT, card STRING, event_timestamp TIMESTAMP")


def found(rows: DataFrame) -> list[tuple[int, int | None]]:
    assert rows.columns == ["number", "card", "event_timestamp", "paid_1h"]
    return sorted((row["number"], row["paid_1h"]) for row in rows.collect())


def test_the_newest_at_or_before_and_never_after(spark: SparkSession) -> None:
    features = known(spark, ("a", 10, 0, 1), ("a", 20, 0, 2), ("b", 5, 0, 9), (None, 0, 0, 7), ("a", None, 0, 8))
    moments = asked(
        spark,
        *((1, "a", 9.999999), (2, "a", 10), (3, "a", 19.999999), (4, "a", 20), (5, "a", 1000)),
        *((6, "c", 1000), (7, None, 1000), (8, "a", None), (9, "b", 5), (9, "b", 5)),
    )
    assert found(ps.features_at(moments, features, by="card")) == [
        *((1, None), (2, 1), (3, 1), (4, 2), (5, 2), (6, None), (7, None), (8, None), (9, 9), (9, 9))
    ]


def test_never_older_than_asked_for(spark: SparkSession) -> None:
    moments = asked(spark, (1, "a", 70), (2, "a", 70.000001), (3, "a", 80))
    features = known(spark, ("a", 10, 0, 1), ("a", 80, 0, None))
    assert found(ps.features_at(moments, features, by="card", ttl="1 minute")) == [(1, 1), (2, None), (3, None)]


def test_of_one_time_the_last_that_was_computed(spark: SparkSession) -> None:
    moments = asked(spark, (1, "a", 10), (2, "a", 11))
    rows = [("a", 10.0, 3.0, 1), ("a", 10.0, 5.0, 2), ("a", 10.0, 4.0, 3), ("a", 9.0, 9.0, 4)]
    for order in (rows, rows[::-1]):
        assert found(ps.features_at(moments, known(spark, *order), by="card")) == [(1, 2), (2, 2)]


def test_other_names_and_several_keys(spark: SparkSession) -> None:
    features = spark.createDataFrame([(1, "x", at(0), 5)], "id INT, shop STRING, since TIMESTAMP, n INT")
    moments = spark.createDataFrame([(1, "x", at(1)), (1, "y", at(1))], "id LONG, shop STRING, at TIMESTAMP")
    rows = ps.features_at(moments, features, by=["id", "shop"], at="at", time="since")
    assert sorted((row["id"], row["shop"], row["n"]) for row in rows.collect()) == [(1, "x", 5), (1, "y", None)]


def test_what_can_not_be_is_refused(spark: SparkSession) -> None:
    features, moments = known(spark), asked(spark)
    with pytest.raises(DeclarationError, match="Two columns that come out are called 'paid_1h'"):
        ps.features_at(moments.withColumnRenamed("number", "paid_1h"), features, by="card")
    with pytest.raises(DeclarationError, match="ttl='old' is not a duration"):
        ps.features_at(moments, features, by="card", ttl="old")
    stream = spark.readStream.format("rate").load()
    with pytest.raises(DeclarationError, match="reads tables, not streams"):
        ps.features_at(stream, features, by="card")
