"""Sinks whose rows have a key: the last row of a key counts, and a row may delete its key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.connectors.base import BatchSink
from penstock.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

__all__ = ["KeyedSink"]


class KeyedSink(BatchSink):
    """A sink with a `key`, one column or several, and a condition by which a row deletes."""

    key: str | tuple[str, ...] | None
    delete: str | None

    @property
    def keys(self) -> tuple[str, ...]:
        """The key columns."""
        return (self.key,) if isinstance(self.key, str) else tuple(self.key or ())

    def takes_changes(self) -> bool:
        """Only by a key."""
        return bool(self.keys)

    def problems(self) -> Iterator[tuple[str, str]]:
        """Deletes without a key."""
        if self.delete and not self.keys:
            yield "A row can only be deleted by a key.", "Name it: key='id'."

    def check_key(self, rows: DataFrame) -> None:
        """Every key column is there, and the condition is one."""
        if missing := set(self.keys) - set(rows.columns):
            raise DeclarationError(
                f"The key column {sorted(missing)[0]!r} is not in the flow.",
                code="key-missing",
                remedy="Name one of its columns.",
            )
        if self.delete:
            rows.filter(self.delete)
