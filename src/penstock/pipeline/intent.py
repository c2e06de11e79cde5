"""At most once: what is about to be written is noted first, and what was noted is not written again."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Intent"]


class Intent:
    """The last batch that was begun for a sink, and whether it was ended."""

    def __init__(self, folder: Path, name: str) -> None:
        self._path = folder / re.sub(r"[^A-Za-z0-9._-]+", "-", name)

    def is_new(self, batch: int) -> bool:
        """Whether a batch was never begun."""
        return self._noted()[0] < batch

    def is_doubtful(self, batch: int) -> bool:
        """Whether a batch was begun and nobody knows how it ended."""
        return self._noted() == (batch, "begun")

    def note(self, batch: int, what: str) -> None:
        """Note, on disk, that a batch is `begun` or `ended`."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._path.with_suffix(".new")
        with fresh.open("w", encoding="utf-8") as out:
            out.write(f"{batch} {what}")
            out.flush()
            os.fsync(out.fileno())
        fresh.replace(self._path)

    def _noted(self) -> tuple[int, str]:
        if not self._path.exists():
            return -1, "ended"
        number, _, what = self._path.read_text(encoding="utf-8").partition(" ")
        return int(number), what
