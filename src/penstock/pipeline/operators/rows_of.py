"""Changes of a captured table as rows to be kept by their key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.connectors.keyed import POSITION, REMOVED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["rows_of"]


def rows_of(changes: DataFrame) -> DataFrame:
    """The rows of a captured table as its changes leave them: `ps.rows_of(customers)`, for a sink with the table's key.

    Beside the table's columns there are `__deleted` (the row is gone) and `__position` (where in the database's log).
    Sinks with a key act on both and write neither.
    """
    from pyspark.sql import functions as F  # noqa: N812

    gone = F.col("op") == "delete"
    row = F.when(gone, F.col("before")).otherwise(F.col("after"))
    made = changes.withColumn("__row", row)
    return made.select("__row.*", gone.alias(REMOVED), F.col("position").alias(POSITION))
