"""Event time of a stream that is silent: it goes on by the clock, from the newest time that any row had."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from penstock.pipeline.durations import seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.pipeline.declare import Source

__all__ = ["IdleClock"]


class IdleClock:
    """When the sources of one query last gave rows, and what time it is for those that are silent."""

    def __init__(self, sources: list[Source], known: list[dict[str, Any]]) -> None:
        last = next((one for one in reversed(known) if one.get("newest")), None)
        self._idle = {one.name: seconds(one.time.idle) or 0.0 for one in sources if one.time and one.time.idle}
        self._seen = dict.fromkeys(self._idle, time.time())
        self._newest: tuple[datetime, float] | None = None
        self._busy = True
        if last is not None:
            self._newest = (_moment(last["newest"]), time.time())

    @property
    def watches(self) -> bool:
        """Whether any source asks for it."""
        return bool(self._idle)

    def heard(self, record: dict[str, Any], names: dict[str, int]) -> None:
        """Take a batch's record; `names` says how many rows each source gave."""
        now = time.time()
        for name, rows in names.items():
            if rows and name in self._seen:
                self._seen[name] = now
        if any(names.values()) and record["newest"]:
            newest = _moment(record["newest"])
            if self._newest is None or newest > self._time(now):
                self._newest = (newest, now)
        self._busy = record["state_rows"] > 0

    def due(self) -> Iterator[tuple[str, datetime]]:
        """The sources whose time must be moved now, while anything waits for it."""
        now = time.time()
        if self._newest is None or not self._busy:
            return
        for name, idle in self._idle.items():
            if now - self._seen[name] >= idle:
                self._seen[name] = now
                yield name, self._time(now)

    def _time(self, now: float) -> datetime:
        assert self._newest is not None
        newest, at = self._newest
        return newest + timedelta(seconds=now - at)


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)
