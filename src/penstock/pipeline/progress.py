"""One plain record per batch, appended beside the checkpoint, readable from another process."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from penstock.pipeline.freshness import FRESHNESS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["append", "behind", "counts_of", "failed_in", "older", "record_of"]

_LARGEST = 16 << 20
_FAILED = "failed"


def record_of(told: dict[str, Any]) -> dict[str, Any]:
    """What Spark tells of a batch, in our words."""
    dead, warned = counts_of(told.get("observedMetrics", {}))
    state = told.get("stateOperators", [])
    return {
        "batch": told["batchId"],
        "run": told["runId"],
        "time": told["timestamp"],
        "rows": told.get("numInputRows", 0),
        "rows_per_second": round(told.get("processedRowsPerSecond") or 0.0, 1),
        "watermark": told.get("eventTime", {}).get("watermark"),
        "newest": told.get("eventTime", {}).get("max"),
        "watermark_before": None,
        "late": sum(one.get("numRowsDroppedByWatermark", 0) for one in state),
        "dead": dead,
        "warned": warned,
        "failed": failed_in(told.get("observedMetrics", {})),
        "state_rows": sum(one.get("numRowsTotal", 0) for one in state),
        "state_bytes": sum(one.get("memoryUsedBytes", 0) for one in state),
        "duration_ms": told.get("durationMs", {}),
        "sources": [
            {
                "rows": one.get("numInputRows", 0),
                "begin": _offsets(one.get("startOffset")),
                "end": _offsets(one.get("endOffset")),
                "latest": _offsets(one.get("latestOffset")),
            }
            for one in told.get("sources", [])
        ],
    }


Counts = dict[str, dict[str, int]]


def counts_of(observed: Mapping[str, Mapping[str, Any]]) -> tuple[Counts, Counts]:
    """What the stages counted: rows that are dead, and rows that only broke a rule that warns."""
    dead: Counts = {}
    warned: Counts = {}
    for name, counts in observed.items():
        if name.startswith(FRESHNESS):
            continue
        stage = name.partition(":")[0]
        for said, count in counts.items():
            action, _, rule = said.partition(":")
            if count and said != _FAILED:
                (warned if action == "warn" else dead).setdefault(stage, {})[rule or action] = count
    return dead, warned


def failed_in(observed: Mapping[str, Mapping[str, Any]]) -> dict[str, list[dict[str, str]]]:
    """What the lookups of the stages could not answer, and what was said."""
    return {name: list(counts[_FAILED]) for name, counts in observed.items() if counts.get(_FAILED)}


def append(path: Path, record: dict[str, Any]) -> None:
    """Write a record as one line; a file that has grown large becomes the older one of two."""
    if path.exists() and path.stat().st_size > _LARGEST:
        path.replace(older(path))
    with path.open("a", encoding="utf-8") as out:
        out.write(json.dumps(record, separators=(",", ":")) + "\n")


def older(path: Path) -> Path:
    """Where the records before the newest file are."""
    return path.with_name("progress-older.jsonl")


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
