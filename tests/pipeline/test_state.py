"""What is remembered of a query: whole at any moment, as commands and the live view look at it while it is written."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING

import penstock as ps
from penstock.pipeline.compile import compile_pipeline
from penstock.pipeline.state import PipelineState

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame

    from penstock.connectors.base import Context


def test_a_plan_is_whole_whenever_somebody_reads_it(context: Context, tmp_path: Path) -> None:
    pipeline = ps.Pipeline("whole")
    pipeline.source("given", ps.Kafka("given", format=ps.Json("n LONG")))

    @pipeline.flow
    def copied(given: DataFrame) -> DataFrame:
        return given

    pipeline.sink(copied, ps.Kafka("copied", key="n"))
    plan = compile_pipeline(pipeline, context)
    (query,) = plan.queries
    state = PipelineState(tmp_path, "whole")
    over = threading.Event()

    def adopt() -> None:
        try:
            for _ in range(500):
                state.adopt(plan, query, state.owners(plan))
        finally:
            over.set()

    state.adopt(plan, query, state.owners(plan))
    writer = threading.Thread(target=adopt)
    writer.start()
    while not over.is_set():
        assert json.loads((state.query(query.name) / "plan.json").read_text(encoding="utf-8"))["sinks"]
    writer.join()
