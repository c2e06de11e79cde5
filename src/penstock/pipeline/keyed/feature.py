"""What is known of the rows of a key within a time: `ps.Count(over="1 hour")`, `ps.Total("amount", over="1 day")`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

__all__ = ["Count", "Distinct", "Feature", "Last", "Total"]

Over = str | Sequence[str]


@dataclass(frozen=True)
class Count:
    """How many rows; or how many that have a value in a column, if one is named."""

    column: str | None = None
    over: Over = field(kw_only=True)


@dataclass(frozen=True)
class Total:
    """The sum of a column: exact for whole numbers and decimals, rounded once for others; 0 if there is no value."""

    column: str
    over: Over = field(kw_only=True)


@dataclass(frozen=True)
class Distinct:
    """How many different values a column has, exactly."""

    column: str
    over: Over = field(kw_only=True)


@dataclass(frozen=True)
class Last:
    """The last values of a column, at most so many, the newest last."""

    column: str
    size: int
    over: Over = field(kw_only=True)


Feature = Count | Total | Distinct | Last
