"""How a pipeline is cut into queries, and what happens when it is changed."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

import penstock as ps
from penstock.broker import Producer, read
from penstock.errors import DeclarationError, SetupError, StateError
from penstock.pipeline.compile import compile_pipeline
from penstock.pipeline.run import start

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from penstock.connectors.base import Context
    from penstock.settings import Kafka

SCHEMA = "id LONG, amount DOUBLE, at TIMESTAMP"


def shop(topic: str = "orders", length: str = "1 minute", name: str = "shop") -> ps.Pipeline:
    made = ps.Pipeline(name)
    made.source("orders", ps.Kafka(topic, format=ps.Json(SCHEMA)), time=ps.EventTime("at", delay="1 second"))

    @made.flow(expect={"has an id": "id IS NOT NULL"})
    def known(orders: DataFrame) -> DataFrame:
        return orders

    @made.flow(expect={"positive": "amount > 0"})
    def good(known: DataFrame) -> DataFrame:
        return known

    @made.flow
    def ids(known: DataFrame) -> DataFrame:
        return known.select("id")

    @made.flow
    def totals(good: DataFrame) -> DataFrame:
        return good.groupBy(F.window("at", length)).agg(F.sum("amount").alias("amount"))

    @made.flow
    def shown(totals: DataFrame) -> DataFrame:
        return totals.select("amount")

    return made


def test_siblings_of_a_source_share_a_query_and_state_has_its_own(context: Context, tmp_path: Path) -> None:
    made = shop()
    made.sink("good", ps.Kafka("good"))
    made.sink("ids", ps.Kafka("ids"))
    made.sink("totals", ps.Kafka("totals"))
    made.sink("shown", ps.Kafka("shown"))
    made.sink("ids", ps.Files(str(tmp_path / "ids")))
    made.sink("good", ps.Kafka("again"), query="again")
    made.sink("good", ps.Console())
    plan = compile_pipeline(made, context)
    cut = {one.name: (one.root, [sink.connector.target() for sink in one.sinks]) for one in plan.queries}
    folder = str(tmp_path / "ids")
    assert cut == {
        "orders": ("known", ["kafka:good", "kafka:ids"]),
        "totals": ("totals", ["kafka:totals", "kafka:shown"]),
        "good-to-console": ("good", ["console:"]),
        f"ids-to-files-{folder.strip('/').replace('/', '-').replace('_', '-')}": ("ids", [f"files:{folder}"]),
        "again": ("good", ["kafka:again"]),
    }
    text = plan.as_text()
    assert "query  totals (micro-batch): orders -> known -> good -> totals" in text
    assert "real-time is blocked by results that wait until they are final" in text
    assert plan.as_dict()["queries"][0]["sinks"][0]["guarantee"] == "exactly-once"
    assert "totals --> shown" in plan.as_mermaid()


def test_a_batch_goes_to_every_sink_and_each_rule_is_counted_once(
    context: Context, kafka: Kafka, topic: Callable[..., str]
) -> None:
    source, good, ids = topic("orders"), topic("good"), topic("ids")
    made = shop(source, name=f"fan-{uuid.uuid4().hex[:6]}")
    made.sink("good", ps.Kafka(good))
    made.sink("ids", ps.Kafka(ids))
    with Producer(kafka) as producer:
        for number in range(10):
            row: dict[str, Any] = {"id": number, "amount": number - 2.0, "at": "2026-01-01T00:00:00Z"}
            producer.send(source, row if number else {**row, "id": None})
        producer.send(source, "no json")
    running = start(compile_pipeline(made, context), context, until_caught_up=True)
    assert running.wait(60)
    running.close()
    assert running.totals() == {"orders": {"batches": 1, "rows": 11, "dead": 4, "late": 0}}
    assert sorted(one.json()["id"] for one in read(kafka, good)) == [3, 4, 5, 6, 7, 8, 9]
    assert sorted(one.json()["id"] for one in read(kafka, ids)) == list(range(1, 10))
    dead = [one.json() for one in read(kafka, f"{made.name}-dead-letters")]
    assert sorted((one["rule"], one["offset"]) for one in dead) == [
        ("decode", 10),
        ("has an id", 0),
        ("positive", 1),
        ("positive", 2),
    ]


def started(pipeline: ps.Pipeline, context: Context, *, keep_state: bool = False) -> None:
    plan = compile_pipeline(pipeline, context)
    running = start(plan, context, until_caught_up=True, keep_state=keep_state)
    running.wait(60)
    running.close()


def test_a_changed_pipeline_says_what_changed_and_what_the_choices_are(
    context: Context, kafka: Kafka, topic: Callable[..., str]
) -> None:
    source, totals, good = topic("orders"), topic("totals"), topic("good")
    name = f"changed-{uuid.uuid4().hex[:6]}"

    def declare(length: str, *sinks: tuple[str, str]) -> ps.Pipeline:
        made = shop(source, length, name)
        for flow, target in sinks:
            made.sink(flow, ps.Kafka(target))
        return made

    started(declare("1 minute", ("totals", totals), ("good", good)), context)
    started(declare("1 minute", ("totals", totals)), context)  # a sink less is no matter
    longer = declare("2 minutes", ("totals", totals))
    with pytest.raises(
        StateError, match=r"it keeps .* over 120 seconds now, .* over 60 seconds then\. .*--keep-state.*start over"
    ):
        started(longer, context)
    started(longer, context, keep_state=True)
    one_more = declare("2 minutes", ("totals", totals), ("good", good), ("ids", topic("ids")))
    with pytest.raises(StateError, match=r"kafka:ids-.* is new and would miss the rows before"):
        started(one_more, context)


@pytest.mark.parametrize(("length", "seconds"), [("1 hour", 3600), ("2 hours", 7200)])
def test_the_lengths_of_hopping_windows_are_told(context: Context, length: str, seconds: int) -> None:
    made = ps.Pipeline("hops")
    made.source("orders", ps.Kafka("orders", format=ps.Json(SCHEMA)), time=ps.EventTime("at"))

    @made.flow
    def hops(orders: DataFrame) -> DataFrame:
        return orders.groupBy(F.window("at", length, "5 minutes")).count()

    made.sink(hops, ps.Kafka("hops"))
    (query,) = compile_pipeline(made, context).queries
    assert f"over 300 seconds, {seconds} seconds" in query.state[0]


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"emit": "changes"}, None),
        ({}, 'results that wait until they are final: let the flow emit="changes"'),
    ],
)
def test_what_blocks_real_time_is_named(context: Context, how: dict[str, Any], said: str | None) -> None:
    made = ps.Pipeline("quick")
    made.source("orders", ps.Kafka("orders", format=ps.Json(SCHEMA)), time=ps.EventTime("at"))

    @made.flow(**how)
    def totals(orders: DataFrame) -> DataFrame:
        return orders.groupBy(F.window("at", "1 minute")).count()

    made.sink(totals, ps.Kafka("out"), latency="realtime")
    if said is None:
        (query,) = compile_pipeline(made, context).queries
        assert (query.latency, query.mode, query.blockers) == ("realtime", "update", ())
        return
    with pytest.raises(DeclarationError, match=said):
        compile_pipeline(made, context)


def test_python_sessions_and_joins_block_real_time(context: Context) -> None:
    made = ps.Pipeline("blocked")
    made.source("orders", ps.Kafka("orders", format=ps.Json(SCHEMA)), time=ps.EventTime("at"))
    made.source("other", ps.Generated(), time=ps.EventTime("created_at"))
    double = F.udf(lambda number: number * 2, "double")

    @made.each("id LONG, amount DOUBLE, at TIMESTAMP")
    def one(orders: dict[str, Any]) -> dict[str, Any]:
        return orders

    @made.flow
    def doubled(one: DataFrame) -> DataFrame:
        return one.withColumn("amount", double("amount"))

    @made.flow
    def sessions(doubled: DataFrame) -> DataFrame:
        return doubled.groupBy(F.session_window("at", "1 minute")).count()

    @made.flow
    def joined(orders: DataFrame, other: DataFrame) -> DataFrame:
        return orders.drop("amount").join(
            other, F.expr("id = order_id AND created_at BETWEEN at AND at + INTERVAL 1 MINUTE")
        )

    made.sink(sessions, ps.Kafka("sessions"))
    made.sink(joined, ps.Kafka("joined"))
    first, second = compile_pipeline(made, context).queries
    told = " ".join(first.blockers)
    for part in ("flow 'one', Python code", "the Python function <lambda>", "a session window", "until they are final"):
        assert part in told
    assert "a join of two streams" in " ".join(second.blockers)
    assert "source 'other' (generated)" in " ".join(second.blockers)


def test_real_time_without_enough_slots_is_refused(context: Context, topic: Callable[..., str]) -> None:
    made = ps.Pipeline(f"slots-{uuid.uuid4().hex[:6]}")
    made.source("orders", ps.Kafka(topic("orders", partitions=30), format=ps.Json(SCHEMA)))
    made.sink("orders", ps.Kafka(topic("out")), latency="realtime")
    with pytest.raises(SetupError, match=r"need 30 task slots at once .*, Spark has \d+\. Give Spark more cores"):
        start(compile_pipeline(made, context), context)


def test_who_publishes_dead_rows_stays_the_same(context: Context, kafka: Kafka, topic: Callable[..., str]) -> None:
    source, totals, good, name = topic("orders"), topic("totals"), topic("good"), f"own-{uuid.uuid4().hex[:6]}"

    def declare(*sinks: tuple[str, str]) -> ps.Pipeline:
        made = shop(source, name=name)
        for flow, target in sinks:
            made.sink(flow, ps.Kafka(target))
        return made

    def bad() -> None:
        with Producer(kafka) as producer:
            producer.send(source, "no json")

    bad()
    started(declare(("totals", totals)), context)
    bad()
    started(declare(("good", good), ("totals", totals)), context)  # a query that would come first, and reads all again
    bad()
    started(declare(("good", good), ("totals", totals)), context)
    dead = [one.json()["offset"] for one in read(kafka, f"{name}-dead-letters")]
    assert sorted(dead) == [0, 1, 2]  # in whichever partition


def test_a_renamed_query_does_not_start_over_silently(context: Context, topic: Callable[..., str]) -> None:
    source, out, name = topic("orders"), topic("out"), f"renamed-{uuid.uuid4().hex[:6]}"
    first = shop(source, name=name)
    first.sink("good", ps.Kafka(out))
    started(first, context)
    second = shop(source, name=name)
    second.sink("good", ps.Kafka(out), query="other")
    with pytest.raises(
        StateError, match=r"was written by query 'orders' before, which is 'other' now\. To go on, rename"
    ):
        started(second, context)


@pytest.mark.parametrize(
    ("flow", "how", "said"),
    [
        ("totals", {"query": "mixed"}, "can't share the query 'mixed'"),
        ("good$late", {}, "'good' keeps no state, so no row is late for it"),
        ("totals$late", {}, "go to another sink already"),
    ],
)
def test_sinks_that_do_not_fit_are_refused(context: Context, flow: str, how: dict[str, str], said: str) -> None:
    made = shop()
    made.sources[0] = replace(made.sources[0], time=ps.EventTime("at", late="keep"))
    made.sink("good", ps.Kafka("good"), query="mixed")
    made.sink("totals$late", ps.Kafka("late"))
    made.sink(flow, ps.Kafka("one-more"), **how)
    with pytest.raises(DeclarationError, match=said):
        compile_pipeline(made, context)


def test_late_rows_have_the_columns_that_went_in(context: Context) -> None:
    made = shop()
    made.sources[0] = replace(made.sources[0], time=ps.EventTime("at", late="keep"))
    made.sink("totals", ps.Kafka("totals"))
    made.sink("totals$late", ps.Kafka("late", key="totals"))
    with pytest.raises(DeclarationError, match=r"The sink of 'totals\$late'.*Its columns are id, amount, at\."):
        compile_pipeline(made, context)


def test_a_mistake_in_a_function_is_told_at_its_line(context: Context) -> None:
    made = ps.Pipeline("typo")
    made.source("orders", ps.Kafka("orders", format=ps.Json(SCHEMA)))

    @made.flow
    def wrong(orders: DataFrame) -> DataFrame:
        same = orders
        return same.groupBy(F.widnow("at", "1 minute")).count()  # type: ignore[attr-defined]

    made.sink(wrong, ps.Kafka("out"))
    line = wrong.place.line + 3
    with pytest.raises(DeclarationError, match=rf"test_cut\.py:{line}: Flow 'wrong': AttributeError: .*widnow"):
        compile_pipeline(made, context)


def test_single_rows_after_state_are_refused(context: Context) -> None:
    made = shop()

    @made.each("amount DOUBLE")
    def one(totals: dict[str, Any]) -> dict[str, Any]:
        return totals

    made.sink(one, ps.Kafka("out"))
    with pytest.raises(DeclarationError, match="takes single rows of a flow that keeps state"):
        compile_pipeline(made, context)
