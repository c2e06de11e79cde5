"""What Spark prints, without what it says at every start whatever happens."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["without_chatter"]

_CHATTER = (
    b"WARNING: Using incubator modules: jdk.incubator.vector",
    b"Starting Streaming TransformWithState",
    b"Streaming TransformWithState",
)
_ERRORS = 2


@contextmanager
def without_chatter() -> Iterator[None]:
    """What a process that is started meanwhile, and its own ones, write to stderr goes through here for good."""
    ours = os.dup(_ERRORS)
    read, write = os.pipe()
    os.dup2(write, _ERRORS)
    os.close(write)
    threading.Thread(target=_pass_on, args=(read, ours), name="stderr-of-spark", daemon=True).start()
    try:
        yield
    finally:
        os.dup2(ours, _ERRORS)


def _pass_on(read: int, ours: int) -> None:
    """Line by line; an empty one after chatter is part of it."""
    dropped = False
    with os.fdopen(read, "rb") as lines, os.fdopen(ours, "wb", buffering=0) as out:
        for line in lines:
            dropped = line.startswith(_CHATTER) or (dropped and not line.strip())
            if not dropped:
                out.write(line)
