"""What a source and a sink are, and what the pipeline tells them.

A source gives its decoded columns and two reserved ones: `__bad` says why a row could not be decoded (null if it
could), `__origin` says where it came from. The pipeline takes both off again before a user's function sees the row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter

    from penstock.settings import Settings

__all__ = [
    "BAD",
    "GUARANTEES",
    "ORIGIN",
    "Connector",
    "Context",
    "SinkConnector",
    "SourceConnector",
    "good_or_raise",
    "quoted",
]

BAD = "__bad"
ORIGIN = "__origin"
GUARANTEES = ("at-most-once", "at-least-once", "exactly-once")


@dataclass(frozen=True)
class Context:
    """Where a connector works: the session, the settings, and whether no row may wait for others."""

    spark: SparkSession
    settings: Settings
    realtime: bool = False


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

    is_table: ClassVar[bool] = False

    @abstractmethod
    def stream(self, context: Context) -> DataFrame:
        """The stream, decoded, with the reserved columns."""

    def columns(self, context: Context) -> str:
        """The columns that a user's function sees, as DDL."""
        return str(self.stream(context).drop(BAD, ORIGIN)._jdf.schema().toDDL())

    def table(self, context: Context) -> DataFrame:
        """All rows as they are now, without the reserved columns; only of connectors with `is_table`."""
        raise NotImplementedError(f"{self.system} is no table")

    def reads(self, target: str) -> bool:
        """Whether what is written to that target would come in here."""
        return target == self.target()

    def recognises(self, told: Mapping[str, Any]) -> bool:
        """Whether the `begin` and `end` that a batch has, and the `log` folder of its source, are of this one."""
        return False

    def replay(self, context: Context, told: Mapping[str, Any]) -> DataFrame | None:
        """The rows of one past batch once more, or None if this source can't give them again."""
        return None

    def newest(self, context: Context, rows: int) -> DataFrame | None:
        """About so many of the newest rows, to learn from; None if this source can't give them."""
        return None

    def partitions(self, context: Context) -> int:
        """How many parts are read side by side: a real-time query needs a task for each."""
        return 1


class SinkConnector(Connector):
    """Something to write a stream to."""

    guarantee: ClassVar[str]
    updates: ClassVar[bool] = True
    lasting: ClassVar[bool] = True
    exclusive: ClassVar[bool] = True
    shared: ClassVar[bool] = False
    realtime: ClassVar[bool] = False
    takes_late: ClassVar[bool] = False

    def query_name(self, usual: str) -> str:
        """The name that its Spark query must have."""
        return usual

    @abstractmethod
    def write(self, rows: DataFrame, context: Context) -> DataStreamWriter:
        """A writer for these rows, without trigger, checkpoint and name."""

    def write_batch(self, rows: DataFrame, number: int, context: Context) -> None:
        """Write the rows of one batch; only of connectors that are `shared`: their query may have other sinks too."""
        raise NotImplementedError(f"{self.system} has its own query")

    def encoded(self, rows: DataFrame) -> DataFrame:
        """The rows as `key` and `value`; only of connectors with `takes_late`."""
        raise NotImplementedError(f"{self.system} has no keys and values")


def quoted(names: Iterable[str]) -> list[Column]:
    """Columns by their exact names, whatever stands in them."""
    from pyspark.sql import functions as F  # noqa: N812

    return [F.col(f"`{name.replace('`', '``')}`") for name in names]


def good_or_raise(rows: DataFrame, where: Column) -> DataFrame:
    """The rows of a table without the reserved columns; whoever looks at a value of a bad one is told where it is."""
    from pyspark.sql import functions as F  # noqa: N812

    said = F.raise_error(F.concat(F.lit("a row of a table can't be decoded: "), where, F.lit(": "), F.col(BAD)))
    good = F.col(BAD).isNull()
    shown = [one for one in rows.schema.fields if one.name not in (BAD, ORIGIN)]
    # In every column, not in a filter: Spark would first leave out the rows without a key, and a bad row has none.
    return rows.select(
        *(F.when(good, quoted([one.name])[0]).otherwise(said.cast(one.dataType)).alias(one.name) for one in shown)
    )
