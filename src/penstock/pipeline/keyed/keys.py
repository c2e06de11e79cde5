"""A key on its way through Python: as text, so that every type comes back as it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from penstock.connectors.base import EXACT, quoted
from penstock.pipeline.keyed.on_spark import row_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

__all__ = ["key_columns", "key_text"]


def key_text(by: Sequence[str]) -> Column:
    """The columns of a key as one text."""
    return F.to_json(F.struct(*quoted(by)), EXACT)


def key_columns(text: Column, rows: DataFrame, by: Sequence[str]) -> list[Column]:
    """The columns of a key from its text, with the types that they have in rows."""
    key = F.from_json(text, f"STRUCT<{row_columns(rows.select(*quoted(by)))}>", EXACT)
    return [key.getField(name).alias(name) for name in by]
