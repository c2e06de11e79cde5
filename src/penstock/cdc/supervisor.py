"""Captures that fail are started again, ever later; one whose log is lost is told of and left alone."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.cdc.captures import Captures
from penstock.errors import PenstockError, StateError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.cdc.capture import Capture
    from penstock.settings import Settings

__all__ = ["Supervisor"]

_LOOK_SECONDS = 2.0
_LONGEST_WAIT = 60.0
_WELL_AFTER = 120.0  # so long without a failure, and the next one is the first again


@dataclass
class _Watched:
    capture: Capture
    wait: float = 1.0
    due: float = 0.0
    failed_at: float = 0.0
    said: str = ""


class Supervisor:
    """Looks after some captures until it is stopped; what happens is told once."""

    def __init__(self, settings: Settings, captures: Sequence[Capture], say: Callable[[dict[str, Any]], None]) -> None:
        self._settings = settings
        self._watched = [_Watched(one) for one in captures]
        self._say = say
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Look after them in the background."""
        self._thread = threading.Thread(target=self.run, name="penstock-captures", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End it."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(timeout=10.0)

    def run(self) -> None:
        """Look after them here, until `stop` or Ctrl-C."""
        with Captures(self._settings) as captures:
            while True:
                for one in self._watched:
                    try:
                        self._look(captures, one)
                    except PenstockError as error:  # Connect or the database is away: another time
                        self._tell(one, str(error))
                if self._over.wait(_LOOK_SECONDS):
                    return

    def _look(self, captures: Captures, one: _Watched) -> None:
        status = captures.status(one.capture)
        now = time.monotonic()
        if status.state != "failed":
            if now - one.failed_at > _WELL_AFTER:
                one.wait, one.due = 1.0, 0.0
            self._tell(one, status.state)
            return
        if one.due == 0.0:
            one.failed_at, one.due = now, now + one.wait
            self._tell(one, f"failed: {status.said} It is started again in {one.wait:g} s.")
        elif now >= one.due:
            one.wait, one.due = min(one.wait * 2, _LONGEST_WAIT), 0.0
            try:
                captures.restart(one.capture)
            except StateError as error:
                one.due = now + _LONGEST_WAIT
                self._tell(one, str(error))

    def _tell(self, one: _Watched, said: str) -> None:
        if said != one.said:
            one.said = said
            self._say({"capture": one.capture.name, "said": said})
