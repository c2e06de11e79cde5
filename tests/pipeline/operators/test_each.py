"""Python functions over single rows: a row that makes one raise is a dead letter, the query goes on."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

import penstock as ps
from penstock.testing import CRASH, END, Trial
from tests.pipeline.operators.events import SCHEMA, event

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def scored() -> ps.Pipeline:
    made = ps.Pipeline("scores")
    made.source("events", ps.Kafka("events", format=ps.Json(SCHEMA)), time=ps.EventTime("at", delay="10 seconds"))

    @made.each("id LONG, score DOUBLE, at TIMESTAMP", expect={"small": "score < 50"})
    def scores(events: dict[str, Any]) -> Any:
        if events["k"] == "skip":
            return None
        if events["k"] == "two":
            return [{"id": events["id"], "score": 1.0, "at": events["at"]}] * 2
        if events["k"] == "wrong":
            return {"id": "text"}
        if events["k"] == "more":
            return {"other": 1}
        assert isinstance(events["at"], datetime)
        return {"id": events["id"], "score": 10 / events["v"], "at": events["at"]}

    @made.flow
    def counts(scores: DataFrame) -> DataFrame:
        return scores.groupBy(F.window("at", "1 minute")).agg(F.sort_array(F.collect_list("id")).alias("ids"))

    made.sink(scores, ps.Kafka("scores"))
    made.sink(counts, ps.Kafka("counts"))
    return made


def test_what_a_function_raises_is_told_of_its_row(spark: SparkSession) -> None:
    rows: list[Any] = [
        event(0, id=1, v=2.0),
        event(0, id=2, v=0.0),
        CRASH,
        event(1, id=3, k="skip"),
        event(1, id=4, k="two"),
        event(1, id=5, k="wrong"),
        event(1, id=6, k="more"),
        event(1, id=7, v=0.1),
        event(1, id=8, v=None),
        event(1, id=8, v=None),
        END,
    ]
    with Trial(scored(), spark) as trial:
        trial.given("events", rows)
        trial.expect("scores", [{"id": 1, "score": 5.0}, {"id": 4, "score": 1.0}, {"id": 4, "score": 1.0}])
        trial.expect("counts", [{"ids": [1, 4, 4]}])  # the event time went through the function
        dead = sorted((letter["rule"], letter["message"][:20], letter["value"][:7]) for letter in trial.dead("scores"))
        assert [(rule, value) for rule, _, value in dead] == [
            ("PySparkTypeError", '{"id":5'),
            ("TypeError", '{"id":8'),
            ("TypeError", '{"id":8'),
            ("ValueError", '{"id":6'),
            ("ZeroDivisionError", '{"id":2'),
            ("small", '{"id":7'),
        ]
