"""Windows of so many rows per key, with a time-out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import penstock as ps
from penstock.testing import CRASH, PAUSE, Trial
from tests.pipeline.operators.events import event, pipeline_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def by_three(events: DataFrame) -> DataFrame:
    return ps.count_window(events, by="k", size=3, timeout="1 minute")


def told(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(row["k"], [one["id"] for one in row["rows"]], row["count"], row["closed_by"]) for row in rows]


def test_windows_close_when_full_or_when_time_is_over(spark: SparkSession) -> None:
    with Trial(pipeline_of(by_three, late="keep"), spark) as trial:
        trial.given("events", [event(2, id=2, k="a"), event(1, id=1, k="a"), event(1, id=10, k=None), PAUSE])
        assert trial.rows("out") == []
        trial.given("events", [CRASH, event(3, id=3, k="a"), event(3, id=3, k="a"), event(4, id=11, k=None)])
        assert told(trial.rows("out")) == [("a", [1, 2, 3], 3, "size")]
        trial.advance("12:00:50")
        trial.given("events", [event(5, id=4, k="a")])  # too late
        assert [row["id"] for row in trial.rows("out$late")] == [4]
        trial.advance("12:01:30")
        assert sorted(told(trial.rows("out"))[1:], key=str) == [
            ("a", [3], 1, "timeout"),
            (None, [10, 11], 2, "timeout"),
        ]
        first = trial.rows("out")[0]
        assert (first["start"].second, first["end"].second) == (1, 3)
        trial.end()
        assert len(trial.rows("out")) == 3


def test_many_windows_of_one_batch(spark: SparkSession) -> None:
    with Trial(pipeline_of(by_three), spark) as trial:
        trial.given("events", [event(at, id=at, k="a", v=1.5) for at in range(8)])
        assert [ids for _, ids, _, _ in told(trial.rows("out"))] == [[0, 1, 2], [3, 4, 5]]
        trial.end()
        assert told(trial.rows("out"))[2] == ("a", [6, 7], 2, "timeout")
        assert trial.rows("out")[2]["rows"][0]["v"] == 1.5
