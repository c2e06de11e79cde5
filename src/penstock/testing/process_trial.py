"""A keyed process on trial, without Spark: rows at virtual times, what it gives and remembers."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from penstock.errors import DeclarationError
from penstock.pipeline.keyed.kinds import columns_of
from penstock.pipeline.keyed.process import MAIN, Process
from penstock.testing.moments import DAY, moment

if TYPE_CHECKING:
    from typing import Self

    from penstock.pipeline.declare import Flow
    from penstock.pipeline.keyed.process import Turn

__all__ = ["ProcessTrial"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FAR = timedelta(days=3650)


class ProcessTrial:
    """`trial = ProcessTrial(fraud)`, `trial.given({"card": "a", "amount": 0.5}, at="10:00")`, `trial.advance("10:01")`.

    Rows given are processed when time has reached them, in the order of their times.
    """

    def __init__(self, flow: Flow) -> None:
        if flow.process is None:
            raise DeclarationError(
                f"{flow.name!r} is no keyed process.",
                code="trial-unknown",
                place=str(flow.place),
                remedy="Give what @pipeline.keyed has made; other flows go into Trial(pipeline).",
            )
        self._declared = flow.process
        self._kinds = {name: columns_of(ddl) for name, ddl in self._declared.outputs.items()}
        self._given: list[dict[str, Any]] = []
        self._late: list[dict[str, Any]] = []
        self._turns: dict[Any, Turn] = {}
        self._out: list[tuple[str, dict[str, Any]]] = []
        self._time = 0
        self._process = Process(self._declared.made, self._row, self._declared.outputs, ordered=self._declared.ordered)

    def given(self, *rows: dict[str, Any], at: str | datetime) -> Self:
        """Give rows that happened at a time; one that time has passed already is late."""
        for row in rows:
            if self._declared.clock == "event" and self._time > 0 and _micros(moment(at)) <= self._time:
                self._late.append(row)
                continue
            self._given.append(row)
            self._turn(self._key(row), [(_micros(moment(at)), f"{len(self._given) - 1:09}")])
        return self

    def begins(self, *rows: dict[str, Any], at: str | datetime | None = None) -> Self:
        """Let it begin with rows of its table, before all others; with a time if the table has the stream's."""
        micros = _micros(moment(at)) if at is not None else None
        for row in rows:
            key = self._key(row)
            known = self._turns.get(key)
            self._turns[key] = self._process.initial(key, known.text if known else None, row, micros)
        return self

    def advance(self, to: str | datetime) -> Self:
        """Let time go on: rows and timers up to it are due."""
        self._time = max(self._time, _micros(moment(to)))
        for key in list(self._turns):
            self._turn(key, [])
        return self

    def end(self) -> Self:
        """Let time go past everything."""
        return self.advance(DAY + _FAR)

    def rows(self, output: str = MAIN) -> list[dict[str, Any]]:
        """What it has given so far."""
        return [row for name, row in self._out if name == output]

    def late(self) -> list[dict[str, Any]]:
        """The rows that came too late."""
        return list(self._late)

    def state(self, key: Any) -> dict[str, Any]:
        """What it remembers of a key, by the names of its states, as JSON has it; empty if nothing."""
        found = self._turns[key].text if key in self._turns else None
        return dict(json.loads(found)["states"]) if found else {}

    def timers(self, key: Any) -> dict[str, datetime]:
        """The timers of a key, by their names."""
        found = self._turns[key].text if key in self._turns else None
        told = json.loads(found).get("timers", {}) if found else {}
        return {name: _EPOCH + timedelta(microseconds=at) for name, at in told.items()}

    def _key(self, row: dict[str, Any]) -> Any:
        key = tuple(row[name] for name in self._declared.by)
        return key[0] if len(key) == 1 else key

    def _turn(self, key: Any, rows: list[tuple[int, str]]) -> None:
        known = self._turns.get(key)
        turn = self._process.turn(key, known.text if known else None, known.waiting if known else [], rows, self._time)
        self._turns[key] = turn
        self._out += [(name, self._kinds[name].load(json.loads(text))) for name, text in turn.given]

    def _row(self, text: str) -> dict[str, Any]:
        return dict(self._given[int(text)])


def _micros(when: datetime) -> int:
    return (when - _EPOCH) // timedelta(microseconds=1)
