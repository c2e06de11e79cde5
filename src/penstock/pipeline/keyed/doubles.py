"""Rows whose value was there within a time, as dead letters."""

from __future__ import annotations

import base64
import json
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812

from penstock.connectors.base import ORIGIN, quoted
from penstock.connectors.letters import envelope
from penstock.pipeline.keyed.on_spark import ROW, turns
from penstock.pipeline.keyed.process import MAIN, Turn

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.pipeline.keyed.process import Turns, Waiting
    from penstock.registry.contract import Rule

__all__ = ["Doubles", "doubles"]

_VALUE = "__value"


def doubles(rows: DataFrame, pipeline: str, stage: str, rule: Rule) -> DataFrame:
    """The letter of every row that is not the first of its value within the time, by event time."""
    first, *rest = rule.field.split(".")
    (value,) = quoted([first])
    for part in rest:
        value = value.getField(part)
    valued = rows.withColumn(_VALUE, value).filter(F.col(_VALUE).isNotNull())
    known = [name for name in rows.schema[ORIGIN].dataType.names if name != "timestamp"]  # type: ignore[attr-defined]
    origin = F.to_json(F.struct(*(F.col(f"{ORIGIN}.{name}").alias(name) for name in known)))
    made = turns(valued, origin, [_VALUE], partial(_judge, pipeline, stage, rule), rule.name)
    return made.select(F.from_json(ROW, "key BINARY, value STRING").alias("letter")).select("letter.*")


def _judge(pipeline: str, stage: str, rule: Rule) -> Turns:
    return Doubles(pipeline, stage, rule.name, int(rule.seconds * 1_000_000), rule.field)


class Doubles:
    """Remembers when a value was first there."""

    def __init__(self, pipeline: str, stage: str, rule: str, within: int, field: str) -> None:
        self._pipeline = pipeline
        self._stage = stage
        self._rule = f"contract: {rule}"
        self._within = within
        self._field = field

    def turn(self, key: Any, text: str | None, waiting: Waiting, rows: Waiting, time: int) -> Turn:
        """Tell of the rows that come too soon after the first."""
        first = int(text) if text else None
        every = sorted(waiting + rows)
        due = next((at for at, (micros, _) in enumerate(every) if micros > time), len(every))
        given = []
        for micros, origin in every[:due]:
            if first is not None and micros - first < self._within:
                given.append((MAIN, self._letter(key, origin)))
            else:
                first = micros
        if first is not None and time - first >= self._within:
            first = None
        wakes = first + self._within if first is not None else None
        return Turn(str(first) if first is not None else None, every[due:], given, wakes)

    def _letter(self, value: Any, origin: str) -> str:
        known = json.loads(origin)
        for name in ("key", "value"):
            known[name] = base64.b64decode(known[name]) if known.get(name) is not None else None
        said = f"{self._field} is {value}, as it was before"
        key, letter = envelope(self._pipeline, self._stage, self._rule, said, known)
        told = {"key": base64.b64encode(key).decode() if key is not None else None, "value": json.dumps(letter)}
        return json.dumps(told)
