"""What a source and a sink are, and what the pipeline tells them.

A source gives its decoded columns and two reserved ones: `__bad` says why a row could not be decoded (null if it
could), `__origin` says where it came from. The pipeline takes both off again before a user's function sees the row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter

    from penstock.settings import Settings

__all__ = ["BAD", "GUARANTEES", "ORIGIN", "Connector", "Context", "SinkConnector", "SourceConnector"]

BAD = "__bad"
ORIGIN = "__origin"
GUARANTEES = ("at-most-once", "at-least-once", "exactly-once")


@dataclass(frozen=True)
class Context:
    """Where a connector works: the session and the settings."""

    spark: SparkSession
    settings: Settings


class Connector(ABC):
    """One outside system, described by its own fields."""

    system: ClassVar[str]
    summary: ClassVar[str]

    def problems(self) -> Iterator[tuple[str, str]]:
        """What is wrong with the options, each with its remedy; found without Spark."""
        yield from ()

    @abstractmethod
    def target(self) -> str:
        """What it reads or writes, in a word: two sinks of one target are refused."""


class SourceConnector(Connector):
    """Something to read as a stream."""

    @abstractmethod
    def stream(self, context: Context) -> DataFrame:
        """The stream, decoded, with the reserved columns."""

    def settled(self, rows: DataFrame, time: str | None) -> DataFrame:
        """The rows once their time is set: the place to take out what only moves the time."""
        return rows

    def recognises(self, told: dict[str, Any]) -> bool:
        """Whether what Spark tells of a source in a batch is told of this one."""
        return False

    def replay(self, context: Context, begin: Any, end: Any) -> DataFrame | None:
        """The rows of one past batch once more, or None if this source can't give them again."""
        return None


class SinkConnector(Connector):
    """Something to write a stream to."""

    guarantee: ClassVar[str]
    updates: ClassVar[bool] = True

    def query_name(self, usual: str) -> str:
        """The name that its Spark query must have."""
        return usual

    @abstractmethod
    def write(self, rows: DataFrame, context: Context) -> DataStreamWriter:
        """A writer for these rows, without trigger, checkpoint and name."""
