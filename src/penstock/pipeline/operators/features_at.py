"""Features as they were known at given moments, for training."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812

from penstock.connectors.base import quoted
from penstock.pipeline.operators.arguments import micros_of, names_of, refuse_clash, refused
from penstock.pipeline.operators.features import CREATED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

__all__ = ["features_at"]

_AT, _ENTITY, _FEATURES, _ROW, _SINCE = "__at", "__entity", "__features", "__row", "__since"


def features_at(
    entities: DataFrame,
    features: DataFrame,
    by: str | Sequence[str],
    at: str = "event_timestamp",
    ttl: str | None = None,
    time: str = "event_timestamp",
) -> DataFrame:
    """Each row with the newest features of its key at its moment: `ps.features_at(orders, known, by="card", at="at")`.

    Both are tables at rest. The features are those whose `time` is at or before `at`, never after, and not older than
    `ttl`; where there are none they are null. Of several of one time the last by `created` counts.
    """
    keys = names_of(by)
    length = None if ttl is None else micros_of("ttl", ttl)
    if entities.isStreaming or features.isStreaming:
        raise refused("features_at reads tables, not streams.", "Read what a sink has written: spark.read.parquet(…).")
    named = [name for name in features.columns if name not in (*keys, time, CREATED)]
    refuse_clash([*entities.columns, *named], "Rename a column of the features, or drop it.")
    created = F.col(CREATED) if CREATED in features.columns else F.lit(None)
    (moment,), (since,) = quoted([at]), quoted([time])
    # Both in one order, the features first: so a row needs to look back only, and no key is multiplied by a join.
    known = features.filter(since.isNotNull()).select(
        *quoted(keys),
        since.alias(_AT),
        F.lit(False).alias(_ENTITY),
        created.cast("timestamp").alias(CREATED),
        F.struct(since.alias(_SINCE), *quoted(named)).alias(_FEATURES),
        F.lit(None).cast(entities.select(F.struct(*quoted(entities.columns))).schema[0].dataType).alias(_ROW),
    )
    asked = entities.select(
        *quoted(keys),
        moment.alias(_AT),
        F.lit(True).alias(_ENTITY),
        F.lit(None).cast("timestamp").alias(CREATED),
        F.lit(None).cast(known.schema[_FEATURES].dataType).alias(_FEATURES),
        F.struct(*quoted(entities.columns)).alias(_ROW),
    )
    earlier = Window.partitionBy(*quoted(keys)).orderBy(_AT, _ENTITY, CREATED)
    newest = F.last(_FEATURES, ignorenulls=True).over(earlier.rowsBetween(Window.unboundedPreceding, 0))
    found = known.unionByName(asked).withColumn(_FEATURES, newest).filter(_ENTITY)
    fresh = F.lit(True)
    if length is not None:
        fresh = F.unix_micros(_AT) - F.unix_micros(f"{_FEATURES}.{_SINCE}") <= length
    for key in quoted(keys):
        fresh = fresh & key.isNotNull()
    return found.select(f"{_ROW}.*", *(F.when(fresh, F.col(_FEATURES).getField(name)).alias(name) for name in named))
