"""One plain record per batch, appended beside the checkpoint, readable from another process."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["append", "record_of"]


def record_of(told: dict[str, Any]) -> dict[str, Any]:
    """What Spark tells of a batch, in our words."""
    observed = {name: dict(counts) for name, counts in told.get("observedMetrics", {}).items()}
    state = told.get("stateOperators", [])
    return {
        "batch": told["batchId"],
        "run": told["runId"],
        "time": told["timestamp"],
        "rows": told.get("numInputRows", 0),
        "rows_per_second": round(told.get("processedRowsPerSecond") or 0.0, 1),
        "watermark": told.get("eventTime", {}).get("watermark"),
        "watermark_before": None,
        "late": sum(one.get("numRowsDroppedByWatermark", 0) for one in state),
        "dead": {name: counts for name, counts in observed.items() if any(counts.values())},
        "state_rows": sum(one.get("numRowsTotal", 0) for one in state),
        "state_bytes": sum(one.get("memoryUsedBytes", 0) for one in state),
        "duration_ms": told.get("durationMs", {}),
        "sources": [
            {
                "description": one.get("description"),
                "begin": _offsets(one.get("startOffset")),
                "end": _offsets(one.get("endOffset")),
                "latest": _offsets(one.get("latestOffset")),
            }
            for one in told.get("sources", [])
        ],
    }


def append(path: Path, record: dict[str, Any]) -> None:
    """Write a record as one line."""
    with path.open("a", encoding="utf-8") as out:
        out.write(json.dumps(record, separators=(",", ":")) + "\n")


def behind(record: dict[str, Any]) -> int:
    """How many Kafka rows were waiting when a batch ended."""
    rows = 0
    for source in record["sources"]:
        end, latest = source["end"], source["latest"]
        if isinstance(end, dict) and isinstance(latest, dict):
            for topic, parts in latest.items():
                rows += sum(max(0, at - end.get(topic, {}).get(part, at)) for part, at in parts.items())
    return rows


def _offsets(text: Any) -> Any:
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text
