"""The largest rows of each window."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

__all__ = ["top"]


def top(rows: DataFrame, count: int, by: str, within: str | Sequence[str] = "window") -> DataFrame:
    """The `count` rows with the largest `by` of each window, with their `rank` from 1: `ps.top(totals, 3, by="spent")`.

    `within` names the window and other columns to rank apart; rows whose `by` is null have no rank. Among equals the
    other columns decide, so that the answer does not depend on the order of rows.
    """
    from pyspark.sql import functions as F  # noqa: N812

    groups = [within] if isinstance(within, str) else list(within)
    others = [by, *(name for name in rows.columns if name not in (*groups, by))]
    row = F.struct(*others)
    best = F.max_by(row, row, count) if count > 1 else F.array(F.max(row))
    ranked = rows.filter(F.col(by).isNotNull()).groupBy(*groups).agg(best.alias("__best"))
    out = ranked.select(*groups, F.posexplode("__best").alias("__at", "__row"))
    shown = [F.col("__row")[name].alias(name) for name in others]
    return out.select(*groups, (F.col("__at") + 1).alias("rank"), *shown)
