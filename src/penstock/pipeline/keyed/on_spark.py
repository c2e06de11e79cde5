"""A process on Spark's transformWithState: one state per key, read and written once a batch."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql import Row
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming import StatefulProcessor

from penstock.connectors.base import EXACT, quoted
from penstock.pipeline.keyed.kinds import Struct, kind_of
from penstock.pipeline.keyed.process import Process, states_of
from penstock.pipeline.operators.event_time import event_time_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming import StatefulProcessorHandle

    from penstock.pipeline.keyed.declared import Declared
    from penstock.pipeline.keyed.process import Turn, Turns, Waiting

__all__ = ["OUTPUT", "ROW", "given_out", "processed", "row_columns", "row_reader", "turns", "whole_row"]

OUTPUT = "__output"
_MICROS = "__micros"
ROW = "__row"
_OUT = Row(OUTPUT, ROW)
_STATE = "memory STRING, waiting STRING, wakes BIGINT"
_WHOLE = {**EXACT, "ignoreNullFields": "false"}


def processed(rows: DataFrame, declared: Declared) -> DataFrame:
    """What a process gives out for rows: the name of the output, and the row as text."""
    make = partial(_process, declared, row_columns(rows))
    keeps = ", ".join(one.described() for one in states_of(declared.made)) or "nothing"
    return turns(rows, whole_row(rows), declared.by, make, keeps, clock=declared.clock)


def turns(
    rows: DataFrame, text: Column, by: Sequence[str], make: Callable[[], Turns], keeps: str, *, clock: str = "event"
) -> DataFrame:
    """What is given out for rows, each told as a text; what is kept names a column: so Spark's plan tells of it."""
    name = event_time_of(rows, "keyed") if clock == "event" else None
    at = F.unix_micros(F.col(name)) if name else F.lit(0)
    # The mark of the event time goes to the microseconds: a number is cheaper in Python than a time.
    marked = at.alias(_MICROS, metadata=dict(rows.schema[name].metadata) if name else {})
    texts = rows.select(*quoted(by), marked, text.alias(ROW))
    return texts.groupBy(*quoted(by)).transformWithState(
        statefulProcessor=_OnSpark(make, by_time=clock == "event"),
        outputStructType=f"{OUTPUT} STRING, {ROW} STRING, `{keeps.replace('`', '``')}` STRING",
        outputMode="Append",
        timeMode="EventTime" if clock == "event" else "ProcessingTime",
    )


def whole_row(rows: DataFrame) -> Column:
    """A row as text: through Python and its state it comes back as it was, whatever its types."""
    return F.to_json(F.struct(*quoted(rows.columns)), _WHOLE)


def row_columns(rows: DataFrame) -> str:
    """The columns of rows as the fields of a STRUCT."""
    return ", ".join(f"`{one.name.replace('`', '``')}`: {one.dataType.simpleString()}" for one in rows.schema.fields)


def _process(declared: Declared, columns: str) -> Turns:
    ordered = declared.ordered and declared.clock == "event"
    return Process(declared.made, row_reader(columns), declared.outputs, ordered=ordered)


def row_reader(columns: str) -> Callable[[str], dict[str, Any]]:
    """From the text of a row to the row, by its columns."""
    kind = kind_of(f"STRUCT<{columns}>")
    assert isinstance(kind, Struct)
    return kind.reader()


def given_out(rows: DataFrame, name: str, columns: str) -> DataFrame:
    """The rows of one output, with its columns."""
    parsed = F.from_json(ROW, columns, EXACT).alias("row")
    return rows.filter(F.col(OUTPUT) == name).select(parsed).select("row.*")


class _OnSpark(StatefulProcessor):
    """Hands each key with its state to the process."""

    def __init__(self, make: Callable[[], Turns], *, by_time: bool) -> None:
        self._make = make
        self._by_time = by_time

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state."""
        self._turns = self._make()
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

    def close(self) -> None:
        """Nothing to do."""

    def _turn(self, key: Any, rows: Waiting, timers: Any, rang: int | None = None) -> Iterator[Row]:
        time = timers.getCurrentWatermarkInMs() if self._by_time else timers.getCurrentProcessingTimeInMs()
        memory, waiting, wakes = self._state.get() or (None, None, None)
        if not self._by_time:
            rows = [(time * 1000, text) for _, text in rows]
        turn = self._turns.turn(key[0] if len(key) == 1 else key, memory, _lines(waiting), rows, time * 1000)
        self._wake(turn, wakes, rang)
        if turn.text is None and not turn.waiting:
            if memory is not None or waiting is not None:
                self._state.clear()
        else:
            self._state.update((turn.text, _text(turn.waiting), turn.wakes))
        yield from (_OUT(*one) for one in turn.given)

    def _wake(self, turn: Turn, before: int | None, rang: int | None) -> None:
        """One timer of Spark for each key: at what is due next."""
        old, new = (_millis(one) for one in (before, turn.wakes))
        if old == new and rang is None:
            return
        if old is not None and old != rang:
            self._handle.deleteTimer(old)
        if new is not None:
            self._handle.registerTimer(new)


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
