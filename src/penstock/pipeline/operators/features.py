"""Running features of a key, for models: at each of its rows, and when a window of it becomes empty."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from penstock.connectors.base import EXACT
from penstock.pipeline.durations import short
from penstock.pipeline.keyed.feature import Count, Distinct, Last, Total
from penstock.pipeline.keyed.feature_rows import AT, KEY, FeatureColumn, FeatureRows
from penstock.pipeline.keyed.keys import key_columns, key_text
from penstock.pipeline.keyed.on_spark import ROW, turns
from penstock.pipeline.operators.arguments import micros_of, names_of, refuse_clash, refused
from penstock.pipeline.operators.event_time import event_time_of
from penstock.pipeline.operators.feature_types import computed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame

    from penstock.pipeline.keyed.feature import Feature
    from penstock.pipeline.operators.feature_types import Computed

__all__ = ["CREATED", "features"]

CREATED = "created"


def features(
    rows: DataFrame,
    /,
    by: str | Sequence[str],
    *,
    time: str = "event_timestamp",
    empty_rows: bool = True,
    **wanted: Feature,
) -> DataFrame:
    """Features of a key at each of its rows: `ps.features(payments, by="card", paid=ps.Count(over="1 hour"))`.

    Out come the key, the time of the row as `event_timestamp` (or as `time` says), `created` (when it was computed) and
    for each feature and time a column such as `paid_1h`: of the rows of the key in the hour up to this one, itself and
    those of the same time included. There is also a row when a window has become empty, so that what is served goes to
    zero; `empty_rows=False` leaves it out. Rows without a key are one key, null.
    """
    keys = names_of(by)
    event_time_of(rows, "features")
    if not wanted:
        raise refused("features without a feature can't be.", "Name one: paid=ps.Count(over='1 hour').")
    made = [one for name, feature in wanted.items() for one in _columns(rows, name, feature)]
    columns = [column for column, _ in made]
    refuse_clash([*keys, time, CREATED, *(one.name for one in columns)], "Give a feature, or a column, another name.")
    fields = {how.field: how.value.alias(how.field) for _, how in made if how.value is not None}
    text = F.to_json(F.struct(key_text(keys).alias(KEY), *fields.values()), EXACT)
    keeps = f"rows of {max(one.over for one in columns) / 1e6:g} s with {', '.join(sorted({AT, *fields}))}"
    found = turns(rows, text, keys, partial(FeatureRows, columns, empty_rows=empty_rows), keeps)
    told = ", ".join(f"`{column.name}` {how.told}" for column, how in made)
    row = found.select(F.from_json(ROW, f"{KEY} STRING, {AT} BIGINT, {told}").alias("row"))
    return row.select(
        *key_columns(F.col(f"row.{KEY}"), rows, keys),
        F.timestamp_micros(F.col(f"row.{AT}")).alias(time),
        F.current_timestamp().alias(CREATED),
        *(how.shown(F.col("row").getField(column.name)).alias(column.name) for column, how in made),
    )


def _columns(rows: DataFrame, name: str, feature: Feature) -> Iterator[tuple[FeatureColumn, Computed]]:
    """The columns of a feature, one for each time."""
    if not isinstance(feature, Count | Total | Distinct | Last):
        raise refused(f"{name}={feature!r} is not a feature.", "Write ps.Count, ps.Total, ps.Distinct or ps.Last.")
    overs = names_of(feature.over)
    if not overs:
        raise refused(f"Feature {name!r} is over no time.", "Write over='1 hour', or several of them.")
    how = computed(name, feature, {one.name: one.dataType for one in rows.schema.fields})
    for over in overs:
        yield FeatureColumn(f"{name}_{short(over)}", micros_of("over", over), how.field, how.begin), how
