"""Ticks: rows that only move event time, for a stream that is silent. They never reach a user's function."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from pyspark.sql import DataFrame

    from penstock.pipeline.declare import Source

__all__ = ["EXCLUDED", "PUSH_DOWN", "Ticks"]

_TICK = "__tick"
_KEPT = 100
# This rule moves a filter that does not name the time below the watermark, where it would eat the ticks.
PUSH_DOWN = "org.apache.spark.sql.catalyst.optimizer.PushDownPredicates"
EXCLUDED = "spark.sql.optimizer.excludedRules"


class Ticks:
    """The ticks of one query, as files beside its checkpoint; by default only for sources with an `idle` time."""

    def __init__(self, folder: Path, *, always: bool = False) -> None:
        self._folder = folder
        self._always = always

    def wanted(self, source: Source) -> bool:
        """Whether this source gets ticks."""
        return source.time is not None and (self._always or source.time.idle is not None)

    def add(self, source: str, moment: datetime) -> None:
        """Move a source's time."""
        place = self._place(source)
        known = sorted(place.glob("*.json"))
        number = int(known[-1].stem) + 1 if known else 0
        fresh = place / f".{number:08}"
        fresh.write_text(json.dumps({"at": moment.isoformat()}), encoding="utf-8")
        fresh.rename(place / f"{number:08}.json")
        for old in known[:-_KEPT]:  # read long ago
            old.unlink()

    def joined(self, rows: DataFrame, source: Source, time: str) -> DataFrame:
        """The rows of a source and its ticks, before the watermark."""
        from pyspark.sql import functions as F  # noqa: N812

        spark = rows.sparkSession
        files = spark.readStream.schema("at TIMESTAMP").json(str(self._place(source.name)))
        ticks = files.select(F.col("at").alias(time), F.lit(True).alias(_TICK))
        return rows.withColumn(_TICK, F.lit(False)).unionByName(ticks, allowMissingColumns=True)

    @staticmethod
    def removed(rows: DataFrame, time: str) -> DataFrame:
        """The rows without the ticks, after the watermark; the condition names the time, or it would come before it."""
        from pyspark.sql import functions as F  # noqa: N812

        ticked = F.col(_TICK) & (F.col(time) > F.lit("0001-01-02").cast("timestamp"))
        return rows.filter(~ticked).drop(_TICK)

    def _place(self, source: str) -> Path:
        place = self._folder / source
        place.mkdir(parents=True, exist_ok=True)
        return place
