"""Conditions in SQL, looked at in the JVM: a number says which of them a row meets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from penstock.pipeline.keyed.pattern import Condition

__all__ = ["conditions_met", "those_that_meet_one"]

_EVER = "0001-01-02"


def conditions_met(conditions: Sequence[Condition]) -> Column:
    """A bit for each condition that a row meets; those in Python are not asked."""
    found = F.lit(0).cast("long")
    for at, one in enumerate(conditions):
        if isinstance(one, str):
            found = found + F.when(F.expr(one), F.lit(1 << at).cast("long")).otherwise(F.lit(0).cast("long"))
    return found


def those_that_meet_one(rows: DataFrame, bits: Column, time: str) -> DataFrame:
    """The rows that meet a condition: the others can't change anything, and do not reach Python.

    They still move event time: the filter names it, or Spark would ask it before the watermark is taken.
    """
    return rows.filter(F.when(F.col(time) > F.lit(_EVER).cast("timestamp"), bits != 0))
