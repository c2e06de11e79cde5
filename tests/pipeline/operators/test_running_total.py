"""A total per key that is never forgotten."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from penstock.testing import CRASH, PAUSE, Trial
from tests.pipeline.operators.events import event, pipeline_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_total_is_emitted_at_every_change_and_includes_rows_of_any_age(spark: SparkSession) -> None:
    totals = pipeline_of(lambda events: events.groupBy("k").agg(F.sum("v").alias("v")), emit="changes", unbounded=True)
    with Trial(totals, spark) as trial:
        trial.given("events", [event(0, k="a", v=1.0), event(0, k="a", v=1.0), event(0, k=None, v=5.0), PAUSE])
        trial.given("events", [event(500, k="a", v=2.0), CRASH, event(-500, k="a", v=3.0), PAUSE])
        assert [row["v"] for row in trial.rows("out") if row["k"] == "a"] == [2.0, 4.0, 7.0]
        assert [row["v"] for row in trial.rows("out") if row["k"] is None] == [5.0]
        trial.advance("13:00")
        assert len(trial.rows("out")) == 4
