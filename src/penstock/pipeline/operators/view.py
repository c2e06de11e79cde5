"""Two captured tables joined: a result that is corrected by every change of either side."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from pyspark.sql import Row
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming import StatefulProcessor
from pyspark.sql.types import BinaryType

from penstock.connectors.base import EXACT
from penstock.connectors.keyed import ORDERED, REMOVED
from penstock.errors import DeclarationError
from penstock.pipeline.keyed.pairs import changed_pairs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StatefulProcessorHandle

__all__ = ["view"]

_OUTER = {"inner": (False, False), "left": (True, False), "right": (False, True), "full": (True, True)}
_WHOLE = {**EXACT, "ignoreNullFields": "false"}
_PAIR = Row(REMOVED, "left", "right")
_CHANGE = "by STRING, side INT, id STRING, row STRING"


def view(
    left: DataFrame,
    right: DataFrame,
    on: Mapping[str, str],
    how: str = "inner",
    columns: Mapping[str, str] | None = None,
) -> DataFrame:
    """Two captured tables joined, kept right: `ps.view(orders, customers, on={"customer_id": "id"}, how="left")`.

    `left` and `right` are changes (`ps.Changes` as sources), `on` says which columns are equal, `how` is inner, left,
    right or full. `columns` are the result's, in SQL over the rows `left` and `right`; if not given, all of both.
    Out come the rows that are new or other, and those that are gone, for a sink with a key. What did not change is not
    computed again. The flow keeps the current rows of both tables, so it says so: `unbounded=True`.
    """
    if how not in _OUTER:
        raise _wrong(f"how={how!r} is not known.", f"Write one of {', '.join(_OUTER)}.")
    rows = [_rows(one) for one in (left, right)]
    chosen = columns or _all_columns(rows, on)
    _same_types(rows, on)
    changes = _changes(left, 0, list(on)).unionAll(_changes(right, 1, list(on.values())))
    moved = changes.groupBy("side", "id").transformWithState(
        statefulProcessor=_Current(), outputStructType=_CHANGE, outputMode="Append", timeMode="None"
    )
    pairs = moved.groupBy("by").transformWithState(
        statefulProcessor=_Joined(_OUTER[how]),
        # What the state is of names a column: so Spark's plan tells of it, and another view does not go on with it.
        outputStructType=f"{REMOVED} BOOLEAN, `left` STRING, `right` STRING, `{_described(on, how)}` STRING",
        outputMode="Append",
        timeMode="None",
    )
    sides = (F.from_json(name, _ddl(row), EXACT).alias(name) for name, row in zip(("left", "right"), rows, strict=True))
    made = pairs.select(REMOVED, *sides)
    picked = [F.expr(said).alias(name) for name, said in chosen.items()]
    return made.select(*picked, REMOVED, F.when(F.col(REMOVED), 0).otherwise(1).alias(ORDERED))


def _rows(changes: DataFrame) -> DataFrame:
    if not {"op", "before", "after", "key", "position"} <= set(changes.columns):
        raise _wrong(
            "ps.view joins changes of captured tables.", "Declare both as sources: ps.Changes('shop.public.orders')."
        )
    return changes.select("after.*")


def _all_columns(rows: list[DataFrame], on: Mapping[str, str]) -> dict[str, str]:
    """Every column of both, those that are equal once."""
    again = [name for name in rows[1].columns if name not in on.values()]
    if twice := set(rows[0].columns) & set(again):
        raise _wrong(
            f"Both tables have a column {sorted(twice)[0]!r}.",
            "Choose: columns={'order_id': 'left.id', 'name': 'right.name'}.",
        )
    return {
        **{name: f"left.`{name}`" for name in rows[0].columns},
        **{name: f"right.`{name}`" for name in again},
    }


def _same_types(rows: list[DataFrame], on: Mapping[str, str]) -> None:
    for one, other in on.items():
        for name, table in ((one, rows[0]), (other, rows[1])):
            if name not in table.columns:
                raise _wrong(f"There is no column {name!r} to join on.", f"It has {', '.join(table.columns)}.")
        kinds = [table.schema[name].dataType.simpleString() for name, table in ((one, rows[0]), (other, rows[1]))]
        whole = {"tinyint", "smallint", "int", "bigint"}
        if kinds[0] != kinds[1] and not set(kinds) <= whole:
            raise _wrong(f"{one} is {kinds[0]} and {other} is {kinds[1]}.", "Join on columns of one type.")


def _changes(changes: DataFrame, side: int, names: list[str]) -> DataFrame:
    """A change as its key, where it stands, what it is joined by, and the row, as texts."""
    key = F.to_json("key", _WHOLE)
    values = [F.col("after").getField(name) for name in names]
    alone = F.lit(False)
    for one in values:
        alone = alone | one.isNull()
    kinds = [changes.select("after.*").schema[name].dataType for name in names]
    texts = (
        F.base64(one) if isinstance(kind, BinaryType) else one.cast("string")
        for one, kind in zip(values, kinds, strict=True)
    )
    by = F.to_json(F.array(*texts))
    return changes.select(
        F.lit(side).alias("side"),
        key.alias("id"),
        F.col("position"),
        F.when(alone, F.concat(F.lit(f"{side} "), key)).otherwise(by).alias("by"),  # nobody is joined by what is empty
        F.when(F.col("op") != "delete", F.to_json("after", _WHOLE)).alias("row"),
    )


def _described(on: Mapping[str, str], how: str) -> str:
    return f"{how} join of {', '.join(f'{one} and {other}' for one, other in on.items())}".replace("`", "``")


def _ddl(rows: DataFrame) -> str:
    return str(rows._jdf.schema().toDDL())


def _wrong(problem: str, remedy: str) -> DeclarationError:
    return DeclarationError(problem, code="view-wrong", remedy=remedy)


class _Current(StatefulProcessor):
    """Of each row by its key: where in the log it stands, and by what it is joined now."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state."""
        self._last = handle.getValueState("last", "position BIGINT, by STRING")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        """The row as the batch leaves it, where it is joined now; and that it is gone from where it was joined."""
        side, name = key
        position, before = self._last.get() or (-1, None)
        _, last = max(enumerate(rows), key=lambda one: (one[1]["position"], one[0]))
        if last["position"] < position:  # what has been; at the same position a key may have gone and come
            return
        by = last["by"] if last["row"] is not None else None
        if before is not None and before != by:
            yield Row(by=before, side=side, id=name, row=None)
        if by is not None:
            yield Row(by=by, side=side, id=name, row=last["row"])
        self._last.update((last["position"], by))

    def close(self) -> None:
        """Nothing to do."""


class _Joined(StatefulProcessor):
    """The current rows of both sides that are joined by one value."""

    def __init__(self, outer: tuple[bool, bool]) -> None:
        self._outer = outer

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state."""
        self._left, self._right = (
            _Side(handle.getMapState(name, "id STRING", "row STRING")) for name in ("left", "right")
        )

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        """What comes, changes and goes."""
        news: dict[int, dict[str, str | None]] = defaultdict(dict)
        for one in rows:
            news[one["side"]][one["id"]] = one["row"]
        for gone, left, right in changed_pairs(self._left, self._right, (news[0], news[1]), self._outer):
            yield _PAIR(gone, left, right)

    def close(self) -> None:
        """Nothing to do."""


class _Side:
    """The rows of one side in Spark's state."""

    def __init__(self, state: Any) -> None:
        self._state = state

    def get(self, key: str) -> str | None:
        """A row."""
        found = self._state.getValue((key,))
        return found[0] if found is not None else None

    def items(self) -> Iterator[tuple[str, str]]:
        """All rows."""
        return ((key[0], value[0]) for key, value in self._state.iterator())

    def put(self, key: str, row: str | None) -> None:
        """Keep a row, or forget it."""
        if row is None:
            self._state.removeKey((key,))
        else:
            self._state.updateValue((key,), (row,))
