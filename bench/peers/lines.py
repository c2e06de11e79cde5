"""How a bench talks with an engine: a line of JSON for each request, one for each answer."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["serve"]

_OUT = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)  # from here on: whatever a library prints, or Java, is not an answer


def serve(
    version: str,
    queries: list[str],
    run: Callable[[dict[str, Any]], float | None],
    begin: Callable[[dict[str, Any]], Callable[[], None]] | None = None,
) -> None:
    """Answer requests until stdin ends; `run` may say itself how many seconds it took.

    `begin` starts a query that goes on, and gives what stops it.
    """
    _say({"ready": True, "version": version, "queries": queries})
    stop: Callable[[], None] | None = None
    for line in sys.stdin:
        arrived = time.perf_counter()
        try:
            request = json.loads(line)
            if stop is not None and "stop" in request:
                stop()
                stop = None
                _say({"stopped": True})
            elif begin is not None and "live" in request:
                stop = begin(request)
                _say({"started": True})
            else:
                took = run(request)
                _say({"seconds": round(took if took is not None else time.perf_counter() - arrived, 3)})
        except Exception as error:  # noqa: BLE001 - the bench tells of it and goes on
            _say({"error": f"{type(error).__name__}: {error}".splitlines()[0][:500]})


def _say(told: dict[str, Any]) -> None:
    _OUT.write(json.dumps(told) + "\n")
    _OUT.flush()
