"""Nexmark's events are what they should be, and every query answers as DuckDB does."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import fastavro
import pyarrow as pa
import pytest

from bench.nexmark.answers import QUERIES, answer_in, expected
from penstock.pipeline.compile import compile_pipeline
from penstock.pipeline.load import load_pipeline
from penstock.pipeline.run import start

EXAMPLE = Path(__file__).parents[2] / "examples" / "nexmark"
sys.path.insert(0, str(EXAMPLE))

from encode import as_avro, as_json, avro_schema  # noqa: E402
from generate import fill, topic_of  # noqa: E402
from nexmark import TABLES, Shape, end_of, rows  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.connectors.base import Context
    from tests.conftest import Project

ROWS = {"bid": 20_000, "person": 1_000, "auction": 3_000}
PARTITIONS = 2


@pytest.mark.parametrize("table", TABLES)
def test_both_formats_say_the_same(table: str) -> None:
    some = rows(table, 100, 400, Shape())
    schema = fastavro.parse_schema(avro_schema(some, table))
    written = zip(as_json(some).to_pylist(), as_avro(some, b"\x00frame").to_pylist(), some.to_pylist(), strict=True)
    for text, binary, row in written:
        assert binary[:6] == b"\x00frame"
        assert fastavro.schemaless_reader(io.BytesIO(binary[6:]), schema, None) == row
        times = {name for name, value in row.items() if hasattr(value, "isoformat")}
        told = json.loads(text)
        assert {name: told[name] for name in row if name not in times} == {
            name: value for name, value in row.items() if name not in times
        }
        assert all(told[name] == row[name].isoformat(timespec="milliseconds").replace("+00:00", "Z") for name in times)


def test_of_fifty_events_one_is_a_person_and_three_are_auctions() -> None:
    times = {name: rows(name, 0, share * 100, Shape())["dateTime"].to_pylist() for name, (share, *_) in TABLES.items()}
    assert {name: len(found) for name, found in times.items()} == {"person": 100, "auction": 300, "bid": 4600}
    every = sorted(one for found in times.values() for one in found)
    assert [(after - before).total_seconds() for before, after in pairwise(every)] == [0.001] * 4999


def test_rows_follow_from_their_place_and_the_seed() -> None:
    whole = rows("bid", 0, 1000, Shape())
    assert rows("bid", 200, 300, Shape()).equals(whole.slice(200, 100))
    assert rows("bid", 3, 1000, Shape(), 7).equals(whole.take(list(range(3, 1000, 7))))
    assert not rows("bid", 0, 1000, Shape(seed=2)).equals(whole)
    mixed = rows("bid", 0, 1000, replace(Shape(), disorder=50))
    assert mixed["dateTime"].to_pylist() != whole["dateTime"].to_pylist()
    assert sorted(map(str, mixed.to_pylist())) == sorted(map(str, whole.to_pylist()))


def test_half_of_all_bids_are_for_hot_auctions_and_most_of_hot_bidders() -> None:
    some = rows("bid", 0, 46_000, Shape()).to_pylist()
    assert 0.45 < sum(one["auction"] % 100 == 0 for one in some) / len(some) < 0.55
    assert 0.7 < sum(one["bidder"] % 100 == 1 for one in some) / len(some) < 0.8


@pytest.mark.parametrize("form", ["json", "avro"])
def test_every_query_answers_as_duckdb_does(
    form: str, platform: Project, context: Context, topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    side = context.settings.project / "side.csv"
    side.write_text("".join(f"{key},value-{key}\n" for key in range(10_000)), encoding="utf-8")
    monkeypatch.setenv("NEXMARK_FORMAT", form)
    monkeypatch.setenv("NEXMARK_SIDE", str(side))
    shape = Shape()
    for table, count in ROWS.items():
        fill(platform.settings, table, form, count, shape, PARTITIONS, sides=1)
    last = {table: [end_of(table, shape)] * PARTITIONS for table in ROWS}
    tables = {table: pa.concat_tables([rows(table, 0, count, shape), *last[table]]) for table, count in ROWS.items()}
    for query in QUERIES if form == "json" else ("q1", "q5", "q8"):
        sink = topic(query, partitions=2)
        monkeypatch.setenv("NEXMARK_ANSWER", sink)
        sys.modules.pop("topics", None)
        running = start(
            compile_pipeline(load_pipeline(EXAMPLE / f"{query}.py"), context), context, until_caught_up=True
        )
        assert running.wait(120)
        running.close()
        used = {name: rows for name, rows in tables.items() if topic_of(name, form) in str(running.plan.graph.sources)}
        assert answer_in(query, platform.settings.kafka.bootstrap, sink) == expected(query, used), query
