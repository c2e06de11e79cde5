"""How long work tells how far it is; what it looks like is the caller's business."""

from __future__ import annotations

from typing import Protocol

__all__ = ["Progress", "Silent"]


class Progress(Protocol):
    """A listener of long work."""

    def say(self, sentence: str) -> None:
        """Take one sentence that a person should keep."""

    def update(self, task: str, done: float, total: float, note: str = "") -> None:
        """Take how far a named task is; done == total ends it."""


class Silent:
    """A listener that keeps nothing."""

    def say(self, sentence: str) -> None:
        """Ignore."""

    def update(self, task: str, done: float, total: float, note: str = "") -> None:
        """Ignore."""
