"""Rows joined with a captured table as it was when they happened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.connectors.live_table import VALID_FROM, VALID_TO
from penstock.errors import DeclarationError
from penstock.pipeline.declare import Place

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

__all__ = ["as_of"]


def as_of(rows: DataFrame, history: DataFrame, on: str | Sequence[str], time: str) -> DataFrame:
    """Each row with the one of a table that was valid at its time: `ps.as_of(orders, customers, "customer_id", "at")`.

    The table is one with its history: `ps.Changes("shop.public.customers", history=True)`. A row whose key was not
    there then has empty columns.
    """
    keys = [on] if isinstance(on, str) else list(on)
    if not {VALID_FROM, VALID_TO} <= set(history.columns):
        raise DeclarationError(
            "A table as of a time needs its history.",
            code="history-missing",
            place=str(Place.of_caller()),
            remedy="Declare it so: ps.Changes(…, history=True).",
        )
    begins, ends, at = history[VALID_FROM], history[VALID_TO], rows[time]
    condition = (begins.isNull() | (at >= begins)) & (ends.isNull() | (at < ends))
    for key in keys:
        condition = condition & (rows[key] == history[key])
    kept = [history[name] for name in history.columns if name not in (*keys, VALID_FROM, VALID_TO)]
    return rows.join(history, condition, "left").select(*(rows[name] for name in rows.columns), *kept)
