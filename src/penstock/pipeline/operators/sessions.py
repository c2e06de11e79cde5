"""Rows of a key that follow each other closely, as one row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from penstock.connectors.base import quoted
from penstock.pipeline.operators.arguments import micros_of, names_of, refuse_clash
from penstock.pipeline.operators.event_time import event_time_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

__all__ = ["sessions"]

_WINDOW = "session_window"


def sessions(rows: DataFrame, /, by: str | Sequence[str], gap: str, **aggregates: Column) -> DataFrame:
    """One row per session, which ends when a key has no row for `gap`: `ps.sessions(clicks, by="user", gap="1 hour")`.

    Out come the key, `start` and `end` (the times of its first and last row), `rows` (how many), and aggregates by
    their names: `pages=F.approx_count_distinct("page")`. Rows without a key are one key, null.
    """
    keys = names_of(by)
    (time,) = quoted([event_time_of(rows, "sessions")])
    micros_of("gap", gap)
    refuse_clash([_WINDOW, *keys, "start", "end", "rows", *aggregates], "Give an aggregate, or a column, another name.")
    found = rows.groupBy(F.session_window(time, gap), *quoted(keys)).agg(
        # Not the window's end less the gap: a day's gap is not always 24 hours.
        F.max(time).alias("end"),
        F.count(F.lit(1)).alias("rows"),
        *(one.alias(name) for name, one in aggregates.items()),
    )
    return found.select(*quoted(keys), F.col(f"{_WINDOW}.start").alias("start"), "end", "rows", *quoted(aggregates))
