"""A process on Spark's transformWithState: one state per key, read and written once a batch."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql import Row
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming import StatefulProcessor
from pyspark.sql.types import ArrayType, MapType, StructType

from penstock.connectors.base import EXACT, ORIGIN, quoted
from penstock.errors import DeclarationError
from penstock.pipeline.keyed.kinds import Struct, kind_of
from penstock.pipeline.keyed.process import RAISED, Process
from penstock.pipeline.operators.event_time import event_time_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import TypeAlias

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming import StatefulProcessorHandle
    from pyspark.sql.types import DataType

    from penstock.pipeline.keyed.declared import Declared
    from penstock.pipeline.keyed.process import Turn, Turns, Waiting

    Read: TypeAlias = Callable[[str], dict[str, Any]]

__all__ = ["OUTPUT", "ROW", "given_out", "processed", "raised_rows", "row_columns", "row_reader", "turns", "whole_row"]

OUTPUT = "__output"
_MICROS = "__micros"
ROW = "__row"
_OUT = Row(OUTPUT, ROW)
_STATE = "memory STRING, waiting STRING, wakes BIGINT"
_WHOLE = {**EXACT, "ignoreNullFields": "false"}
_PLACE = ("topic", "partition", "offset")


def processed(rows: DataFrame, table: DataFrame | None, declared: Declared) -> DataFrame:
    """What a process gives out for rows: the name of the output, and the row as text; a table is where it begins."""
    shown = rows.drop(ORIGIN)
    make = partial(_process, declared, row_columns(shown))
    text, first = whole_row(shown), None
    if ORIGIN in rows.columns and set(_PLACE) <= set(rows.schema[ORIGIN].dataType.names):  # type: ignore[attr-defined]
        # In front, and of one length, so that rows of one time come in the order in which they came in.
        topic, partition, offset = (F.col(f"{ORIGIN}.{name}").cast("string") for name in _PLACE)
        text = F.concat_ws("\t", topic, F.lpad(partition, 10, "0"), F.lpad(offset, 20, "0"), text)
    if table is not None:
        name = event_time_of(rows, "keyed") if declared.clock == "event" else ""
        first = _first(table, rows, declared.by, name if name in table.columns else None)
    return turns(rows, text, declared.by, make, "its states", clock=declared.clock, first=first)


def _first(
    table: DataFrame, rows: DataFrame, by: Sequence[str], time: str | None
) -> tuple[DataFrame, Callable[[], Read]]:
    """A table as the beginning of a process's state: key, time and text of each row, and how to read it."""
    for name in by:
        kind = rows.schema[name].dataType
        if name not in table.columns or table.schema[name].dataType != kind:
            raise DeclarationError(
                f"The table that on_initial names has no column {name} of type {kind.simpleString()}.",
                code="key-missing",
                remedy="A process begins with a table that has the same key columns.",
            )
    at = F.unix_micros(F.col(time)) if time else F.lit(None).cast("long")
    return table.select(*quoted(by), at.alias(_MICROS), whole_row(table).alias(ROW)), partial(
        row_reader, row_columns(table)
    )


def turns(
    rows: DataFrame,
    text: Column,
    by: Sequence[str],
    make: Callable[[], Turns],
    keeps: str,
    *,
    clock: str = "event",
    first: tuple[DataFrame, Callable[[], Read]] | None = None,
) -> DataFrame:
    """What is given out for rows, each told as a text; what is kept names a column: so Spark's plan tells of it."""
    name = event_time_of(rows, "keyed") if clock == "event" else None
    at = F.unix_micros(F.col(name)) if name else F.lit(0)
    # The mark of the event time goes to the microseconds: a number is cheaper in Python than a time.
    marked = at.alias(_MICROS, metadata=dict(rows.schema[name].metadata) if name else {})
    texts = rows.select(*quoted(by), marked, text.alias(ROW))
    return texts.groupBy(*quoted(by)).transformWithState(
        statefulProcessor=_OnSpark(make, first[1] if first else None, by_time=clock == "event"),
        outputStructType=f"{OUTPUT} STRING, {ROW} STRING, `{keeps.replace('`', '``')}` STRING",
        outputMode="Append",
        timeMode="EventTime" if clock == "event" else "ProcessingTime",
        initialState=first[0].groupBy(*quoted(by)) if first else None,
    )


def whole_row(rows: DataFrame) -> Column:
    """A row as text: through Python and its state it comes back as it was, whatever its types."""
    return F.to_json(F.struct(*quoted(rows.columns)), _WHOLE)


def row_columns(rows: DataFrame) -> str:
    """The columns of rows as the fields of a STRUCT."""
    return _fields(rows.schema)


def _fields(kind: StructType) -> str:
    return ", ".join(f"`{one.name.replace('`', '``')}`: {_type(one.dataType)}" for one in kind.fields)


def _type(kind: DataType) -> str:
    """A type in words, whatever its fields are called."""
    if isinstance(kind, StructType):
        return f"STRUCT<{_fields(kind)}>"
    if isinstance(kind, ArrayType):
        return f"ARRAY<{_type(kind.elementType)}>"
    if isinstance(kind, MapType):
        return f"MAP<{_type(kind.keyType)}, {_type(kind.valueType)}>"
    return kind.simpleString()


def _process(declared: Declared, columns: str) -> Turns:
    ordered = declared.ordered and declared.clock == "event"
    read = row_reader(columns)
    return Process(
        declared.made,
        lambda told: read(told.rpartition("\t")[2]),
        declared.outputs,
        ordered=ordered,
        quarantine=declared.quarantine,
    )


def row_reader(columns: str) -> Read:
    """From the text of a row to the row, by its columns."""
    kind = kind_of(f"STRUCT<{columns}>")
    assert isinstance(kind, Struct)
    return kind.reader()


def given_out(rows: DataFrame, name: str, columns: str) -> DataFrame:
    """The rows of one output, with its columns."""
    parsed = F.from_json(ROW, columns, EXACT).alias("row")
    return rows.filter(F.col(OUTPUT) == name).select(parsed).select("row.*")


def raised_rows(rows: DataFrame) -> DataFrame:
    """The rows that made a process raise: their origin, what was raised, and what it said."""
    told = F.from_json(ROW, "ARRAY<STRING>")
    parts = F.split(told[0], "\t")
    known = F.size(parts) > len(_PLACE)
    place = [
        F.when(known, F.get(parts, F.lit(number))).cast(kind).alias(name)
        for number, (name, kind) in enumerate(zip(_PLACE, ("string", "int", "long"), strict=True))
    ]
    origin = F.struct(*place, F.lit(None).cast("binary").alias("key"), F.element_at(parts, -1).alias("value"))
    return rows.filter(F.col(OUTPUT) == RAISED).select(
        origin.alias(ORIGIN), told[1].alias("kind"), told[2].alias("message")
    )


class _OnSpark(StatefulProcessor):
    """Hands each key with its state to the process."""

    def __init__(self, make: Callable[[], Turns], read: Callable[[], Read] | None, *, by_time: bool) -> None:
        self._make = make
        self._make_reader = read
        self._by_time = by_time

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state."""
        self._turns = self._make()
        self._read = self._make_reader() if self._make_reader is not None else None
        self._handle = handle
        self._state = handle.getValueState("key", _STATE)

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[Row],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[Row]:
        """The rows of a key in a batch."""
        at = len(key)
        return self._turn(key, [(row[at], row[at + 1]) for row in rows], timerValues)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: Any,  # noqa: N803
        expiredTimerInfo: Any,  # noqa: N803
    ) -> Iterator[Row]:
        """Something of a key is due."""
        return self._turn(key, [], timerValues, rang=expiredTimerInfo.getExpiryTimeInMs())

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:  # noqa: N802, N803
        """A row of the table that a process begins with."""
        assert isinstance(self._turns, Process)
        assert self._read is not None
        memory, _, wakes = self._state.get() or (None, None, None)
        micros, text = initialState[len(key)], initialState[len(key) + 1]
        self._keep(self._turns.initial(_plain(key), memory, self._read(text), micros), memory is not None, wakes)

    def close(self) -> None:
        """Nothing to do."""

    def _turn(self, key: Any, rows: Waiting, timers: Any, rang: int | None = None) -> Iterator[Row]:
        time = timers.getCurrentWatermarkInMs() if self._by_time else timers.getCurrentProcessingTimeInMs()
        memory, waiting, wakes = self._state.get() or (None, None, None)
        if not self._by_time:
            rows = [(time * 1000, text) for _, text in rows]
        turn = self._turns.turn(_plain(key), memory, _lines(waiting), rows, time * 1000)
        self._keep(turn, memory is not None or waiting is not None, wakes, rang)
        yield from (_OUT(*one) for one in turn.given)

    def _keep(self, turn: Turn, known: bool, before: int | None, rang: int | None = None) -> None:
        self._wake(turn, before, rang)
        if turn.text is not None or turn.waiting:
            self._state.update((turn.text, _text(turn.waiting), turn.wakes))
        elif known:
            self._state.clear()

    def _wake(self, turn: Turn, before: int | None, rang: int | None) -> None:
        """One timer of Spark for each key: at what is due next."""
        old, new = (_millis(one) for one in (before, turn.wakes))
        if old == new and rang is None:
            return
        if old is not None and old != rang:
            self._handle.deleteTimer(old)
        if new is not None:
            self._handle.registerTimer(new)


def _plain(key: Any) -> Any:
    """A key as a process sees it: a value, or a tuple of several."""
    return key[0] if len(key) == 1 else key


def _millis(micros: int | None) -> int | None:
    """The first millisecond at which a time is over."""
    return None if micros is None else -(-micros // 1000)


def _text(waiting: Waiting) -> str | None:
    return "\n".join(f"{micros} {row}" for micros, row in waiting) or None


def _lines(text: str | None) -> Waiting:
    if not text:
        return []
    pairs = (line.partition(" ") for line in text.split("\n"))
    return [(int(micros), row) for micros, _, row in pairs]
