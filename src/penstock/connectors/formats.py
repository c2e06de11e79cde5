"""How rows lie in bytes: JSON, CSV, raw."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.connectors.base import BAD, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import Column, DataFrame

__all__ = ["Csv", "Format", "Json", "Raw"]

_PARSED = "__parsed"
_CORRUPT = "__corrupt"


class Format(ABC):
    """Bytes to columns and back."""

    def problems(self) -> Iterator[tuple[str, str]]:
        """What is wrong with it as a source's format."""
        yield from ()

    @abstractmethod
    def decode(self, raw: DataFrame) -> DataFrame:
        """Columns out of the binary column `value`; `__bad` for what can't be decoded; other columns stay."""

    @abstractmethod
    def encode(self, rows: DataFrame) -> Column:
        """The binary or text `value` of each row."""


@dataclass(frozen=True)
class Json(Format):
    """JSON objects: `Json("order_id LONG, amount DOUBLE, created_at TIMESTAMP")`.

    Without columns a source learns them once from the rows that are there and freezes them in `schemas/`.
    """

    schema: str | None = None

    def decode(self, raw: DataFrame) -> DataFrame:
        """Parse in Spark's JVM; a row with a wrong type is as bad as one that is no JSON."""
        from pyspark.sql import functions as F  # noqa: N812

        options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
        text = F.col("value").cast("string")
        parsed = raw.withColumn(_PARSED, F.from_json(text, f"{self.schema}, {_CORRUPT} STRING", options))
        empty = F.col("value").isNull() | (F.octet_length("value") == 0)
        bad = F.when(empty, F.lit("no value")).when(
            F.col(_PARSED).isNull() | F.col(f"{_PARSED}.{_CORRUPT}").isNotNull(), F.lit("not JSON of the schema")
        )
        kept = [name for name in raw.columns if name != "value"]
        return parsed.select(f"{_PARSED}.*", bad.alias(BAD), *kept).drop(_CORRUPT)

    def encode(self, rows: DataFrame) -> Column:
        """One JSON object per row, null fields left out."""
        from pyspark.sql import functions as F  # noqa: N812

        return F.to_json(F.struct(*quoted(rows.columns)))


@dataclass(frozen=True)
class Csv(Format):
    """Lines of separated values with a declared schema."""

    schema: str
    separator: str = ","

    def decode(self, raw: DataFrame) -> DataFrame:
        """Parse in Spark's JVM."""
        from pyspark.sql import functions as F  # noqa: N812

        options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT, "sep": self.separator}
        text = F.col("value").cast("string")
        parsed = raw.withColumn(_PARSED, F.from_csv(text, f"{self.schema}, {_CORRUPT} STRING", options))
        empty = F.col("value").isNull() | (F.octet_length("value") == 0)
        bad = F.when(empty, F.lit("no value")).when(
            F.col(f"{_PARSED}.{_CORRUPT}").isNotNull(), F.lit("not CSV of the schema")
        )
        kept = [name for name in raw.columns if name != "value"]
        return parsed.select(f"{_PARSED}.*", bad.alias(BAD), *kept).drop(_CORRUPT)

    def encode(self, rows: DataFrame) -> Column:
        """One line per row."""
        from pyspark.sql import functions as F  # noqa: N812

        return F.to_csv(F.struct(*quoted(rows.columns)), {"sep": self.separator})


@dataclass(frozen=True)
class Raw(Format):
    """The bytes as they are, in a column `value`."""

    def decode(self, raw: DataFrame) -> DataFrame:
        """Nothing can be wrong."""
        from pyspark.sql import functions as F  # noqa: N812

        return raw.withColumn(BAD, F.lit(None).cast("string"))

    def encode(self, rows: DataFrame) -> Column:
        """The column `value`."""
        from pyspark.sql import functions as F  # noqa: N812

        return F.col("value")
