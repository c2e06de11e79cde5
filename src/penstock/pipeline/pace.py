"""How many rows a batch may have, by how long earlier ones took."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.pipeline.progress import behind

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Pace"]

_SECONDS = 30.0  # what a batch should not take longer than
_TELLING_SECONDS = 5.0  # a shorter one says more about its start than about its rows
_FEWEST = 10_000


class Pace:
    """What the newest batch that could have had more rows tells of the next ones."""

    def __init__(self, known: Iterable[dict[str, Any]]) -> None:
        self.rows: int | None = None
        for record in known:
            self.heard(record)

    def heard(self, record: dict[str, Any]) -> None:
        """Take a batch's record; one that took all there was says nothing."""
        took = record["duration_ms"].get("triggerExecution", 0) / 1000
        if took >= _TELLING_SECONDS and record["rows"] and behind(record):
            self.rows = max(_FEWEST, round(record["rows"] / took * _SECONDS))
