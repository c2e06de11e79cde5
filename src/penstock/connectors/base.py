"""What a source and a sink are, and what the pipeline tells them.

A source gives its decoded columns and two reserved ones: `__bad` says why a row could not be decoded (null if it
could), `__origin` says where it came from. The pipeline takes both off again before a user's function sees the row.

What a sink promises is in its type: a `BestEffortSink` is written by Spark itself and may get rows again after a
failure, an `IdempotentSink` may get a batch again and it changes nothing, a `TransactionalSink` takes a batch and the
mark that it was taken in one step.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from pathlib import Path

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter

    from penstock.connectors.writing import MarkedWriter, Opening, Writer
    from penstock.registry.contract import Rule
    from penstock.settings import Settings

__all__ = [
    "BAD",
    "EXACT",
    "GUARANTEES",
    "ORIGIN",
    "BatchSink",
    "BestEffortSink",
    "Connector",
    "Context",
    "IdempotentSink",
    "MessageSink",
    "SinkConnector",
    "SourceConnector",
    "TableConnector",
    "TransactionalSink",
    "good_or_raise",
    "quoted",
]

BAD = "__bad"
ORIGIN = "__origin"
# As options of to_json: Spark's own formats would cut a time to milliseconds.
EXACT = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
GUARANTEES = ("at-most-once", "at-least-once", "exactly-once")


@dataclass(frozen=True)
class Context:
    """Where a connector works: the session, the settings, and what is known of the run.

    `realtime`: no row may wait for others. `state`: a folder of the run. `pace`: how many rows a batch may have, as
    far as it was measured.
    """

    spark: SparkSession
    settings: Settings
    realtime: bool = False
    state: Path | None = None
    pace: int | None = None

    def rows_of_batch(self, most: int) -> int:
        """How many rows a batch may have if nobody says it."""
        return min(most, self.pace or most)


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

    def narrowed(self, columns: Collection[str], context: Context) -> SourceConnector:
        """One that decodes these of its columns only, if that is less work; the others are not looked at."""
        return self

    def columns(self, context: Context) -> str:
        """The columns that a user's function sees, as DDL."""
        return str(self.stream(context).drop(BAD, ORIGIN)._jdf.schema().toDDL())

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

    def rules(self, context: Context, rows: DataFrame) -> list[tuple[str, Column, Column]]:
        """What its rows must be by their contract: a rule's name, whether a row breaks it, what to say."""
        return []

    def unique(self, context: Context) -> list[Rule]:
        """What must be unique within a time by the contract of its rows."""
        return []

    def freshness(self) -> list[Column]:
        """How old its rows are: p50 and p99 of `capture` and `broker`, p50 and p1 of `arrived` and `committed`."""
        return []

    def partitions(self, context: Context) -> int:
        """How many parts are read side by side: a real-time query needs a task for each."""
        return 1


class TableConnector(SourceConnector):
    """A source that can be looked up as well."""

    @abstractmethod
    def table(self, context: Context) -> DataFrame:
        """All rows as they are now, without the reserved columns."""

    def table_columns(self, context: Context) -> str:
        """The columns of those rows, as DDL."""
        return self.columns(context)


class SinkConnector(Connector):
    """Something to write a stream to; `guarantee` is the most that it can give."""

    guarantee: ClassVar[str]
    sentence: ClassVar[str]
    lasting: ClassVar[bool] = True
    exclusive: ClassVar[bool] = True
    realtime: ClassVar[bool] = False

    def honestly(self) -> str:
        """What a reader sees, in a sentence."""
        return self.sentence

    def takes_changes(self) -> bool:
        """Whether a row may come again with another content, as with emit="changes"."""
        return True

    @abstractmethod
    def check(self, rows: DataFrame, context: Context) -> None:
        """Raise if rows of these columns can't be written."""

    def prepare(self, rows: Callable[[], DataFrame], context: Context) -> None:
        """Do what must be done before the first row comes; `rows` tells the columns to who needs them."""
        return


class BestEffortSink(SinkConnector):
    """Written by Spark's own writer, in a query of its own."""

    guarantee: ClassVar[str] = "at-least-once"
    sentence: ClassVar[str] = "every row appears; after a failure some may appear again"

    def query_name(self, usual: str) -> str:
        """The name that its Spark query must have."""
        return usual

    @abstractmethod
    def write(self, rows: DataFrame, context: Context) -> DataStreamWriter:
        """A writer for these rows, without trigger, checkpoint and name."""

    def check(self, rows: DataFrame, context: Context) -> None:
        """Spark says it as soon as the writer is made."""
        self.write(rows, context)


class BatchSink(SinkConnector):
    """Written batch by batch; a query may have several."""

    guarantee: ClassVar[str] = "exactly-once"

    def together(self) -> str:
        """Sinks of one query that give the same answer are written by one writer, in one step."""
        return self.target()

    def beside(self, unique: str) -> BatchSink | None:
        """The same sink under another name, to be built anew there; None if none can take its place later."""
        return None

    @abstractmethod
    def open(self, opening: Opening) -> Writer:
        """A writer for one query and all sinks that are written together."""


class IdempotentSink(BatchSink):
    """Rows that come again change nothing."""


class TransactionalSink(BatchSink):
    """Rows and the mark that they were taken become visible in one step."""

    @abstractmethod
    def open(self, opening: Opening) -> MarkedWriter:
        """A writer that marks what it has written."""


class MessageSink(SinkConnector):
    """A sink whose rows are keys and values of a topic; late rows can go there."""

    @property
    @abstractmethod
    def sole_topic(self) -> str:
        """The topic that it writes."""

    @abstractmethod
    def open_topic(self, context: Context) -> None:
        """Make the topic, unless it is there."""

    @abstractmethod
    def encoded(self, rows: DataFrame, context: Context) -> DataFrame:
        """The rows as `key` (if it has one) and `value`."""


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
