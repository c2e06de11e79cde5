"""How soon an engine is at the newest rows again after it stood still, by a signal that stops all its processes."""

from __future__ import annotations

import json
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

from bench.nexmark.latency import reader, running

if TYPE_CHECKING:
    from bench.nexmark.engines import Engine
    from penstock.settings import Settings

__all__ = ["catch_up"]

_CAUGHT_UP_MS = 1000.0  # a row that took less is a new one
_LONGEST = 300.0


def catch_up(engine: Engine, settings: Settings, rate: int, outage: float, warm: float = 20.0, **more: Any) -> float:
    """The seconds from its awakening until rows come through as soon as before."""
    with running(engine, settings, "stateless", rate, **more) as sink:
        client = reader(settings, sink)
        waker = threading.Timer(warm + outage, engine.signal, [signal.SIGCONT])
        threading.Timer(warm, engine.signal, [signal.SIGSTOP]).start()
        awake = time.monotonic() + warm + outage
        waker.start()
        try:
            while (now := time.monotonic()) < awake + _LONGEST:
                messages = [one for one in client.consume(5000, 0.05) if one.error() is None]
                if messages and now > awake:
                    newest = max(json.loads(one.value() or b"")["price"] / 1e6 for one in messages)
                    if newest > awake and (time.monotonic() - newest) * 1000 < _CAUGHT_UP_MS:
                        return round(time.monotonic() - awake, 2)
            raise RuntimeError(f"{engine.name} did not catch up within {_LONGEST:.0f} s")
        finally:
            waker.join()
            client.close()
