"""Lookups in a pipeline: rows with what a service knows of them, dead letters with coordinates where it does not."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

import penstock as ps
from penstock.broker import Producer, read
from penstock.errors import DeclarationError
from penstock.pipeline.compile import compile_pipeline, declared
from penstock.pipeline.run import start
from penstock.testing import CRASH, END, PAUSE, Trial
from tests.pipeline.lookups.service import Service, serving
from tests.pipeline.operators.events import SCHEMA, event

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from penstock.connectors.base import Context
    from penstock.settings import Kafka

RETURNS = "name STRING, tier STRING, age LONG"
GOLD = {"name": "g", "tier": "gold", "age": 30}


@pytest.fixture
def service() -> Iterator[Service]:
    with serving() as made:
        yield made


def crm(service: Service, **how: Any) -> ps.HttpLookup:
    return ps.HttpLookup(f"{service.url}/customers/{{k}}", **{"returns": RETURNS, "retries": 0, **how})


def shop(lookup: Any, source: str = "events", sink: str = "enriched", **how: Any) -> ps.Pipeline:
    made = ps.Pipeline(f"shop-{uuid.uuid4().hex[:6]}")
    events = made.source("events", ps.Kafka(source, format=ps.Json(SCHEMA)), time=ps.EventTime("at"))
    made.sink(made.lookup("enriched", events, lookup, **how), ps.Kafka(sink))
    return made


def run(pipeline: ps.Pipeline, context: Context) -> None:
    running = start(compile_pipeline(pipeline, context), context, until_caught_up=True)
    assert running.wait(120)
    running.close()


def values(kafka: Kafka, topic: str) -> list[Any]:
    return [record.json() for record in read(kafka, topic)]


def test_rows_have_what_the_service_knows(spark: SparkSession, service: Service) -> None:
    service.says("g", 200, GOLD)
    service.says("a/b", 200, {"name": "slash", "other": [1]})
    service.says("gone", 404)
    service.says("bad", 400, b"bad id")
    service.says("text", 200, {"age": "thirty"})
    service.says("page", 200, b"<html>")
    pipeline = shop(crm(service), expect={"small": "id < 100"})

    @pipeline.flow
    def counts(enriched: DataFrame) -> DataFrame:
        return enriched.groupBy(F.window("at", "1 minute"), "tier").count()

    pipeline.sink(counts, ps.Kafka("counts"))
    rows: list[Any] = [
        *(event(0, id=1, k="g"), event(0, id=2, k="g"), event(0, id=3, k="a/b"), event(1, id=4, k="gone")),
        *(event(1, id=5), event(1, id=6, k="bad"), CRASH, event(2, id=7, k="bad"), event(2, id=8, k="text")),
        *(event(2, id=9, k="page"), event(2, id=100, k="g"), END),
    ]
    with Trial(pipeline, spark) as trial:
        trial.given("events", rows)
        nothing = {"name": None, "tier": None, "age": None}
        trial.expect(
            "enriched",
            [
                *({"id": 1, "k": "g", **GOLD}, {"id": 2, "k": "g", **GOLD}),
                *({"id": 3, "k": "a/b", **nothing, "name": "slash"}, {"id": 4, "k": "gone", **nothing}),
                {"id": 5, "k": None, **nothing},
            ],
        )
        trial.expect("counts", [{"tier": "gold", "count": 2}, {"tier": None, "count": 3}])  # the event time is kept
        letters = trial.dead("enriched")
    where = f"http:{service.url}/customers/{{k}}"
    assert sorted((json.loads(one["value"])["id"], one["rule"], one["message"]) for one in letters)[:-1] == [
        (6, "refused by http", f"{where} answers 400 Bad Request: bad id"),
        (7, "refused by http", f"{where} answers 400 Bad Request: bad id"),
        (8, "wrong answer", f'{where} answers no {RETURNS}: {{"age": "thirty"}}'),
        (9, "wrong answer", f"{where} answers no JSON object: <html>"),
    ]
    assert [json.loads(one["value"])["id"] for one in letters if one["rule"] == "small"] == [100]


def test_each_key_is_asked_once_for_a_batch(spark: SparkSession, service: Service) -> None:
    keys = [f"k{number}" for number in range(20)]
    rows = [event(0, id=number, k=keys[number % 20]) for number in range(2000)]
    with Trial(shop(crm(service)), spark) as trial:
        trial.given("events", rows)
        assert len(trial.rows("enriched")) == 2000
        assert {row["name"] for row in trial.rows("enriched")} == {f"name {key}" for key in keys}
    assert service.calls == dict.fromkeys(keys, 1)


def test_what_gives_no_answer_in_time_falls_back(spark: SparkSession, service: Service) -> None:
    service.hangs("slow")
    fallback = {"tier": "none", "age": 0}
    pipeline = shop(crm(service, timeout="1 second", retries=1, fallback=fallback))
    with Trial(pipeline, spark) as trial:
        trial.given("events", [event(0, id=1, k="slow"), event(0, id=2, k="other")])
        trial.expect(
            "enriched", [{"id": 1, "name": None, **fallback}, {"id": 2, **GOLD, "name": "name other", "age": None}]
        )
        assert trial.dead() == []
    assert service.calls == {"slow": 2, "other": 1}


def test_a_row_that_must_be_known_is_a_dead_letter_if_it_is_not(spark: SparkSession, service: Service) -> None:
    service.says("gone", 404)
    pipeline = shop(crm(service, missing="dead letter"))
    with Trial(pipeline, spark) as trial:
        trial.given("events", [event(0, id=1, k="gone"), event(0, id=2), event(0, id=3, k="g"), PAUSE])
        trial.expect("enriched", [{"id": 3, "name": "name g"}])
        assert [(one["rule"], one["value"][:7]) for one in trial.dead()] == [
            ("missing", '{"id":1'),
            ("missing", '{"id":2'),
        ]


def test_a_service_that_fails_later_makes_no_letter_of_a_row_that_came_through(
    spark: SparkSession, service: Service
) -> None:
    service.says_in_turn("later", (200, json.dumps(GOLD).encode()), (503, b"busy"))
    with Trial(shop(crm(service, cache=None), expect={"small": "id < 100"}), spark) as trial:
        trial.given("events", [event(0, id=1, k="later"), event(0, id=100, k="g")])
        trial.expect("enriched", [{"id": 1, **GOLD}])
        assert [(one["rule"], json.loads(one["value"])["id"]) for one in trial.dead()] == [("small", 100)]
    assert service.calls["later"] == 2


@pytest.mark.parametrize("way", ["in one step", "beside another sink", "by Spark itself"])
def test_a_row_without_an_answer_is_one_letter_with_its_coordinates_whatever_the_service_says_later(
    context: Context, kafka: Kafka, topic: Callable[..., str], tmp_path: Path, service: Service, way: str
) -> None:
    source, sink, all_rows = topic("orders", partitions=2), topic("enriched"), topic("all")
    secret = tmp_path / "token"
    secret.write_text("Bearer geheim", encoding="utf-8")
    good = json.dumps(GOLD).encode()
    service.hangs("slow")
    service.says_in_turn("once", (503, b"busy"), (200, good))
    service.says_in_turn("later", (200, good), (503, b"busy"))
    headers = {"Authorization": ps.Secret(file=str(secret))}
    pipeline = shop(crm(service, timeout="1 second", cache=None, headers=headers), source, sink)
    if way == "by Spark itself":
        pipeline.sinks[0] = replace(pipeline.sinks[0], guarantee="at-least-once")
    if way == "beside another sink":
        pipeline.sink("events", ps.Kafka(all_rows))
    assert "geheim" not in compile_pipeline(pipeline, context).as_text()
    with Producer(kafka) as producer:
        for number, key in enumerate(("slow", "once", "later", "g", "once", "slow")):
            producer.send(source, event(0, id=number, k=key), key)
    run(pipeline, context)
    assert sorted(row["id"] for row in values(kafka, sink)) == [2, 3]
    letters = values(kafka, f"{pipeline.name}-dead-letters")
    told = {json.loads(one["value"])["id"]: (one["stage"], one["rule"], one["key"]) for one in letters}
    assert told == {
        **dict.fromkeys((0, 5), ("enriched", "no answer", "slow")),
        **dict.fromkeys((1, 4), ("enriched", "no answer", "once")),
    }
    assert len({(one["topic"], one["partition"], one["offset"]) for one in letters}) == len(letters) == 4
    assert service.headers == {"Bearer geheim"}
    assert "geheim" not in json.dumps(letters)
    with Producer(kafka) as producer:
        producer.send(source, event(0, id=9, k="once"), "once")
    run(pipeline, context)
    assert sorted(row["id"] for row in values(kafka, sink)) == [2, 3, 9]
    assert len(values(kafka, f"{pipeline.name}-dead-letters")) == 4


def test_rows_of_a_table(context: Context, kafka: Kafka, topic: Callable[..., str]) -> None:
    source, sink, name = topic("orders"), topic("enriched"), f'cust"omers {uuid.uuid4().hex[:6]}'
    quoted = '"{}"'.format(name.replace('"', '""'))
    with psycopg.connect(context.settings.postgres.url, autocommit=True) as connection:
        connection.execute(
            f"CREATE TABLE {quoted} (nr varchar(5) PRIMARY KEY, born timestamptz, day date, spent numeric(20, 4),"
            ' vip boolean, words text[], "a ""b" jsonb)'
        )
        connection.execute(
            f"INSERT INTO {quoted} VALUES ('a', '2026-03-29T01:30:00.123456Z', '2026-02-28', 1234567890.1234, true,"
            """ ARRAY['x', NULL], '{"c": [1, 2]}')"""
        )
    returns = (
        'born TIMESTAMP, day DATE, spent DECIMAL(20,4), vip BOOLEAN, words ARRAY<STRING>, `a "b` STRUCT<c: ARRAY<INT>>'
    )
    pipeline = shop(ps.SqlLookup(name, key="nr", on="k", returns=returns), source, sink)
    with Producer(kafka) as producer:
        for number, key in enumerate(("a", "none", "a", "zero \x00 byte")):
            producer.send(source, event(0, id=number, k=key), key)
    run(pipeline, context)
    found = sorted(values(kafka, sink), key=lambda row: row["id"])
    known = {
        "born": "2026-03-29T01:30:00.123456Z",
        "day": "2026-02-28",
        "spent": 1234567890.1234,
        "vip": True,
        "words": ["x", None],
        'a "b': {"c": [1, 2]},
    }
    assert [{key: row[key] for key in row if key not in ("at", "v")} for row in found] == [
        {"id": 0, "k": "a", **known},
        {"id": 1, "k": "none"},
        {"id": 2, "k": "a", **known},
    ]
    (letter,) = values(kafka, f"{pipeline.name}-dead-letters")
    assert (letter["rule"], letter["offset"]) == ("refused by postgres", 3)


@pytest.mark.parametrize(
    ("lookup", "said"),
    [
        (ps.HttpLookup("ftp://host/{k}", returns="tier STRING"), "'ftp://host/{k}' is not an address"),
        (ps.HttpLookup("http://host/", returns="tier STRING"), "The address names no column"),
        (ps.HttpLookup("http://{k}/", returns="tier STRING"), "The host of a lookup is the same for every row"),
        (ps.HttpLookup("http://me:geheim@host/{k}", returns="tier STRING"), "A password does not belong"),
        (
            ps.HttpLookup("http://host/{k}", returns="tier STRING", timeout="2 secs"),
            "timeout='2 secs' is not a duration",
        ),
        (ps.HttpLookup("http://host/{k}", returns="tier STRING", cache="0 seconds"), "cache='0 seconds' is not"),
        (ps.HttpLookup("http://host/{k}", returns="tier STRING", concurrency=0), "concurrency must be from 1"),
        (ps.HttpLookup("http://host/{k}", returns="tier STRING", retries=-1), "retries must be at least 0"),
        (ps.HttpLookup("http://host/{k}", returns="tier STRING", missing="drop"), "missing='drop' is not known"),
        (ps.HttpLookup("http://host/{k}", returns="tier STRING", fallback={"teir": 1}), "fallback has 'teir'"),
        (ps.HttpLookup("http://host/{k}", returns="tier STRNG"), "'tier STRNG' does not say types"),
        (ps.SqlLookup("a.b.c", key="id", returns="tier STRING"), "'a.b.c' is not a table's name"),
        (ps.SqlLookup("a", key=("x", "y"), on="id", returns="tier STRING"), "key and on do not have the same number"),
        (ps.Kafka("customers"), "is no lookup. Give one such as ps.HttpLookup"),
    ],
)
def test_a_mistake_is_told_without_spark(lookup: Any, said: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        declared(shop(lookup))
    assert said in str(caught.value)
    assert "test_lookups.py:" in str(caught.value)
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize(
    ("lookup", "said"),
    [
        (
            ps.HttpLookup("http://host/{kk}", returns="tier STRING"),
            "is asked by 'kk', which its input lacks. It has id, k",
        ),
        (ps.HttpLookup("http://host/{v}", returns="tier STRING"), "is asked by 'v', which is no plain value (double)"),
        (ps.HttpLookup("http://host/{k}", returns="tier STRING, V LONG"), "returns 'V', which its input has already"),
        (ps.SqlLookup("t", key="kk", returns="tier STRING"), "is asked by 'kk', which its input lacks"),
    ],
)
def test_columns_that_do_not_fit_are_told_at_the_lookup(context: Context, lookup: Any, said: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        compile_pipeline(shop(lookup), context)
    assert said in str(caught.value)
    assert "test_lookups.py:" in str(caught.value)


def test_the_plan_names_the_service_and_nothing_secret(context: Context) -> None:
    lookup = ps.HttpLookup("http://crm/{k}?key=geheim", returns="tier STRING", headers={"X": "geheim"})
    plan = compile_pipeline(shop(lookup), context)
    assert "flow   enriched(events) <- http:http://crm/{k}  [" in plan.as_text()
    assert plan.as_dict()["flows"][0]["lookup"] == "http:http://crm/{k}"
    assert 'enriched__asked[("http:http://crm/{k}")] -.-> enriched' in plan.as_mermaid()
    assert "geheim" not in f"{plan.as_text()} {plan.as_dict()} {plan.as_mermaid()} {plan!r}"
    assert any("join with a table" in one for one in plan.queries[0].blockers)
