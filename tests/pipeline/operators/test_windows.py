"""Windows over time: whatever the disorder and the batches, they equal a batch computation of the same rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F  # noqa: N812

from penstock.testing import CRASH, END, PAUSE, Trial
from tests.pipeline.operators.events import batch_of, disorder, event, pipeline_of, same

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

WINDOWS = {
    "tumbling": lambda: F.window("at", "1 minute"),
    "sliding": lambda: F.window("at", "1 minute", "20 seconds"),
    "session": lambda: F.session_window("at", "2 seconds"),
}


def summed(rows: DataFrame, window: Column) -> DataFrame:
    percentiles = F.percentile_approx("v", [0.5, 0.95, 0.99]).alias("p50_p95_p99")
    return rows.groupBy(window, "k").agg(
        F.count("*").alias("rows"),
        F.count("v").alias("values"),
        F.round(F.sum("v"), 2).alias("total"),
        F.min("v").alias("least"),
        F.max("v").alias("most"),
        F.approx_count_distinct("id").alias("distinct"),
        percentiles,
    )


@pytest.mark.parametrize("kind", list(WINDOWS))
def test_windows_equal_a_batch_computation(spark: SparkSession, kind: str) -> None:
    rows = disorder(300, seconds=200, delay=9)
    pieces = [rows[:100], rows[100:101], rows[101:220], rows[220:]]
    with Trial(pipeline_of(lambda events: summed(events, WINDOWS[kind]())), spark) as trial:
        for number, piece in enumerate(pieces):
            trial.given("events", [*piece, CRASH if number == 2 else PAUSE])
        trial.given("events", [event(-1000, id=-1, k="a", v=1e6)])  # too late: no window has it
        trial.end()
        same(trial.rows("out"), summed(batch_of(spark, rows), WINDOWS[kind]()))


def test_nothing_in_nothing_out(spark: SparkSession) -> None:
    with Trial(pipeline_of(lambda events: summed(events, WINDOWS["tumbling"]())), spark) as trial:
        trial.advance("13:00").end()
        assert trial.rows("out") == []


def test_a_row_without_a_time_is_a_dead_letter_not_lost(spark: SparkSession) -> None:
    with Trial(pipeline_of(lambda events: summed(events, WINDOWS["tumbling"]())), spark) as trial:
        trial.given("events", [event(0, id=1, k="a"), {"id": 2, "k": "a"}, END])
        assert [row["rows"] for row in trial.rows("out")] == [1]
        (letter,) = trial.dead("events")
        assert letter["rule"] == "no event time"
        assert '"id":2' in letter["value"]


def test_an_open_window_is_seen_at_every_change_if_asked(spark: SparkSession) -> None:
    with Trial(
        pipeline_of(lambda events: events.groupBy(F.window("at", "1 minute")).count(), emit="changes"), spark
    ) as trial:
        trial.given("events", [event(0, id=1), event(1, id=2), PAUSE, event(2, id=3), event(0, id=3)])
        assert [row["count"] for row in trial.rows("out")] == [2, 4]


def test_rows_that_missed_their_session_are_kept(spark: SparkSession) -> None:
    flow = pipeline_of(lambda events: events.groupBy(F.session_window("at", "5 seconds"), "k").count(), late="keep")
    with Trial(flow, spark) as trial:
        trial.given("events", [event(0, id=1, k="a"), event(4, id=2, k="a"), PAUSE, event(60, id=3, k="a")])
        trial.given(
            "events", [event(44, id=4, k="a"), event(47, id=5, k="a"), event(45, id=6, k=None)]
        )  # time is at 50
        trial.end()
        assert sorted(row["id"] for row in trial.rows("out$late")) == [4, 6]
        assert sorted(row["count"] for row in trial.rows("out")) == [1, 1, 2]
