"""Sessions: whatever the disorder and the batches, they equal a plain look at the same rows."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812

import penstock as ps
from penstock.errors import DeclarationError
from penstock.testing import CRASH, PAUSE, Trial
from tests.pipeline.operators.events import batch_of, disorder, event, pipeline_of, timed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GAP = timedelta(seconds=2)


def visits(events: DataFrame) -> DataFrame:
    return ps.sessions(events, by="k", gap="2 seconds", values=F.count("v"), most=F.max("v"))


def expected(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """The sessions of each key: a row begins one if the one before is as far away as the gap."""
    keys: dict[Any, list[tuple[datetime, Any]]] = defaultdict(list)
    for row in rows:
        keys[row["k"]].append((datetime.fromisoformat(row["at"]), row["v"]))
    found = []
    for key, every in keys.items():
        every.sort(key=lambda one: one[0])
        begins = [at for at, (time, _) in enumerate(every) if not at or time - every[at - 1][0] > GAP]
        for first, after in zip(begins, [*begins[1:], len(every)], strict=True):
            values = [value for _, value in every[first:after] if value is not None]
            times = (every[first][0], every[after - 1][0])
            found.append((key, *times, after - first, len(values), max(values, default=None)))
    return sorted(found, key=str)


def told(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted(((*row.values(),) for row in rows), key=str)


def test_sessions_equal_a_plain_look_at_the_rows(spark: SparkSession) -> None:
    rows = disorder(300, seconds=400, delay=9)
    with Trial(pipeline_of(visits, late="keep"), spark) as trial:
        trial.given("events", [*rows[:100], PAUSE, rows[100], PAUSE, *rows[101:220], CRASH, *rows[220:]])
        trial.given("events", [event(-1000, id=-1, k="a", v=1e6)])
        trial.end()
        assert list(trial.rows("out")[0]) == ["k", "start", "end", "rows", "values", "most"]
        assert told(trial.rows("out")) == expected(rows)
        assert [row["id"] for row in trial.rows("out$late")] == [-1]


def test_a_session_ends_with_its_last_row_and_is_joined_by_one_between(spark: SparkSession) -> None:
    with Trial(pipeline_of(lambda events: ps.sessions(events, by=["k", "id"], gap="2 seconds")), spark) as trial:
        trial.given("events", [event(0, k="a", id=1), event(3, k="a", id=1), event(1, k="a", id=2), PAUSE])
        trial.given("events", [event(1.5, k="a", id=1), event(8, k=None, id=1), event(3, k="a", id=2)]).end()
        found = {(row["k"], row["id"]): (row["end"] - row["start"], row["rows"]) for row in trial.rows("out")}
        assert found == {
            ("a", 1): (timedelta(seconds=3), 3),
            ("a", 2): (timedelta(seconds=2), 2),
            (None, 1): (timedelta(), 1),
        }


def test_nothing_in_nothing_out(spark: SparkSession) -> None:
    with Trial(pipeline_of(visits), spark) as trial:
        trial.advance("13:00").end()
        assert trial.rows("out") == []


def test_what_can_not_be_is_refused(spark: SparkSession) -> None:
    rows = batch_of(spark, [])
    with pytest.raises(DeclarationError, match="sessions needs rows with an event time"):
        ps.sessions(rows, by="k", gap="1 minute")
    with pytest.raises(DeclarationError, match="Two columns that come out are called 'End'"):
        ps.sessions(timed(rows), by="k", gap="1 minute", End=F.max("v"))
    with pytest.raises(DeclarationError, match="Two columns that come out are called 'rows'"):
        ps.sessions(timed(rows), by="k", gap="1 minute", rows=F.count("v"))
    with pytest.raises(DeclarationError, match="gap='long' is not a duration"):
        ps.sessions(timed(rows), by="k", gap="long")
