"""Windows of so many rows per key, closed by a time-out if they do not fill."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import Row
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming import StatefulProcessor

from penstock.connectors.base import EXACT, quoted
from penstock.errors import DeclarationError
from penstock.pipeline.declare import Place
from penstock.pipeline.durations import seconds
from penstock.pipeline.operators.event_time import event_time_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StatefulProcessorHandle

__all__ = ["count_window"]

_MICROS = "__micros"
_ROW = "__row"


def count_window(rows: DataFrame, by: str | Sequence[str], size: int, timeout: str) -> DataFrame:
    """Every `size` rows of a key as one row: `ps.count_window(clicks, by="user_id", size=10, timeout="5 minutes")`.

    Out come the key, `rows` (an array of the rows, in order of event time), `count`, `start`, `end` and `closed_by`
    ("size" or "timeout": that much event time after its first row). A row joins a window when it arrives, so a row that
    is out of order may be in a later window than its time says.
    """
    time = event_time_of(rows, "count_window")
    length = seconds(timeout)
    if length is None or size < 1:
        raise DeclarationError(
            f"size={size!r} and timeout={timeout!r} do not make a window.",
            code="declaration-wrong",
            place=str(Place.of_caller()),
            remedy="Write size=10, timeout='5 minutes'.",
        )
    keys = [by] if isinstance(by, str) else list(by)
    key = ", ".join(f"`{name}` {rows.schema[name].dataType.simpleString()}" for name in keys)
    # Through Python and its state a row is text, so that every type comes back as it was.
    texts = rows.select(
        *keys,
        F.unix_micros(time).alias(_MICROS),
        F.to_json(F.struct(*quoted(rows.columns)), EXACT).alias(_ROW),
        F.col(time),
    )
    closed = texts.groupBy(*keys).transformWithState(
        statefulProcessor=_CountWindow(keys, size, int(length * 1000)),
        outputStructType=f"{key}, {_ROW} ARRAY<STRING>, start BIGINT, end BIGINT, closed_by STRING",
        outputMode="Append",
        timeMode="EventTime",
    )
    columns = str(rows._jdf.schema().toDDL())
    return closed.select(
        *keys,
        F.transform(_ROW, lambda row: F.from_json(row, columns, EXACT)).alias("rows"),
        F.size(_ROW).alias("count"),
        F.timestamp_micros("start").alias("start"),
        F.timestamp_micros("end").alias("end"),
        "closed_by",
    )


class _CountWindow(StatefulProcessor):
    """The open window of one key: its rows as time and text, and the timer that closes it."""

    def __init__(self, keys: list[str], size: int, timeout_ms: int) -> None:
        self._keys = keys
        self._size = size
        self._timeout_ms = timeout_ms

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state."""
        self._handle = handle
        self._open = handle.getListState("open", f"{_MICROS} BIGINT, {_ROW} STRING")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        """Fill the window, closing it whenever it is full."""
        waiting = self._waiting()
        first = waiting[:1]
        waiting += sorted((row[_MICROS], row[_ROW]) for row in rows)
        while len(waiting) >= self._size:
            yield self._closed(key, waiting[: self._size], "size")
            waiting = waiting[self._size :]
        if waiting[:1] != first:
            for timer in list(self._handle.listTimers()):
                self._handle.deleteTimer(timer)
            if waiting:
                self._handle.registerTimer(waiting[0][0] // 1000 + self._timeout_ms)
        if waiting:
            self._open.put(waiting)
        else:
            self._open.clear()

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: N802, N803
        """Close a window that did not fill in time."""
        if self._open.exists():
            yield self._closed(key, self._waiting(), "timeout")
            self._open.clear()

    def close(self) -> None:
        """Nothing to do."""

    def _waiting(self) -> list[tuple[int, str]]:
        return [(row[0], row[1]) for row in self._open.get()] if self._open.exists() else []

    def _closed(self, key: Any, rows: list[tuple[int, str]], by: str) -> Row:
        ordered = sorted(rows)
        named = dict(zip(self._keys, key, strict=True))
        texts = [text for _, text in ordered]
        return Row(**named, **{_ROW: texts}, start=ordered[0][0], end=ordered[-1][0], closed_by=by)
