"""Which column of a stream is its event time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import DeclarationError
from penstock.pipeline.declare import Place
from penstock.pipeline.spark_plan import DELAY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["event_time_of"]


def event_time_of(rows: DataFrame, what: str) -> str:
    """The name of the event time, which the source declares."""
    for column in rows.schema.fields:
        if DELAY in column.metadata and column.dataType.typeName() != "struct":
            return column.name
    raise DeclarationError(
        f"{what} needs rows with an event time.",
        code="time-missing",
        place=str(Place.of_caller()),
        remedy="Declare it on the source, time=ps.EventTime('created_at'), and keep that column.",
    )
