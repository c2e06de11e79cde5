"""What is computed within windows that are final needs no state: all rows of a window come out in one batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

import penstock as ps
from penstock.errors import DeclarationError
from penstock.pipeline.compile import compile_pipeline
from penstock.testing import CRASH, PAUSE, Trial
from tests.pipeline.operators.events import SCHEMA, batch_of, disorder, event, same

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from penstock.connectors.base import Context


def highest(totals: DataFrame) -> DataFrame:
    """The rows with the largest total of their window, all of them."""
    most = F.max("total").over(Window.partitionBy("window"))
    return totals.withColumn("most", most).filter("total = most").drop("most")


def highest_by_end(totals: DataFrame) -> DataFrame:
    """The same, apart by a plain time; renamed in between."""
    apart = totals.withColumn("until", F.col("window.end")).withColumnRenamed("until", "closed")
    most = F.max("total").over(Window.partitionBy("closed"))
    return apart.withColumn("most", most).filter("total = most").drop("most", "closed")


def highest_by_field(totals: DataFrame) -> DataFrame:
    most = F.max("total").over(Window.partitionBy("window.end"))
    return totals.withColumn("most", most).filter("total = most").drop("most")


def per_window(totals: DataFrame) -> DataFrame:
    return totals.groupBy("window").agg(F.count("*").alias("keys"), F.max("total").alias("most"))


def pipeline_of(
    flow: Callable[[DataFrame], DataFrame], sink: ps.Kafka | ps.Console | None = None, *, emit: str = "final"
) -> ps.Pipeline:
    made = ps.Pipeline("windows")
    made.source("events", ps.Kafka("events", format=ps.Json(SCHEMA)), time=ps.EventTime("at", delay="10 seconds"))

    @made.flow(emit=emit)
    def totals(events: DataFrame) -> DataFrame:
        return events.groupBy(F.window("at", "1 minute", "20 seconds"), "k").agg(F.count("*").alias("total"))

    @made.flow
    def out(totals: DataFrame) -> DataFrame:
        return flow(totals)

    made.sink(out, sink or ps.Kafka("out"), guarantee="at-least-once" if sink else None)
    return made


@pytest.mark.parametrize("flow", [highest, highest_by_end, per_window, lambda totals: ps.top(totals, 2, by="total")])
def test_rows_are_those_of_a_batch_computation(spark: SparkSession, flow: Callable[[DataFrame], DataFrame]) -> None:
    rows = disorder(300, seconds=300, delay=9)
    with Trial(pipeline_of(flow), spark) as trial:
        trial.given("events", [*rows[:120], PAUSE, *rows[120:200], CRASH, *rows[200:]])
        trial.given("events", [event(-500, id=-1, k="late", v=1e9)])
        trial.end()
        every = batch_of(spark, rows).groupBy(F.window("at", "1 minute", "20 seconds"), "k")
        same(trial.rows("out"), flow(every.agg(F.count("*").alias("total"))))


def test_the_query_keeps_the_state_of_the_windows_alone(context: Context) -> None:
    for flow in (
        highest,
        highest_by_field,
        highest_by_end,
        per_window,
        lambda totals: per_window(highest(totals)).filter("keys > 0"),
    ):
        (query,) = compile_pipeline(pipeline_of(flow, ps.Kafka("out")), context).queries
        assert query.root == "totals"
        assert len(query.state) == 1
        assert query.sinks[0].promise == "exactly-once"  # the batch is handed over, so the more is had for nothing


def test_several_flows_within_the_windows_share_their_query(context: Context) -> None:
    made = pipeline_of(highest)

    @made.flow
    def again(out: DataFrame) -> DataFrame:
        return per_window(out)

    made.sink("totals", ps.Kafka("totals"))
    made.sink(again, ps.Kafka("again"))
    (query,) = compile_pipeline(made, context).queries
    assert (query.root, len(query.state), len(query.sinks)) == ("totals", 1, 3)


def test_a_longer_window_keeps_its_state(context: Context) -> None:
    made = pipeline_of(lambda totals: totals.groupBy(F.window(F.window_time("window"), "1 hour")).count())
    (query,) = compile_pipeline(made, context).queries
    assert (query.root, len(query.state)) == ("out", 2)


def test_what_spark_writes_by_itself_keeps_its_state(context: Context) -> None:
    (query,) = compile_pipeline(pipeline_of(per_window, ps.Console()), context).queries
    assert (query.root, len(query.state)) == ("out", 2)


def test_windows_that_are_not_alone_keep_their_state(context: Context) -> None:
    made = pipeline_of(per_window)

    @made.flow
    def both(totals: DataFrame, events: DataFrame) -> DataFrame:
        one = events.select(F.window("at", "1 minute").alias("window"), "k", F.lit(1).cast("long").alias("total"))
        return totals.union(one)

    @made.flow
    def counted(both: DataFrame) -> DataFrame:
        return both.groupBy("window").count()

    made.sink(counted, ps.Kafka("counted"))
    (_, query) = compile_pipeline(made, context).queries
    assert query.root == "counted"


def test_the_beginning_of_a_window_does_not_tell_when_it_is_final(context: Context) -> None:
    """Sessions that begin together may end in different batches."""
    most = F.max("total").over(Window.partitionBy("window.start"))
    with pytest.raises(DeclarationError, match="out"):
        compile_pipeline(pipeline_of(lambda totals: totals.withColumn("most", most)), context)


@pytest.mark.parametrize("emit", ["final", "changes"])
def test_a_look_at_rows_of_several_batches_is_refused(context: Context, emit: str) -> None:
    """By key alone, or in windows of which only the changed rows come."""

    def previous(totals: DataFrame) -> DataFrame:
        apart = Window.partitionBy("k" if emit == "final" else "window").orderBy("total")
        return totals.withColumn("previous", F.lag("total").over(apart))

    with pytest.raises(DeclarationError, match="out"):
        compile_pipeline(pipeline_of(previous, emit=emit), context)
