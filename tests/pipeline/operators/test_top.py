"""The largest rows of each window."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812

import penstock as ps
from penstock.testing import CRASH, PAUSE, Trial
from tests.pipeline.operators.events import batch_of, disorder, event, pipeline_of, same

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def totals(events: DataFrame) -> DataFrame:
    return events.groupBy(F.window("at", "1 minute"), "k").agg(F.round(F.sum("v"), 2).alias("total"))


@pytest.mark.parametrize("count", [1, 2])
def test_the_largest_of_each_window_equal_a_batch_computation(spark: SparkSession, count: int) -> None:
    rows = [*disorder(300, seconds=300, delay=9), event(1, id=900, k="no value", v=None)]
    with Trial(pipeline_of(lambda events: ps.top(totals(events), count, by="total")), spark) as trial:
        trial.given("events", [*rows[:120], PAUSE, *rows[120:200], CRASH, *rows[200:]])
        trial.given("events", [event(-500, id=-1, k="late", v=1e9)])
        trial.end()
        order = Window.partitionBy("window").orderBy(F.desc("total"), F.desc("k"))
        ranked = (
            totals(batch_of(spark, rows)).filter("total IS NOT NULL").withColumn("rank", F.row_number().over(order))
        )
        same(trial.rows("out"), ranked.filter(F.col("rank") <= count))


def test_equal_rows_have_an_order_that_does_not_change(spark: SparkSession) -> None:
    flow = pipeline_of(lambda events: ps.top(totals(events), 2, by="total"))
    with Trial(flow, spark) as trial:
        trial.given("events", [event(0, k="a", v=5.0), event(0, k=None, v=5.0), PAUSE, event(0, k="c", v=5.0)]).end()
        assert [(row["rank"], row["k"]) for row in trial.rows("out")] == [(1, "c"), (2, "a")]
