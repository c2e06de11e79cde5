"""Durations as Spark writes them: `10 seconds`, `1 hour 30 minutes`."""

from __future__ import annotations

import re

__all__ = ["percentile", "seconds", "short"]

_UNITS = {"millisecond": 0.001, "second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86400.0, "week": 604800.0}
_LETTERS = {"millisecond": "ms", "second": "s", "minute": "m", "hour": "h", "day": "d", "week": "w"}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(millisecond|second|minute|hour|day|week)s?", re.IGNORECASE)


def seconds(text: str) -> float | None:
    """How many seconds a duration has, None if it is none."""
    left = _PART.sub("", text).strip()
    parts = _PART.findall(text)
    if left or not parts:
        return None
    return sum(float(number) * _UNITS[unit.lower()] for number, unit in parts)


def short(text: str) -> str:
    """A duration as part of a name: `24 hours` is `24h`, `1 hour 30 minutes` is `1h30m`."""
    return "".join(f"{number.replace('.', '_')}{_LETTERS[unit.lower()]}" for number, unit in _PART.findall(text))


def percentile(text: str) -> float | None:
    """The share that `p99` or `p99.9` stands for, None if it is no percentile."""
    match = re.fullmatch(r"p(\d{1,2}(?:\.\d+)?)", text)
    return float(match[1]) / 100 if match else None
