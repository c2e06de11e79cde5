"""What Spark's checkpoint says about the batches that were committed."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "batch_record",
    "committed_without_record",
    "digest_of",
    "kafka_ends",
    "last_batch",
    "query_id",
    "watermark_of",
    "with_logs",
]


def committed_without_record(checkpoint: Path, known: list[dict[str, Any]], stages: set[str]) -> list[dict[str, Any]]:
    """Batches that ended while nobody wrote their record: their offsets, and that any stage may have dead rows."""
    ends = {one["batch"]: [source["end"] for source in one["sources"]] for one in known}
    maybe = {"dead": {stage: {"unknown": 1} for stage in stages}, "late": 1}
    unknown = sorted(_numbers(checkpoint / "commits") - set(ends))
    return [{**batch_record(checkpoint, number, ends), **maybe} for number in unknown]


def batch_record(checkpoint: Path, number: int, ends: dict[int, list[Any]] | None = None) -> dict[str, Any]:
    """What the checkpoint says of a batch: where it begins and ends in each source, and the watermark before it."""
    record = {
        "batch": number,
        "watermark_before": _watermark(checkpoint, number - 1),
        "sources": _ranges(checkpoint, number, ends or {}),
    }
    return with_logs(record, checkpoint)


def digest_of(record: dict[str, Any]) -> str:
    """A batch's input in a word: the same input, the same word."""
    ranges = [[one["begin"], one["end"]] for one in record["sources"]]
    return hashlib.sha256(json.dumps(ranges, sort_keys=True).encode()).hexdigest()[:15]


def kafka_ends(record: dict[str, Any]) -> dict[str, dict[str, int]]:
    """Up to where a batch has read each Kafka topic."""
    ends = [one["end"] for one in record["sources"] if isinstance(one["end"], dict)]
    return {name: parts for one in ends for name, parts in one.items() if isinstance(parts, dict)}


def query_id(checkpoint: Path) -> str:
    """The id that Spark has noted: marks are kept by it, never by a name alone."""
    return str(json.loads((checkpoint / "metadata").read_text(encoding="utf-8"))["id"])


def last_batch(checkpoint: Path) -> int | None:
    """The last batch that was committed."""
    return max(_numbers(checkpoint / "commits"), default=None)


def watermark_of(checkpoint: Path) -> str | None:
    """The watermark of the last batch that was committed."""
    last = last_batch(checkpoint)
    return None if last is None else _watermark(checkpoint, last)


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
