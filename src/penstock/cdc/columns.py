"""The columns of a captured table: how a value lies in Debezium's JSON, and what it is in a pipeline."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Column", "Known"]


@dataclass(frozen=True)
class Column:
    """A column by its name, its type in a pipeline (as DDL), and how it is written on the way.

    `written` is "" where JSON holds the value itself, else "days", "microseconds" (since 1970, of a clock without a
    zone) or "time" (microseconds of a day).
    """

    name: str
    kind: str
    written: str = ""
    key: bool = False

    @property
    def raw_kind(self) -> str:
        """Its type in JSON, as DDL."""
        return {"": self.kind, "days": "INT", "microseconds": "BIGINT", "time": "BIGINT"}[self.written]


@dataclass(frozen=True)
class Known:
    """What is known of a table: every column that it ever had, and the lists of columns that its rows may have.

    Once `tolerant`, rows that can't be read are dead letters: they were looked at, and the table is not the cause.
    """

    columns: tuple[Column, ...]
    shapes: tuple[tuple[str, ...], ...]
    tolerant: bool = False
