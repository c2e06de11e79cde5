"""What a capture needs of a database, whichever it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from penstock.cdc.capture import Capture, Table
    from penstock.cdc.columns import Column
    from penstock.settings import Settings

__all__ = ["Slot", "SourceDatabase", "open_database"]


@dataclass(frozen=True)
class Slot:
    """How far a capture is behind its database's log, and what that costs."""

    capture: str
    slot: str
    state: str
    confirmed: str | None
    behind_bytes: int | None
    held_bytes: int | None
    behind_seconds: float | None
    outlook: str


class SourceDatabase(ABC):
    """A connection to the database of a capture, with the rights that the capture has."""

    @abstractmethod
    def check(self, capture: Capture) -> None:
        """Refuse what would fail later: log settings, rights, unknown tables, tables without a key."""

    @abstractmethod
    def prepare(self, capture: Capture) -> None:
        """Make what the capture needs in the database; safe to repeat."""

    @abstractmethod
    def clean(self, capture: Capture) -> None:
        """Remove what `prepare` and the connector made; safe to repeat."""

    @abstractmethod
    def columns(self, table: Table) -> tuple[Column, ...]:
        """The columns of a table as they are now."""

    @abstractmethod
    def keys(self, table: Table, columns: Sequence[Column]) -> Iterable[tuple[Any, ...]]:
        """The keys of all rows of a table."""

    @abstractmethod
    def position(self) -> dict[str, Any]:
        """Where the database's log ends now, in the words of a change's source."""

    @abstractmethod
    def slot(self, capture: Capture) -> Slot:
        """Where the capture stands in the log."""

    @abstractmethod
    def close(self) -> None:
        """End the connection."""


@contextmanager
def open_database(capture: Capture, settings: Settings) -> Iterator[SourceDatabase]:
    """The database of a capture."""
    where = capture.database(settings)
    made: SourceDatabase
    if where.kind == "postgres":
        from penstock.cdc.postgres import PostgresDatabase

        made = PostgresDatabase(where)
    else:
        from penstock.cdc.mysql import MysqlDatabase

        made = MysqlDatabase(where)
    try:
        yield made
    finally:
        made.close()
