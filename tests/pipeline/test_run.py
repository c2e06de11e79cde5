"""Pipelines on real Spark and a real broker."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

import penstock as ps
from penstock.broker import Producer, Topics, read
from penstock.errors import DeclarationError, SetupError, StateError, TransientError
from penstock.pipeline.compile import compile_pipeline
from penstock.pipeline.run import Running, start
from penstock.pipeline.state import PipelineState
from tests.conftest import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from penstock.connectors.base import Context
    from penstock.settings import Kafka

SCHEMA = "id LONG, customer LONG, amount DOUBLE, at TIMESTAMP"
START = datetime(2026, 1, 1, tzinfo=UTC)
ROWS = 9000  # with a bad one in a thousand


def order(number: int, **changes: Any) -> dict[str, Any]:
    at = (START + timedelta(seconds=number)).isoformat()
    return {"id": number, "customer": number % 3, "amount": 10.0 + number, "at": at, **changes}


def shop(source: str, valid: str, metrics: str | None = None) -> ps.Pipeline:
    pipeline = ps.Pipeline(f"shop-{uuid.uuid4().hex[:6]}")
    pipeline.source("orders", ps.Kafka(source, format=ps.Json(SCHEMA)), time=ps.EventTime("at", delay="5 seconds"))

    @pipeline.flow(expect={"positive amount": "amount > 0", "small": ("amount < 100000", "warn")})
    def good(orders: DataFrame) -> DataFrame:
        return orders.withColumn("cents", (F.col("amount") * 100).cast("long"))

    @pipeline.flow
    def totals(good: DataFrame) -> DataFrame:
        return good.groupBy(F.window("at", "10 seconds"), "customer").agg(F.sum("cents").alias("cents"))

    pipeline.sink(good, ps.Kafka(valid, key="id"))
    if metrics:
        pipeline.sink(totals, ps.Kafka(metrics, key="customer"))
    return pipeline


def run(pipeline: ps.Pipeline, context: Context) -> dict[str, dict[str, int]]:
    running = start(compile_pipeline(pipeline, context), context, until_caught_up=True)
    assert running.wait(120)
    running.close()
    return running.totals()


def values(kafka: Kafka, topic: str) -> list[Any]:
    return [record.json() for record in read(kafka, topic)]


def test_bad_rows_are_in_the_dead_letter_topic_once_and_good_rows_are_complete(
    context: Context, kafka: Kafka, topic: Callable[..., str]
) -> None:
    source, valid = topic("orders", partitions=2, config={"max.message.bytes": "20000000"}), topic("valid")
    bad = [b"not json", b"", b'{"id": "x"}', b"\xff\xfe{", b'{"id": 1, "amount": "abc"}', b"[1]", b"9" * 9_000_000]
    pipeline = shop(source, valid)
    dead = f"{pipeline.name}-dead-letters"
    wrong: list[tuple[Any, str]] = [*((raw, "bad") for raw in bad), (None, "tombstone")]
    wrong.append((order(ROWS, amount=-5.0), "negative"))
    with Producer(kafka) as producer:
        for number in range(ROWS):
            producer.send(source, order(number), str(number))
            if number % 1000 == 500 and wrong:
                producer.send(source, *wrong.pop())
    assert not wrong
    run(pipeline, context)
    assert sorted(row["id"] for row in values(kafka, valid)) == list(range(ROWS))
    letters = values(kafka, dead)
    assert len(letters) == len(bad) + 2
    assert len({(one["topic"], one["partition"], one["offset"]) for one in letters}) == len(letters)
    by_rule = {one["rule"]: one for one in letters}
    assert by_rule["positive amount"]["stage"] == "good"
    assert by_rule["positive amount"]["key"] == "negative"
    assert json.loads(by_rule["positive amount"]["value"])["id"] == ROWS
    assert sum(one["rule"] == "decode" for one in letters) == len(bad) + 1
    with Producer(kafka) as producer:
        producer.send(source, "one more", "bad")
        producer.send(source, order(ROWS + 1), "good")
    run(pipeline, context)
    assert len(values(kafka, dead)) == len(bad) + 3
    assert len(values(kafka, valid)) == ROWS + 1


def test_windows_equal_a_batch_computation_whatever_the_order(
    context: Context, kafka: Kafka, topic: Callable[..., str]
) -> None:
    source, valid, metrics = topic("orders"), topic("valid"), topic("metrics")
    rows = [order(number) for number in range(100)]
    shuffled = [rows[at] for block in range(0, 100, 4) for at in (block + 3, block, block + 2, block + 1)]
    with Producer(kafka) as producer:
        for row in shuffled:
            producer.send(source, row)
        producer.send(source, order(1000))
    pipeline = shop(source, valid, metrics)
    totals = run(pipeline, context)
    wanted: dict[tuple[int, int], int] = {}
    for row in rows:
        key = (row["id"] // 10 * 10, row["customer"])
        wanted[key] = wanted.get(key, 0) + round(row["amount"] * 100)
    found = {
        (int((datetime.fromisoformat(one["window"]["start"]) - START).total_seconds()), one["customer"]): one["cents"]
        for one in values(kafka, metrics)
    }
    assert found == wanted
    assert sum(one["late"] for one in totals.values()) == 0


def test_more_queries_than_cores_begin_one_after_the_other(
    context: Context, kafka: Kafka, topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Running, "_crowded", True)
    source, valid, metrics = topic("orders"), topic("valid"), topic("metrics")
    with Producer(kafka) as producer:
        producer.send(source, order(1))
    running = start(compile_pipeline(shop(source, valid, metrics), context), context)
    begin = running._begin_some
    away = iter([TransientError("The registry is away.", code="away", remedy="Wait.")])

    def sometimes(count: int) -> None:
        for error in away:
            raise error
        begin(count)

    monkeypatch.setattr(running, "_begin_some", sometimes)
    try:
        assert list(running.totals()) == ["orders"]
        wait_until(lambda: not running.wait(0.1) and list(running.latest) == ["orders", "totals"])
    finally:
        running.stop()
    assert running.notes == ["the next query can't begin yet: The registry is away."]


def test_progress_is_on_disk_for_other_processes(context: Context, kafka: Kafka, topic: Callable[..., str]) -> None:
    source, valid = topic("orders"), topic("valid")
    with Producer(kafka) as producer:
        for number in range(10):
            producer.send(source, order(number))
    pipeline = shop(source, valid)
    run(pipeline, context)
    state = PipelineState(context.settings.home, pipeline.name)
    assert state.queries() == ["orders"]
    (record,) = state.progress("orders")
    assert record["rows"] == 10
    assert record["sources"][0]["end"] == {source: {"0": 10}}
    assert state.owner() is None


def test_one_pipeline_runs_once_at_a_time_and_a_changed_one_is_refused(
    context: Context, kafka: Kafka, topic: Callable[..., str]
) -> None:
    source, valid = topic("orders"), topic("valid")
    pipeline = shop(source, valid)
    running = start(compile_pipeline(pipeline, context), context)
    try:
        with pytest.raises(StateError, match="runs already"):
            start(compile_pipeline(pipeline, context), context)
    finally:
        running.stop()
    changed = shop(topic("other"), valid)
    changed.name = pipeline.name
    with pytest.raises(StateError, match=r"it reads orders from kafka:other-.* now, orders from kafka:orders-.* then"):
        start(compile_pipeline(changed, context), context)


def test_a_rule_that_must_hold_stops_the_query_with_its_name(
    context: Context, kafka: Kafka, topic: Callable[..., str]
) -> None:
    source = topic("orders")
    pipeline = ps.Pipeline(f"strict-{uuid.uuid4().hex[:6]}")
    pipeline.source("orders", ps.Kafka(source, format=ps.Json(SCHEMA)))

    @pipeline.flow(expect={"positive": ("amount > 0", "fail")})
    def strict(orders: DataFrame) -> DataFrame:
        return orders

    pipeline.sink(strict, ps.Kafka(topic("out")))
    with Producer(kafka) as producer:
        producer.send(source, order(1, amount=-1.0))
    running = start(compile_pipeline(pipeline, context), context, until_caught_up=True)
    with pytest.raises(DeclarationError, match="expectation 'positive' of flow 'strict' is broken"):
        running.wait(60)
    running.stop()


@pytest.mark.parametrize("emit", ["final", "changes"])
def test_state_without_bound_is_refused_before_the_start(context: Context, emit: str) -> None:
    pipeline = ps.Pipeline("unbounded")
    pipeline.source("orders", ps.Kafka("any", format=ps.Json(SCHEMA)), time=ps.EventTime("at"))

    @pipeline.flow(emit=emit)
    def counts(orders: DataFrame) -> DataFrame:
        return orders.groupBy("customer").count()

    pipeline.sink(counts, ps.Kafka("out"))
    with pytest.raises(DeclarationError, match="'counts' keeps state that grows without bound") as caught:
        compile_pipeline(pipeline, context)
    assert "test_run.py" in str(caught.value)
    assert "F.window" in str(caught.value)


def test_a_wrong_column_is_told_at_the_flow(context: Context) -> None:
    pipeline = ps.Pipeline("typo")
    pipeline.source("orders", ps.Kafka("any", format=ps.Json(SCHEMA)), time=ps.EventTime("at"))

    @pipeline.flow
    def wrong(orders: DataFrame) -> DataFrame:
        return orders.select("amuont")

    pipeline.sink(wrong, ps.Kafka("out"))
    with pytest.raises(DeclarationError, match=r"test_run\.py:\d+: Flow 'wrong'.*amuont"):
        compile_pipeline(pipeline, context)


@pytest.mark.parametrize(
    ("schema", "rule", "key", "said"),
    [
        ("id LONG, amount DUBLE", "amount > 0", None, "Source 'orders'"),
        ("id LONG, amount DOUBLE", "amuont > 0", None, "Expectation 'rule' of flow 'same'.*`amount`"),
        ("id LONG, amount DOUBLE", "amount >", None, "Expectation 'rule' of flow 'same'"),
        ("id LONG, amount DOUBLE", "amount > 0", "nothing", "The sink of 'same'.*Its columns are id, amount"),
    ],
)
def test_what_spark_refuses_is_one_sentence_with_its_place(
    context: Context, schema: str, rule: str, key: str | None, said: str
) -> None:
    pipeline = ps.Pipeline("refused")
    pipeline.source("orders", ps.Kafka("any", format=ps.Json(schema)))

    @pipeline.flow(expect={"rule": rule})
    def same(orders: DataFrame) -> DataFrame:
        return orders

    pipeline.sink(same, ps.Kafka("out", key=key))
    with pytest.raises(DeclarationError, match=rf"test_run\.py:\d+: {said}") as caught:
        compile_pipeline(pipeline, context)
    assert "\n" not in str(caught.value)


def test_files_generated_rows_and_memory(context: Context, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.json").write_text('{"id": 1, "amount": 2.5}\nbroken\n{"id": 2, "amount": 3.5}\n', encoding="utf-8")
    table = f"out_{uuid.uuid4().hex[:6]}"
    pipeline = ps.Pipeline(f"files-{uuid.uuid4().hex[:6]}")
    pipeline.source("orders", ps.Files(str(folder), schema="id LONG, amount DOUBLE"))

    @pipeline.flow
    def same(orders: DataFrame) -> DataFrame:
        return orders

    pipeline.sink(same, ps.Memory(table))
    running = start(compile_pipeline(pipeline, context), context, until_caught_up=True)
    assert running.wait(60)
    running.close()
    assert sorted(row["id"] for row in context.spark.table(table).collect()) == [1, 2]
    assert sum(one["dead"] for one in running.totals().values()) == 1


def test_a_sinks_topic_is_made_if_it_is_not_there(context: Context, kafka: Kafka, topic: Callable[..., str]) -> None:
    source, valid = topic("orders"), f"valid-{uuid.uuid4().hex[:6]}"
    with Producer(kafka) as producer:
        producer.send(source, order(1))
    run(shop(source, valid), context)
    assert [row["id"] for row in values(kafka, valid)] == [1]


def test_a_topic_that_is_not_there_is_a_sentence(context: Context, kafka: Kafka, topic: Callable[..., str]) -> None:
    pipeline = shop(f"nowhere-{uuid.uuid4().hex[:6]}", topic("valid"))
    running = start(compile_pipeline(pipeline, context), context, until_caught_up=True)
    with pytest.raises(DeclarationError, match="a topic that is not there"):
        running.wait(60)
    running.stop()
    assert Topics(kafka).names()


def test_another_projects_kafka_is_not_read(context: Context, kafka: Kafka, topic: Callable[..., str]) -> None:
    source = topic("orders")
    with Producer(kafka) as producer:
        producer.send(source, order(1))
    pipeline = ps.Pipeline(f"down-{uuid.uuid4().hex[:6]}")
    pipeline.source("orders", ps.Kafka(source, format=ps.Json(SCHEMA)))
    pipeline.sink("orders", ps.Memory("orders"))
    down = replace(context, settings=replace(context.settings, kafka=replace(kafka, cluster="mine")))
    with pytest.raises(SetupError, match="another cluster"):
        run(pipeline, down)
