"""Deduplication by key within a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import penstock as ps
from penstock.errors import DeclarationError
from penstock.testing import CRASH, PAUSE, Trial
from tests.pipeline.operators.events import event, pipeline_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def once(events: DataFrame) -> DataFrame:
    return ps.deduplicated(events, by="k", within="1 minute")


def test_a_key_is_seen_once_within_the_time(spark: SparkSession) -> None:
    with Trial(pipeline_of(once, late="keep"), spark) as trial:
        trial.given(
            "events",
            [
                event(5, id=1, k="a"),
                event(5, id=2, k="b"),
                event(6, id=3, k=None),
                event(6, id=4, k=None),
                PAUSE,
                event(0, id=5, k="a"),  # out of order
                CRASH,
                event(40, id=6, k="a"),
                PAUSE,
                event(10, id=7, k="b"),  # late: the watermark is at 30
            ],
        )
        assert {row["id"] for row in trial.rows("out")} in ({1, 2, 3}, {1, 2, 4})
        assert [row["id"] for row in trial.rows("out$late")] == [7]
        trial.advance("12:02:00")
        trial.given("events", [event(125, id=8, k="a"), event(126, id=9, k="a")])
        assert [row["id"] for row in trial.rows("out")][3:] == [8]  # forgotten after a minute, then known again
        trial.advance("12:30:00").end()
        assert len(trial.rows("out")) == 4


def test_it_needs_an_event_time_and_a_duration(spark: SparkSession) -> None:
    rows = spark.createDataFrame([], "k STRING")
    with pytest.raises(
        DeclarationError, match=r"test_deduplicated\.py:\d+: deduplicated needs rows with an event time"
    ):
        ps.deduplicated(rows, by="k", within="1 minute")
    with pytest.raises(DeclarationError, match="within='soon' is not a duration"):
        Trial(pipeline_of(lambda events: ps.deduplicated(events, by="k", within="soon")), spark)


def test_state_that_is_never_forgotten_is_refused(spark: SparkSession) -> None:
    with pytest.raises(DeclarationError, match=r"grows without bound \(Deduplicate\).*ps\.deduplicated"):
        Trial(pipeline_of(lambda events: events.dropDuplicates(["k"])), spark)
