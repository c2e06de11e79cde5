"""What is known of batches whose record was never written."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from penstock.pipeline.checkpoint import committed_without_record

if TYPE_CHECKING:
    from pathlib import Path


def ended(checkpoint: Path, number: int, end: int | None) -> None:
    for folder in ("offsets", "commits"):
        (checkpoint / folder).mkdir(parents=True, exist_ok=True)
        path = checkpoint / folder / str(number)
        offset = json.dumps({"orders": {"0": end}}) if end is not None else "-"
        metadata = json.dumps({"batchWatermarkMs": number * 1000})
        path.write_text(f"v1\n{metadata}\n{offset}" if folder == "offsets" else "v1\n{}", encoding="utf-8")


def record(number: int, end: int) -> dict[str, Any]:
    return {"batch": number, "sources": [{"end": {"orders": {"0": end}}}]}


def test_a_batch_without_a_record_is_found_also_between_others(tmp_path: Path) -> None:
    for number in range(5):
        ended(tmp_path, number, number * 10 + 10)
    known = [record(0, 10), record(1, 20), record(3, 40)]
    found = committed_without_record(tmp_path, known, {"orders"})
    assert [(one["batch"], one["sources"][0]["begin"]["orders"]["0"]) for one in found] == [(2, 20), (4, 40)]
    assert found[0]["sources"][0]["end"] == {"orders": {"0": 30}}
    assert found[0]["watermark_before"] == "1970-01-01T00:00:01.000+00:00"


def test_a_first_batch_has_no_begin_and_a_gap_begins_at_what_is_known(tmp_path: Path) -> None:
    ended(tmp_path, 0, 10)
    ended(tmp_path, 7, 80)
    found = committed_without_record(tmp_path, [], set())
    assert [one["sources"][0]["begin"] for one in found] == [None, {"orders": {"0": 10}}]
    (last,) = committed_without_record(tmp_path, [record(0, 10), record(6, 70)], set())
    assert last["sources"][0]["begin"] == {"orders": {"0": 70}}
