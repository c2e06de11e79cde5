"""What Spark's checkpoint says about the batches that were committed."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["committed_without_record", "watermark_of", "with_logs"]


def committed_without_record(checkpoint: Path, known: list[dict[str, Any]], stages: set[str]) -> list[dict[str, Any]]:
    """Batches that ended while nobody wrote their record: their offsets, and that any stage may have dead rows."""
    ends = {one["batch"]: [source["end"] for source in one["sources"]] for one in known}
    return [
        {
            "batch": number,
            "dead": {stage: {"unknown": 1} for stage in stages},
            "late": 1,
            "watermark_before": _watermark(checkpoint, number - 1),
            "sources": _ranges(checkpoint, number, ends),
        }
        for number in sorted(_numbers(checkpoint / "commits") - set(ends))
    ]


def watermark_of(checkpoint: Path) -> str | None:
    """The watermark of the last batch that was committed."""
    commits = _numbers(checkpoint / "commits")
    return _watermark(checkpoint, max(commits)) if commits else None


def _watermark(checkpoint: Path, number: int) -> str | None:
    path = checkpoint / "offsets" / str(number)
    if not path.exists():
        return None
    milliseconds = json.loads(path.read_text(encoding="utf-8").splitlines()[1])["batchWatermarkMs"]
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")


def _ranges(checkpoint: Path, number: int, ends: dict[int, list[Any]]) -> list[dict[str, Any]]:
    """Where a batch begins and ends; not every batch before it needs to have left its offsets."""
    end = _offsets(checkpoint, number)
    before = max((one for one in _numbers(checkpoint / "offsets") | set(ends) if one < number), default=-1)
    begin = ends.get(before) or _offsets(checkpoint, before) or [None] * len(end)
    return [{"begin": one, "end": other} for one, other in zip(begin, end, strict=True)]


def _numbers(folder: Path) -> set[int]:
    return {int(path.name) for path in folder.glob("[0-9]*")}


def _offsets(checkpoint: Path, number: int) -> list[Any]:
    path = checkpoint / "offsets" / str(number)
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()[2:]
    return [None if line == "-" else json.loads(line) for line in lines]


def with_logs(record: dict[str, Any], checkpoint: Path) -> dict[str, Any]:
    """The record with the folder in which Spark notes more about each source."""
    logs = (str(checkpoint / "sources" / str(number)) for number in range(len(record["sources"])))
    return {**record, "sources": [{**one, "log": log} for one, log in zip(record["sources"], logs, strict=False)]}
