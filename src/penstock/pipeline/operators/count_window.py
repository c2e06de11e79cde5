"""Windows of so many rows per key, closed by a time-out if they do not fill."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

from penstock.errors import DeclarationError
from penstock.pipeline.declare import Place
from penstock.pipeline.durations import seconds
from penstock.pipeline.operators.event_time import event_time_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StatefulProcessorHandle

__all__ = ["count_window"]


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
    kinds = {field.name: field.dataType.simpleString() for field in rows.schema.fields}
    whole = ", ".join(f"`{name}` {kind}" for name, kind in kinds.items())
    key = ", ".join(f"`{name}` {kinds[name]}" for name in keys)
    return rows.groupBy(*keys).transformWithState(
        statefulProcessor=_CountWindow(keys, list(kinds).index(time), size, int(length * 1000), whole),
        outputStructType=f"{key}, rows ARRAY<STRUCT<{whole}>>, count INT, start TIMESTAMP, end TIMESTAMP,"
        " closed_by STRING",
        outputMode="Append",
        timeMode="EventTime",
    )


class _CountWindow(StatefulProcessor):
    """The open window of one key: its rows, and the timer that closes it."""

    def __init__(self, keys: list[str], time: int, size: int, timeout_ms: int, schema: str) -> None:
        self._keys = keys
        self._time = time
        self._size = size
        self._timeout_ms = timeout_ms
        self._schema = schema

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state."""
        self._handle = handle
        self._open = handle.getListState("open", self._schema)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        """Fill the window, closing it whenever it is full."""
        waiting = [tuple(row) for row in self._open.get()] if self._open.exists() else []
        first = waiting[:1]
        waiting += self._in_order(tuple(row) for row in rows)
        while len(waiting) >= self._size:
            yield self._closed(key, waiting[: self._size], "size")
            waiting = waiting[self._size :]
        if waiting[:1] != first:
            for timer in list(self._handle.listTimers()):
                self._handle.deleteTimer(timer)
            if waiting:
                self._handle.registerTimer(int(waiting[0][self._time].timestamp() * 1000) + self._timeout_ms)
        if waiting:
            self._open.put(waiting)
        else:
            self._open.clear()

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: N802, N803
        """Close a window that did not fill in time."""
        if self._open.exists():
            yield self._closed(key, [tuple(row) for row in self._open.get()], "timeout")
            self._open.clear()

    def close(self) -> None:
        """Nothing to do."""

    def _in_order(self, rows: Any) -> list[Any]:
        return sorted(rows, key=lambda row: row[self._time])

    def _closed(self, key: Any, rows: list[Any], by: str) -> Row:
        ordered = self._in_order(rows)
        start, end = ordered[0][self._time], ordered[-1][self._time]
        named = dict(zip(self._keys, key, strict=True))
        return Row(**named, rows=ordered, count=len(ordered), start=start, end=end, closed_by=by)
