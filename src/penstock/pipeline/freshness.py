"""How old a captured change is when it arrives, hop by hop: database, Debezium, broker, batch, sink."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["FRESHNESS", "freshness_of", "worst"]

FRESHNESS = "freshness of "


def freshness_of(observed: Mapping[str, Mapping[str, Any]], begun: float, ended: float) -> dict[str, dict[str, Any]]:
    """Milliseconds as p50 and p99 of each hop and in all, by source, for a batch that began and ended then."""
    found = {}
    for name, told in observed.items():
        if not name.startswith(FRESHNESS) or not told.get("committed"):
            continue
        arrived, committed = told["arrived"], told["committed"]
        found[name.removeprefix(FRESHNESS)] = {
            "capture_ms": told["capture"],
            "broker_ms": told["broker"],
            "batch_ms": [round(begun * 1000 - at) for at in arrived],
            "sink_ms": [round((ended - begun) * 1000)] * 2,
            "total_ms": [round(ended * 1000 - at) for at in committed],
        }
    return found


def worst(record: Mapping[str, Any]) -> list[int] | None:
    """The p50 and p99 of the source that is behind most."""
    totals = [one["total_ms"] for one in record.get("freshness", {}).values()]
    return max(totals, key=lambda total: total[1]) if totals else None
