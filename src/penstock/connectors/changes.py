"""Changes of a captured table, as a stream and as the table of current rows."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.cdc.capture import Capture, Table, find_capture
from penstock.connectors.base import ORIGIN, Context, TableConnector
from penstock.connectors.change_rows import ChangeRows
from penstock.connectors.kafka import Kafka
from penstock.connectors.table_columns import adapt_columns, known_columns
from penstock.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import Column, DataFrame

    from penstock.connectors.live_table import LiveTable
    from penstock.settings import Settings

__all__ = ["Changes"]

_MOST_ROWS = 500_000  # of a batch
_NAME = re.compile(r"[^.\s]+\.[^.\s]+\.[^.\s]+")


@dataclass(frozen=True)
class Changes(TableConnector):
    """A captured table by the name of its topic: `ps.Changes("shop.public.customers")`.

    As a source, one row per change: `op` (insert, update, delete; read for a row of a snapshot), `before` and `after`
    (structs of the table's columns), `key`, `position` in the database's log, `transaction`, `committed_at`,
    `captured_at`. As a table, its current rows, kept fresh while the pipeline runs. `capture` is for one that is
    declared in Python; others are found in penstock.toml. `rows_per_batch`, if not given, is at most 500,000, and at a
    start no more than what the query was seen to do in half a minute. A table with `history` has every version of its
    rows that the topic has, with `valid_from` and `valid_to`, for `ps.as_of`.
    """

    name: str
    capture: Capture | None = None
    start: str = "earliest"
    rows_per_batch: int | None = None
    metadata: str | None = None
    history: bool = False

    system: ClassVar = "changes"
    summary: ClassVar = "Changes of a table in PostgreSQL, MySQL or MariaDB, captured by Debezium."

    def target(self) -> str:
        """The topic of the table."""
        return f"kafka:{self.name}"

    def problems(self) -> Iterator[tuple[str, str]]:
        """Names that are none, a capture of another name."""
        if not _NAME.fullmatch(self.name):
            yield f"{self.name!r} is not a captured table.", "Write capture.schema.table, as its topic is called."
        elif self.capture is not None and self.capture.name != self.name.split(".")[0]:
            yield (
                f"{self.name!r} is not of capture {self.capture.name!r}.",
                f"Write '{self.capture.name}.schema.table'.",
            )
        yield from Kafka(self.name, start=self.start, rows_per_batch=self.rows_per_batch).problems()

    def found(self, settings: Settings) -> tuple[Capture, Table]:
        """The capture and the table in it."""
        name, schema, table = self.name.split(".")
        capture = self.capture or find_capture(settings, name)
        if f"{schema}.{table}" not in capture.declared.tables:
            raise DeclarationError(
                f"Capture {name!r} has no table {schema}.{table}.",
                code="table-unknown",
                remedy=f"It has {', '.join(capture.declared.tables)}: add it there, then `penstock cdc create {name}`.",
            )
        return capture, Table(schema, table)

    def stream(self, context: Context) -> DataFrame:
        """The changes as they come."""
        return self._topic(context).stream(context)

    def table(self, context: Context) -> DataFrame:
        """The current rows; while nothing runs only their columns."""
        from pyspark.sql.types import StructType

        from penstock.connectors.live_table import VALID_FROM, VALID_TO, history_frame, table_frame

        schema = self._topic(context).stream(context).schema["after"].dataType
        assert isinstance(schema, StructType)
        if context.state is None:
            columns = StructType([*schema.fields])
            for name in (VALID_FROM, VALID_TO) if self.history else ():
                columns = columns.add(name, "timestamp")
            return context.spark.createDataFrame([], columns)
        made = history_frame if self.history else table_frame
        return made(context, self._folder(context.state), schema)

    def table_columns(self, context: Context) -> str:
        """Those of the captured table, not those of its changes."""
        return str(self.table(context)._jdf.schema().toDDL())

    def kept(self, context: Context) -> LiveTable:
        """The files of the current rows, in the folder of a run."""
        from penstock.connectors.live_table import LiveTable

        assert context.state is not None
        folder = self._folder(context.state)
        folder.mkdir(parents=True, exist_ok=True)
        return LiveTable(folder, self._topic(context), context, history=self.history)

    def recognises(self, told: Mapping[str, Any]) -> bool:
        """Kafka's offsets name their topics."""
        return Kafka(self.name).recognises(told)

    def reads(self, target: str) -> bool:
        """Whether that is our topic."""
        return target == self.target()

    def replay(self, context: Context, told: Mapping[str, Any]) -> DataFrame:
        """Exactly the changes between two sets of offsets."""
        return self._topic(context).replay(context, told)

    def newest(self, context: Context, rows: int) -> DataFrame | None:
        """The last changes of each partition."""
        return self._topic(context).newest(context, rows)

    def freshness(self) -> list[Column]:
        """By the times of the database, of Debezium and of the broker; rows of a snapshot are of no age."""
        from pyspark.sql import functions as F  # noqa: N812

        live = F.col("op") != "read"
        committed, captured = F.unix_micros("committed_at") / 1000, F.unix_micros("captured_at") / 1000
        arrived = F.unix_micros(f"{ORIGIN}.timestamp") / 1000

        def parts(value: Column, second: float) -> Column:
            return F.percentile_approx(F.when(live, value).cast("long"), [0.5, second], 200)

        return [
            parts(captured - committed, 0.99).alias("capture"),
            parts(arrived - captured, 0.99).alias("broker"),
            parts(arrived, 0.01).alias("arrived"),
            parts(committed, 0.01).alias("committed"),
        ]

    def partitions(self, context: Context) -> int:
        """The partitions of the topic."""
        return Kafka(self.name).partitions(context)

    def adapt(self, context: Context, seen: Sequence[str]) -> list[str]:
        """Take over what changed in the table since its columns were learnt, in words."""
        return adapt_columns(*self.found(context.settings), context.settings, seen)

    def _folder(self, state: Path) -> Path:
        return state / "tables" / (f"{self.name}-history" if self.history else self.name)

    def _topic(self, context: Context) -> Kafka:
        capture, table = self.found(context.settings)
        known = known_columns(capture, table, context.settings)
        rows = ChangeRows(self.name, known, careful=capture.declared.schema_changes != "ignore")
        limit = self.rows_per_batch or context.rows_of_batch(_MOST_ROWS)
        return Kafka(self.name, rows, start=self.start, rows_per_batch=limit, metadata=self.metadata)
