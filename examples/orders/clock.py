"""The shop's clock: it runs sixty times as fast as ours, so that a window of an hour passes in a minute."""

from __future__ import annotations

import itertools
import json
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

SPEED = 60


class Clock:
    """The shop's time and its next numbers; what it gave out is never given out again, also after a kill."""

    def __init__(self, path: Path) -> None:
        self._path = path
        told = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        self._base = datetime.fromtimestamp(told.get("time", time.time() - 30 * 86_400), UTC)
        self._began = time.monotonic()
        number: int = told.get("number", 1_000)
        self._numbers = itertools.count(number)
        self._keep(number)

    def now(self) -> datetime:
        """The shop's time; when it has caught up with ours it goes on with it."""
        return min(self._ahead(), datetime.now(UTC))

    @property
    def fast(self) -> bool:
        """Whether it still has to catch up with ours."""
        return self._ahead() < datetime.now(UTC)

    def _ahead(self) -> datetime:
        return self._base + timedelta(seconds=(time.monotonic() - self._began) * SPEED)

    def number(self) -> int:
        """The next number: of an order, a payment, an impression, a customer."""
        number = next(self._numbers)
        if time.monotonic() - self._kept > 1:
            self._keep(number)
        return number

    def _keep(self, number: int) -> None:
        """Note a place well ahead of all that is given out until the next note."""
        self._kept = time.monotonic()
        ahead = {"time": (self.now() + timedelta(seconds=5 * SPEED)).timestamp(), "number": number + 5_000}
        new = self._path.with_suffix(".new")
        new.write_text(json.dumps(ahead), encoding="utf-8")
        new.replace(self._path)
