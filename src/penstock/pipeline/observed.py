"""What Spark counted in the batch that it is working on, before it tells of it by itself."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from penstock.pipeline.spark_plan import walk

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["observed"]

_LATE = "numRowsDroppedByWatermark"


def observed(spark: SparkSession, query_id: str) -> tuple[dict[str, dict[str, Any]], int]:
    """The counts of the stages by their names, and how many rows came too late; once the batch is computed."""
    working = spark._jsparkSession.streams().get(query_id).streamingQuery().lastExecution()
    metrics = working.observedMetrics()
    names = metrics.keys().toSeq()
    counts = {names.apply(at): json.loads(metrics.apply(names.apply(at)).json()) for at in range(int(names.size()))}
    late = 0
    for node in walk(working.executedPlan()):
        if node.metrics().contains(_LATE):
            late += int(node.metrics().apply(_LATE).value())
    return counts, late
