"""Every version of every row of a captured table, with the time that it was valid."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import Row
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming import StatefulProcessor
from pyspark.sql.types import StructType

from penstock.connectors.base import EXACT, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StatefulProcessorHandle

__all__ = ["history_of"]

_ROW, _AT, _POSITION = "__row", "__at", "__position"


def history_of(changes: DataFrame) -> DataFrame:
    """The versions of the rows of a captured table: `ps.history_of(customers)`, for a sink by its key and `version`.

    Beside the table's columns there are `version` (the position in the database's log at which it came), `valid_from`
    and `valid_to` (empty while it is the current one). A version comes when it begins and again when it ends. The flow
    keeps the last version of every key for ever, so it says so: `unbounded=True`.
    """
    key = changes.schema["key"].dataType
    row = changes.schema["after"].dataType
    assert isinstance(key, StructType)
    assert isinstance(row, StructType)
    named = ", ".join(f"`{one.name}` {one.dataType.simpleString()}" for one in key.fields)
    texts = changes.select(
        "key.*",
        F.col("position").alias(_POSITION),
        F.unix_micros("committed_at").alias(_AT),
        # Through Python and its state a row is text, so that every type comes back as it was.
        F.when(F.col("op") != "delete", F.to_json("after", {**EXACT, "ignoreNullFields": "false"})).alias(_ROW),
    )
    versions = texts.groupBy(*quoted(key.names)).transformWithState(
        statefulProcessor=_Versions(key.names),
        outputStructType=f"{named}, version BIGINT, valid_from BIGINT, valid_to BIGINT, {_ROW} STRING",
        outputMode="Append",
        timeMode="None",
    )
    ddl = str(changes.select("after.*")._jdf.schema().toDDL())
    made = versions.withColumn("__made", F.from_json(_ROW, ddl, EXACT))
    times = (F.timestamp_micros(name).alias(name) for name in ("valid_from", "valid_to"))
    return made.select("__made.*", "version", *times)


class _Versions(StatefulProcessor):
    """The current version of one key, or where in the log it went."""

    def __init__(self, keys: list[str]) -> None:
        self._keys = keys

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state."""
        self._last = handle.getValueState("last", f"{_POSITION} BIGINT, {_AT} BIGINT, {_ROW} STRING")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        """End the version before, begin the next; what was seen already is passed over by its position."""
        named = dict(zip(self._keys, key, strict=True))
        position, begun, row = self._last.get() or (-1, None, None)
        before = position
        for one in sorted(rows, key=lambda one: one[_POSITION]):
            if one[_POSITION] <= position or (one[_ROW] is not None and one[_ROW] == row):
                continue
            if row is not None:
                yield Row(**named, version=position, valid_from=begun, valid_to=one[_AT], **{_ROW: row})
            position, begun, row = one[_POSITION], one[_AT], one[_ROW]
        if position != before:
            if row is not None:
                yield Row(**named, version=position, valid_from=begun, valid_to=None, **{_ROW: row})
            self._last.update((position, begun, row))

    def close(self) -> None:
        """Nothing to do."""
