"""Sources, tables and formats on the real parts: where they start, what they learn, what they can give again."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import penstock as ps
from penstock.broker import Producer, read
from penstock.errors import DeclarationError
from penstock.pipeline.compile import compile_pipeline
from penstock.pipeline.run import start

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame

    from penstock.connectors.base import Context, SourceConnector
    from penstock.settings import Kafka


def copied(source: SourceConnector, context: Context, name: str | None = None, **rules: str) -> list[dict[str, Any]]:
    """What a source gives, once it is caught up."""
    made = ps.Pipeline(name or f"copy-{uuid.uuid4().hex[:6]}")
    made.source("given", source)

    @made.flow(expect=rules)
    def same(given: DataFrame) -> DataFrame:
        return given

    table = f"copied_{made.name.replace('-', '_')}"
    made.sink(same, ps.Memory(table))
    running = start(compile_pipeline(made, context), context, until_caught_up=True)
    assert running.wait(60)
    running.close()
    return [row.asDict(recursive=True) for row in context.spark.table(table).collect()]


def numbered(kafka: Kafka, topic: str, count: int) -> None:
    with Producer(kafka) as producer:
        for number in range(count):
            producer.send(topic, {"n": number}, str(number), partition=number % 2)


def test_a_topic_is_read_from_where_one_says(context: Context, kafka: Kafka, topic: Callable[..., str]) -> None:
    source = topic("numbers", partitions=2)
    numbered(kafka, source, 10)
    later = datetime.now(UTC) + timedelta(hours=1)
    wanted: list[tuple[Any, list[int]]] = [
        ("earliest", list(range(10))),
        ("latest", []),
        (3, [6, 7, 8, 9]),
        ({0: 4, 1: 1}, [3, 5, 7, 8, 9]),
        ({1: 5}, [0, 2, 4, 6, 8]),
        (datetime(2026, 1, 1, tzinfo=UTC), list(range(10))),
        (later, []),
    ]
    for begin, numbers in wanted:
        rows = copied(ps.Kafka(source, format=ps.Json("n LONG"), start=begin), context)
        assert sorted(row["n"] for row in rows) == numbers, begin


def test_dead_letters_of_a_first_batch_begin_where_it_began(
    context: Context, kafka: Kafka, topic: Callable[..., str]
) -> None:
    source = topic("numbers")
    with Producer(kafka) as producer:
        for text in ("bad before", "bad after"):
            producer.send(source, text)
    copied(ps.Kafka(source, format=ps.Json("n LONG"), start=1), context, name := f"begin-{uuid.uuid4().hex[:6]}")
    assert [one.json()["value"] for one in read(kafka, f"{name}-dead-letters")] == ["bad after"]


def test_several_topics_a_pattern_and_what_kafka_knows_of_a_row(
    context: Context, kafka: Kafka, topic: Callable[..., str]
) -> None:
    first, second = topic("many"), topic("many")
    with Producer(kafka) as producer:
        producer.send(first, {"n": 1}, "one", headers=[("who", b"me")])
        producer.send(second, {"n": 2}, "two")
    both = ps.Kafka((first, second), format=ps.Json("n LONG"), metadata="kafka")
    by_number = {row["n"]: row["kafka"] for row in copied(both, context)}
    assert set(by_number) == {1, 2}
    assert (by_number[1]["topic"], by_number[1]["partition"], by_number[1]["offset"]) == (first, 0, 0)
    assert bytes(by_number[1]["key"]) == b"one"
    assert [(one["key"], bytes(one["value"])) for one in by_number[1]["headers"]] == [("who", b"me")]
    assert by_number[1]["timestamp"].year >= 2026
    pattern = ps.Kafka(f"many-({first[-8:]}|{second[-8:]})", format=ps.Json("n LONG"), pattern=True)
    assert sorted(row["n"] for row in copied(pattern, context)) == [1, 2]


def test_a_limit_per_batch_makes_more_batches(context: Context, kafka: Kafka, topic: Callable[..., str]) -> None:
    source = topic("numbers", partitions=2)
    numbered(kafka, source, 10)
    made = ps.Pipeline(f"limited-{uuid.uuid4().hex[:6]}")
    made.source("numbers", ps.Kafka(source, format=ps.Json("n LONG"), rows_per_batch=4))
    made.sink("numbers", ps.Kafka(topic("out")))
    running = start(compile_pipeline(made, context), context, until_caught_up=True)
    assert running.wait(60)
    running.close()
    (totals,) = running.totals().values()
    assert (totals["rows"], totals["batches"]) == (10, 3)


def test_columns_are_learnt_once_and_then_frozen(context: Context, kafka: Kafka, topic: Callable[..., str]) -> None:
    source = topic("learn")
    name = f"learn-{uuid.uuid4().hex[:6]}"
    with pytest.raises(DeclarationError, match=r"kafka:learn-.* has no rows to learn its columns from"):
        copied(ps.Kafka(source), context)
    with Producer(kafka) as producer:
        producer.send(source, {"id": 1, "at": "2026-01-01T00:00:00Z", "in": {"Deep": [1.5]}})
        producer.send(source, "no json")
        producer.send(source, {"id": 2, "more": "text"})
    first = copied(ps.Kafka(source), context, name)
    assert {row["id"]: row["more"] for row in first} == {1: None, 2: "text"}
    assert next(row["in"] for row in first if row["id"] == 1) == {"Deep": [1.5]}
    frozen = context.settings.project / "schemas" / f"kafka-{source}.ddl"
    assert "at TIMESTAMP" in frozen.read_text(encoding="utf-8")
    with Producer(kafka) as producer:
        producer.send(source, {"id": 3, "unknown": True})
        producer.send(source, {"id": "four"})
    again = copied(ps.Kafka(source), context, name := f"learn-{uuid.uuid4().hex[:6]}")
    assert sorted(row["id"] for row in again) == [1, 2, 3]
    assert "unknown" not in again[0]
    letters = read(kafka, f"{name}-dead-letters")  # of two partitions, in no order
    assert sorted(one.json()["offset"] for one in letters) == [1, 4]


@pytest.mark.parametrize("kind", ["json", "csv", "parquet"])
def test_files_are_read_and_their_bad_lines_are_dead_letters(
    context: Context, kafka: Kafka, tmp_path: Path, kind: str
) -> None:
    folder = tmp_path / "given"
    folder.mkdir()
    name = f"files-{uuid.uuid4().hex[:6]}"
    schema = "id LONG, amount DOUBLE"
    if kind == "json":
        (folder / "a.json").write_text('{"id": 1, "amount": 2.5}\nbroken\n{"id": 2, "amount": -1}\n', encoding="utf-8")
    elif kind == "csv":
        (folder / "a.csv").write_text("id,amount\n1,2.5\nx,y\n2,-1\n", encoding="utf-8")
    else:
        rows = context.spark.createDataFrame([(1, 2.5), (2, -1.0)], schema)
        rows.coalesce(1).write.mode("append").parquet(str(folder))
    found = copied(ps.Files(str(folder), kind, schema, header=True), context, name, positive="amount > 0")
    assert found == [{"id": 1, "amount": 2.5}]
    letters = sorted((one.json()["rule"], one.json()["value"]) for one in read(kafka, f"{name}-dead-letters"))
    bad = {"json": [("decode", "broken")], "csv": [("decode", "x,y")], "parquet": []}[kind]
    assert letters == [*bad, ("positive", '{"id":2,"amount":-1.0}')]


def test_columns_of_files_are_learnt(context: Context, tmp_path: Path) -> None:
    folder = tmp_path / "given"
    folder.mkdir()
    (folder / "a.csv").write_text("id,name\n1,Ada\n", encoding="utf-8")
    assert copied(ps.Files(str(folder), "csv", header=True), context) == [{"id": 1, "name": "Ada"}]


def test_rows_of_memory(context: Context) -> None:
    numbers = ps.Memory("numbers", "n LONG, word STRING")
    numbers.add([{"n": 1, "word": "one"}, {"n": 2}])
    numbers.add([{"n": 3}])
    for _ in range(2):  # the table is gone with its process, so a second run begins anew
        rows = copied(numbers, context, "memories")
        assert sorted(row["n"] for row in rows) == [1, 2, 3]


def test_generated_rows_are_the_same_again(context: Context, kafka: Kafka, topic: Callable[..., str]) -> None:
    out, name = topic("out"), f"generated-{uuid.uuid4().hex[:6]}"
    made = ps.Pipeline(name)
    made.source("orders", ps.Generated("orders", rows_per_second=200, broken=0.1, late=0.1))
    made.sink("orders", ps.Kafka(out))
    running = start(compile_pipeline(made, context), context)
    while not (running.latest and running.latest["orders"]["batch"] >= 3):
        running.wait(0.1)
    running.stop()
    totals = running.totals()["orders"]
    good = [one.json()["order_id"] for one in read(kafka, out)]
    dead = [one.json()["offset"] for one in read(kafka, f"{name}-dead-letters")]
    assert totals["dead"] == len(dead) > 5
    assert sorted(good + dead) == list(range(totals["rows"]))


def test_a_topic_as_a_table_has_the_latest_row_of_each_key(
    context: Context, kafka: Kafka, topic: Callable[..., str]
) -> None:
    orders, customers, out = topic("orders"), topic("customers", partitions=2), topic("out")
    with Producer(kafka) as producer:
        for key, name in (("1", "Ada"), ("2", "Bo"), ("1", "Ada Lovelace"), ("3", "Cy")):
            producer.send(customers, {"customer": int(key), "name": name}, key)
        producer.send(customers, None, "3")
        for number in (1, 2, 3):
            producer.send(orders, {"id": number, "customer": number})
    made = ps.Pipeline(f"tables-{uuid.uuid4().hex[:6]}")
    made.source("orders", ps.Kafka(orders, format=ps.Json("id LONG, customer LONG")))
    made.table("customers", ps.Kafka(customers, format=ps.Json("customer LONG, name STRING")))

    @made.flow
    def named(orders: DataFrame, customers: DataFrame) -> DataFrame:
        return orders.join(customers, "customer", "left")

    made.sink(named, ps.Kafka(out, key="id"))
    plan = compile_pipeline(made, context)
    for wanted in ({1: "Ada Lovelace", 2: "Bo", 3: None}, {4: "Dee"}):
        running = start(plan, context, until_caught_up=True)
        assert running.wait(60)
        running.close()
        rows = [one.json() for one in read(kafka, out)]
        assert {row["id"]: row.get("name") for row in rows if row["id"] in wanted} == wanted
        with Producer(kafka) as producer:
            producer.send(customers, {"customer": 4, "name": "Dee"}, "4")
            producer.send(orders, {"id": 4, "customer": 4})
    with Producer(kafka) as producer:
        producer.send(customers, "no json", "5")
        producer.send(orders, {"id": 5, "customer": 5})
    running = start(plan, context, until_caught_up=True)
    with pytest.raises(DeclarationError, match=r"a row of a table can't be decoded: kafka:customers-\S+ \d \d"):
        running.wait(60)
    running.stop()
