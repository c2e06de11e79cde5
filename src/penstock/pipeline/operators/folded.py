"""Event sourcing: what a key has come to, by a function over its events."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pyspark.sql import Row
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming import StatefulProcessor

from penstock.connectors.base import EXACT, quoted
from penstock.connectors.keyed import REMOVED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StatefulProcessorHandle

    Step = Callable[[dict[str, Any] | None, dict[str, Any]], dict[str, Any] | None]

__all__ = ["folded"]

_ORDER, _EVENT, _STATE = "__order", "__event", "__state"


def folded(events: DataFrame, by: str | Sequence[str], order: str, state: str, step: Step) -> DataFrame:
    """The current state of each key: `ps.folded(events, by="account", order="number", state="balance LONG", step=add)`.

    `step(state, event)` gets the state of a key (None before its first event) and an event as dicts and returns the new
    state, or None for a key that is gone. Events of a batch come in the order of the column `order`. Out come, once per
    batch, the keys that changed with the columns of `state`, for a sink with the same key; `__deleted` if it is gone.
    """
    keys = [by] if isinstance(by, str) else list(by)
    named = ", ".join(f"`{name}` {events.schema[name].dataType.simpleString()}" for name in keys)
    texts = events.select(
        *quoted(keys), F.col(order).alias(_ORDER), F.to_json(F.struct(*quoted(events.columns)), EXACT).alias(_EVENT)
    )
    out = texts.groupBy(*quoted(keys)).transformWithState(
        statefulProcessor=_Fold(keys, step),
        outputStructType=f"{named}, {_STATE} STRING",
        outputMode="Append",
        timeMode="None",
    )
    made = out.withColumn("__made", F.from_json(_STATE, state))
    return made.select(*quoted(keys), "__made.*", F.col(_STATE).isNull().alias(REMOVED))


class _Fold(StatefulProcessor):
    """The state of one key, as JSON."""

    def __init__(self, keys: list[str], step: Step) -> None:
        self._keys = keys
        self._step = step

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state."""
        self._state = handle.getValueState("state", f"{_STATE} STRING")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        """Fold the events of a batch into it."""
        known = self._state.get()
        state = json.loads(known[0]) if known else None
        for row in sorted(rows, key=lambda one: one[_ORDER]):
            state = self._step(state, json.loads(row[_EVENT]))
        text = None if state is None else json.dumps(state, default=str)
        if text is None:
            self._state.clear()
        else:
            self._state.update((text,))
        yield Row(**dict(zip(self._keys, key, strict=True)), **{_STATE: text})

    def close(self) -> None:
        """Nothing to do."""
