"""Windows are kept in the state as plain times; nobody sees it but Spark."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

import penstock as ps
from penstock.broker import Producer, Record
from penstock.broker.replay import read
from penstock.pipeline.compile import compile_pipeline
from penstock.pipeline.plain_windows import with_plain_windows
from penstock.pipeline.run import Running, start
from penstock.pipeline.spark_plan import analysed, elements, reads_once, states
from penstock.pipeline.state import PipelineState
from penstock.pipeline.state_rows import state_rows
from tests.pipeline.operators.events import SCHEMA, event

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, SparkSession

    from penstock.connectors.base import Context
    from penstock.settings import Kafka

HOPS: dict[str, Callable[[], Column]] = {
    "tumbling": lambda: F.window("timestamp", "1 minute"),
    "sliding": lambda: F.window("timestamp", "1 minute", "20 seconds"),
    "sliding unevenly": lambda: F.window("timestamp", "1 minute", "25 seconds"),
}


@pytest.fixture
def rates(spark: SparkSession) -> DataFrame:
    return spark.readStream.format("rate").load().withWatermark("timestamp", "10 seconds")


@pytest.mark.parametrize("kind", list(HOPS))
def test_the_keys_of_the_state_are_plain_and_the_columns_are_as_before(rates: DataFrame, kind: str) -> None:
    grouped = rates.groupBy(HOPS[kind](), F.col("value").alias("key")).agg(F.count("*").alias("rows"))
    plain = with_plain_windows(grouped)
    assert _keys(plain) == ["window_end", "value"]
    assert _keys(with_plain_windows(grouped, ("start", "end"))) == ["window_start", "window_end", "value"]
    assert plain.schema == grouped.schema
    assert [one.metadata().json() for one in elements(analysed(plain).output())] == [
        one.metadata().json() for one in elements(analysed(grouped).output())
    ]


def test_sliding_windows_have_no_struct_in_between(rates: DataFrame) -> None:
    assert "named_struct" in _below(rates.groupBy(HOPS["sliding"]()).count())
    assert "named_struct" not in _below(with_plain_windows(rates.groupBy(HOPS["sliding"]()).count()))


def test_windows_of_windows_are_both_plain(rates: DataFrame) -> None:
    minutes = rates.groupBy(HOPS["tumbling"](), "value").count()
    hours = minutes.groupBy(F.window(F.window_time("window"), "1 hour")).agg(F.sum("count").alias("rows"))
    plain = with_plain_windows(hours)
    assert [[one.name() for one in elements(state.groupingExpressions())] for state in states(plain)] == [
        ["window_end", "value"],
        ["window_end"],
    ]
    assert plain.schema == hours.schema


def test_a_window_of_unknown_length_is_kept_with_its_beginning(rates: DataFrame) -> None:
    renamed = rates.select(HOPS["tumbling"]().alias("w"), "value").select(F.col("w").alias("of"), "value")
    assert _keys(with_plain_windows(renamed.groupBy("of", "value").count())) == ["window_start", "window_end", "value"]


@pytest.mark.parametrize(
    "flow",
    [
        lambda rates: rates.groupBy(F.session_window("timestamp", "5 seconds"), "value").count(),
        lambda rates: rates.withColumn("w", HOPS["tumbling"]()).groupBy("w").agg(F.max("w.start")),
        lambda rates: rates.select("value"),
        lambda rates: rates.groupBy("value").count(),
        lambda rates: rates.rollup(HOPS["tumbling"](), "value").count(),  # the window of a total is null
    ],
)
def test_all_else_stays_as_it_is(rates: DataFrame, flow: Callable[[DataFrame], DataFrame]) -> None:
    rows = flow(rates)
    assert with_plain_windows(rows) is rows


@pytest.mark.parametrize(
    ("begun", "keys"), [("ends", ["window_end"]), ("plain", ["window_start", "window_end"]), (None, ["window"])]
)
def test_a_checkpoint_goes_on_with_the_windows_that_it_began_with(
    context: Context,
    kafka: Kafka,
    topic: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    begun: str | None,
    keys: list[str],
) -> None:
    """Also one from before windows were plain, and from when they had their beginnings."""
    source, sink = topic("events"), topic("out")
    made = ps.Pipeline(f"plain-{uuid.uuid4().hex[:6]}")
    made.source("events", ps.Kafka(source, format=ps.Json(SCHEMA)), time=ps.EventTime("at", delay="10 seconds"))

    @made.flow
    def out(events: DataFrame) -> DataFrame:
        return events.groupBy(F.window("at", "1 minute", "30 seconds"), "k").agg(F.count("*").alias("rows"))

    made.sink(out, ps.Kafka(sink))
    state = PipelineState(context.settings.home, made.name)
    known = state.query("out") / "plan.json"
    adopt = PipelineState.adopt

    def adopt_as_before(*given: Any, **how: Any) -> None:
        adopt(*given, **how)
        told = json.loads(known.read_text(encoding="utf-8"))
        if begun is None:
            del told["windows"]
        else:
            told["windows"] = begun
        known.write_text(json.dumps(told), encoding="utf-8")

    with monkeypatch.context() as then:
        then.setattr(PipelineState, "adopt", adopt_as_before)
        _send(kafka, source, [event(1, k="a"), event(2, k="a"), event(20, k="b")])
        _caught_up(made, context)
    _send(kafka, source, [event(3, k="a"), event(500, k="end")])
    _caught_up(made, context)
    assert json.loads(known.read_text(encoding="utf-8")).get("windows") == begun
    (left, *_) = state_rows(context.spark, state.checkpoint("out"), None, 1)
    assert list(left["key"]) == [*keys, "k"]
    assert sorted(
        (one["window"]["start"][11:19], one["k"], one["rows"]) for one in map(Record.json, read(kafka, sink))
    ) == [
        ("11:59:30", "a", 3),
        ("11:59:30", "b", 1),
        ("12:00:00", "a", 3),
        ("12:00:00", "b", 1),
    ]


def test_what_is_read_once_is_known(spark: SparkSession) -> None:
    rows = spark.range(10).withColumn("k", F.col("id") % 2)
    from pyspark.sql import Window

    most = rows.withColumn("most", F.max("id").over(Window.partitionBy("k"))).filter("id = most")
    assert reads_once(most)
    assert reads_once(rows.groupBy("k").count().orderBy("k"))
    for twice in (rows.union(rows), rows.join(rows, "k"), rows.limit(1), rows.sample(0.5)):
        assert not reads_once(twice)
    highest = rows.agg(F.max("id")).scalar()
    for twice in (rows.filter(F.col("id") == highest), rows.withColumn("highest", highest)):
        assert not reads_once(twice)


def _keys(rows: DataFrame) -> list[str]:
    (state,) = states(rows)
    return [one.name() for one in elements(state.groupingExpressions())]


def _below(rows: DataFrame) -> str:
    (state,) = states(rows)
    return str(state.child().toString())


def _send(kafka: Kafka, topic: str, rows: list[dict[str, Any]]) -> None:
    with Producer(kafka) as producer:
        for one in rows:
            producer.send(topic, one)


def _caught_up(made: ps.Pipeline, context: Context) -> Running:
    running = start(compile_pipeline(made, context), context, until_caught_up=True)
    assert running.wait(120)
    running.close()
    return running
