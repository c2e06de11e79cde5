"""Late rows on a real broker: what was on time and what was late is all there was, each row once."""

from __future__ import annotations

import pathlib
import random
import uuid
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

import penstock as ps
from penstock.broker import Producer, read
from penstock.pipeline.compile import compile_pipeline
from penstock.pipeline.run import start
from penstock.testing import Trial

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from penstock.connectors.base import Context
    from penstock.settings import Kafka

ROWS = 4000
START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("slide", ["1 minute", "20 seconds"])
def test_on_time_and_late_are_all_rows_exactly(
    context: Context, kafka: Kafka, topic: Callable[..., str], slide: str
) -> None:
    source, out = topic("orders"), topic("totals")
    pipeline = ps.Pipeline(f"late-{uuid.uuid4().hex[:6]}")
    pipeline.source(
        "orders",
        ps.Kafka(source, format=ps.Json("id LONG, at TIMESTAMP"), rows_per_batch=500),
        time=ps.EventTime("at", delay="30 seconds", late="keep"),
    )

    @pipeline.flow
    def totals(orders: DataFrame) -> DataFrame:
        return orders.groupBy(F.window("at", "1 minute", slide)).agg(F.collect_list("id").alias("ids"))

    pipeline.sink(totals, ps.Kafka(out))
    chance = random.Random(7)
    with Producer(kafka) as producer:
        for number in range(ROWS):
            behind = chance.choice((600, 1200)) if chance.random() < 0.01 else chance.random() * 20
            producer.send(source, {"id": number, "at": (START + timedelta(seconds=number - behind)).isoformat()})
        producer.send(source, {"id": ROWS, "at": (START + timedelta(days=1)).isoformat()})
    running = start(compile_pipeline(pipeline, context), context, until_caught_up=True)
    assert running.wait(180)
    running.close()
    on_time = Counter(number for record in read(kafka, out) for number in record.json()["ids"])
    letters = [record.json() for record in read(kafka, f"{pipeline.name}-dead-letters")]
    late = Counter(int(one["offset"]) for one in letters)
    windows = 60 // (60 if slide == "1 minute" else 20)
    assert set(late.values()) == {1}
    assert len(late) > 20
    missed = {number for number in range(ROWS) if on_time[number] < windows}
    assert missed == set(late)
    assert {one["rule"] for one in letters} == {"late"}


def test_late_rows_with_names_that_others_have_too(spark: SparkSession) -> None:
    made = ps.Pipeline("names")
    made.source(
        "orders",
        ps.Kafka("orders", format=ps.Json("id LONG, `__op` STRING, `a.b` LONG, at TIMESTAMP")),
        time=ps.EventTime("at", delay="10 seconds", late="keep"),
    )
    made.table("names", ps.Kafka("names", format=ps.Json("id LONG, name STRING")))

    @made.flow(expect={"odd": "id % 2 = 1"})
    def odd(orders: DataFrame) -> DataFrame:
        return orders

    @made.flow
    def counts(odd: DataFrame, names: DataFrame) -> DataFrame:
        joined = odd.join(names, odd["id"] == names["id"], "left")  # two columns named id
        return joined.groupBy(F.window("at", "1 minute")).count()

    @made.flow
    def large(counts: DataFrame) -> DataFrame:
        return counts.filter("count > 0")

    made.sink(large, ps.Kafka("large"))
    made.sink("counts$late", ps.Kafka("late"))
    with Trial(made, spark) as trial:
        row = {"__op": "c", "a.b": 7}
        trial.given("names", [{"id": 1, "name": "one"}])
        trial.given("orders", [{"id": 1, **row}, {"id": 2, **row}], at="10:00").advance("11:00")
        trial.given("orders", [{"id": 1, **row}, {"id": 1, **row}, {"id": 4, **row}], at="10:00").end()
        late = trial.rows("counts$late")
        assert [(one["id"], one["__op"], one["a.b"], one["name"]) for one in late] == [(1, "c", 7, "one")] * 2
        assert [letter["rule"] for letter in trial.dead()] == ["odd", "odd"]
        trial.expect("large", [{"count": 1}])


def test_streams_of_different_kinds_are_united(
    context: Context, kafka: Kafka, topic: Callable[..., str], tmp_path: Path
) -> None:
    source, out = topic("orders"), topic("out")
    folder = tmp_path / "given"
    folder.mkdir()
    (folder / "a.json").write_text('{"id": 1}\n{"id": -1}\nbroken\n', encoding="utf-8")
    with Producer(kafka) as producer:
        for value in ({"id": 2}, {"id": -2}, "broken"):
            producer.send(source, value)
    made = ps.Pipeline(f"both-{uuid.uuid4().hex[:6]}")
    made.source("old", ps.Files(str(folder), schema="id LONG"))
    made.source("new", ps.Kafka(source, format=ps.Json("id LONG"), options={"kafka.max.poll.records": "500"}))

    @made.flow(expect={"positive": "id > 0"})
    def both(old: DataFrame, new: DataFrame) -> DataFrame:
        return old.unionByName(new)

    made.sink(both, ps.Kafka(out))
    running = start(compile_pipeline(made, context), context, until_caught_up=True)
    assert running.wait(60)
    running.close()
    assert sorted(one.json()["id"] for one in read(kafka, out)) == [1, 2]
    dead = [one.json() for one in read(kafka, f"{made.name}-dead-letters")]
    assert sorted((one["rule"], one["value"]) for one in dead) == [
        ("decode", "broken"),
        ("decode", "broken"),
        ("positive", '{"id":-1}'),
        ("positive", '{"id":-2}'),
    ]


def test_what_is_bad_only_once_is_told_all_the_same(spark: SparkSession, tmp_path: Path) -> None:
    made = ps.Pipeline("moody")
    made.source("orders", ps.Kafka("orders", format=ps.Json("id LONG")))
    mark = str(tmp_path / "called")

    @made.each("id LONG")
    def moody(orders: dict[str, int]) -> dict[str, int]:
        path = pathlib.Path(f"{mark}-{orders['id']}")
        if orders["id"] == 2 and not path.exists():
            path.touch()
            raise TimeoutError("the service did not answer")
        return orders

    made.sink(moody, ps.Kafka("out"))
    with Trial(made, spark) as trial:
        trial.given("orders", [{"id": 1}, {"id": 2}, {"id": 3}])
        trial.expect("moody", [{"id": 1}, {"id": 3}])
        (letter,) = trial.dead()
        assert letter["rule"] == "not found again"
        assert letter["message"].startswith("1 rows of batch 0 were bad")
