"""How many rows a batch may have is measured: slow queries get smaller batches at their next start."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

import pytest

import penstock as ps
from penstock.broker import Producer
from penstock.pipeline.compile import compile_pipeline
from penstock.pipeline.pace import Pace
from penstock.pipeline.run import start
from penstock.pipeline.state import PipelineState

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.connectors.base import Context


def record(rows: int, seconds: float, left: int = 1) -> dict[str, Any]:
    source = {"rows": rows, "begin": None, "end": {"t": {"0": rows}}, "latest": {"t": {"0": rows + left}}}
    return {"rows": rows, "duration_ms": {"triggerExecution": round(seconds * 1000)}, "sources": [source]}


@pytest.mark.parametrize(
    ("told", "rows"),
    [
        ([], None),
        ([record(2_000_000, 100)], 600_000),
        ([record(2_000_000, 100), record(600_000, 20)], 900_000),  # the newest counts
        ([record(2_000_000, 100, left=0)], None),  # it had all there was
        ([record(2_000_000, 100), record(50, 30, left=0)], 600_000),
        ([record(300, 4.9)], None),  # mostly its start
        ([record(300, 60)], 10_000),
    ],
)
def test_a_batch_that_left_rows_behind_tells_how_many_fit_into_half_a_minute(
    told: list[dict[str, Any]], rows: int | None
) -> None:
    assert Pace(told).rows == rows


@pytest.mark.parametrize(("given", "batches"), [(None, [10_000, 2_000]), (6_000, [6_000, 6_000])])
def test_the_next_start_has_batches_as_they_were_measured_unless_a_number_is_given(
    context: Context, topic: Callable[..., str], given: int | None, batches: list[int]
) -> None:
    source, sink = topic(partitions=1), topic()
    pipeline = ps.Pipeline(f"pace-{uuid.uuid4().hex[:6]}")
    pipeline.source("numbers", ps.Kafka(source, format=ps.Json("n LONG"), rows_per_batch=given))
    pipeline.sink("numbers", ps.Kafka(sink), guarantee="at-least-once")
    plan = compile_pipeline(pipeline, context)
    (query,) = plan.queries

    def caught_up(rows: int) -> list[dict[str, Any]]:
        with Producer(context.settings.kafka) as producer:
            producer.send_many(source, None, [json.dumps({"n": number}) for number in range(rows)])
        running = start(plan, context, until_caught_up=True)
        assert running.wait(60)
        running.close()
        return [one for one in running.state.progress(query.name) if one["rows"]]

    (first,) = caught_up(1)
    kept = PipelineState(context.settings.home, plan.name).query(query.name) / "progress.jsonl"
    kept.write_text(json.dumps(first | record(300, 60)) + "\n", encoding="utf-8")
    assert [one["rows"] for one in caught_up(12_000)[1:]] == batches
