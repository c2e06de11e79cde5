"""The first row of each key within a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import DeclarationError
from penstock.pipeline.declare import Place
from penstock.pipeline.durations import seconds
from penstock.pipeline.operators.event_time import event_time_of
from penstock.pipeline.spark_plan import DELAY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

__all__ = ["deduplicated"]


def deduplicated(rows: DataFrame, by: str | Sequence[str], within: str) -> DataFrame:
    """Leave out a row whose key was seen within this time: `ps.deduplicated(orders, by="order_id", within="1 hour")`.

    A key is remembered at least so long in event time after its first row; rows without a key are one key, null.
    """
    time = event_time_of(rows, "deduplicated")
    length = seconds(within)
    if length is None:
        raise DeclarationError(
            f"within={within!r} is not a duration.",
            code="declaration-wrong",
            place=str(Place.of_caller()),
            remedy="Write it like '10 minutes'.",
        )
    known = rows.schema[time].metadata
    # Spark forgets a key after the delay that is noted on its time column: note how long we want, then put it back.
    remembered = rows.withMetadata(time, {**known, DELAY: int(length * 1000)})
    keys = [by] if isinstance(by, str) else list(by)
    return remembered.dropDuplicatesWithinWatermark(keys).withMetadata(time, known)
