"""Rows of a key that make a pattern, one row for each match."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from penstock.connectors.base import EXACT
from penstock.pipeline.keyed.matching import Matching
from penstock.pipeline.keyed.on_spark import ROW, row_columns, row_reader, turns, whole_row
from penstock.pipeline.operators.conditions import conditions_met, those_that_meet_one
from penstock.pipeline.operators.event_time import event_time_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from penstock.pipeline.keyed.pattern import Pattern
    from penstock.pipeline.keyed.process import Turns

__all__ = ["matches"]


def matches(rows: DataFrame, pattern: Pattern, by: str | Sequence[str]) -> DataFrame:
    """One row for each match of a pattern among the rows of a key: `ps.matches(payments, pattern, by="card")`.

    Out come the key, for each step its row (a struct; null if it was left out) or its rows (an array, if it can have
    several), `start` and `end` (the times of the first and the last row).
    """
    keys = [by] if isinstance(by, str) else list(by)
    time = event_time_of(rows, "matches")
    pattern.checked()
    bits = conditions_met(pattern.conditions)
    known = all(isinstance(one, str) for one in pattern.conditions)
    if known and not pattern.strict:
        rows = those_that_meet_one(rows, bits, time)
    columns = row_columns(rows)
    text = F.concat(F.lpad(bits.cast("string"), 20, "0"), F.lit(" "), whole_row(rows))
    found = turns(rows, text, keys, partial(_matching, pattern, columns), f"attempts at {pattern.described()}")
    steps = [
        f"`{one.name}`: {f'STRUCT<{columns}>' if one.most == 1 else f'ARRAY<STRUCT<{columns}>>'}"
        for one in pattern.steps
    ]
    whole = f"STRUCT<__first: STRUCT<{columns}>, __last: STRUCT<{columns}>, {', '.join(steps)}>"
    told = found.select(F.from_json(ROW, whole, EXACT).alias("match"))
    return told.select(
        *(F.col("match.__first").getField(name).alias(name) for name in keys),
        *(F.col("match").getField(step.name).alias(step.name) for step in pattern.steps),
        F.col("match.__first").getField(time).alias("start"),
        F.col("match.__last").getField(time).alias("end"),
    )


def _matching(pattern: Pattern, columns: str) -> Turns:
    return Matching(pattern, row_reader(columns))
