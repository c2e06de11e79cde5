"""Answers of the last while, no more than so many."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.pipeline.lookups.answer import Answer, Question

__all__ = ["Cache"]


class Cache:
    """Remembers answers for a time; the oldest makes room."""

    def __init__(self, seconds: float, entries: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._entries = entries
        self._clock = clock
        self._known: dict[Question, tuple[float, Answer]] = {}

    def get(self, question: Question) -> Answer | None:
        """The answer, None if there is none or it is too old."""
        until, answer = self._known.get(question, (0.0, None))
        return answer if answer is not None and self._clock() < until else None

    def put(self, question: Question, answer: Answer) -> None:
        """Remember an answer from now on."""
        self._known.pop(question, None)
        if len(self._known) >= self._entries:
            del self._known[next(iter(self._known))]
        self._known[question] = (self._clock() + self._seconds, answer)
