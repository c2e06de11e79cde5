"""How rows lie in bytes: JSON, CSV, raw."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.connectors.base import BAD, EXACT, quoted
from penstock.connectors.frozen import frozen_schema, json_columns
from penstock.connectors.json_rows import with_json

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from pyspark.sql import Column, DataFrame

    from penstock.connectors.base import Context
    from penstock.registry.contract import Rule

__all__ = ["PARSED", "Csv", "Format", "Json", "PlainFormat", "Raw", "Reading", "Topical", "Writing"]

PARSED = "__parsed"
_CORRUPT = "__corrupt"


class Reading(ABC):
    """Bytes to columns."""

    @abstractmethod
    def decode(self, raw: DataFrame) -> DataFrame:
        """Columns out of the binary column `value`; `__bad` for what can't be decoded; other columns stay."""


class Writing(ABC):
    """Columns to bytes."""

    @abstractmethod
    def encode(self, rows: DataFrame) -> Column:
        """The binary or text `value` of each row."""

    def unfit(self, rows: DataFrame) -> Column | None:
        """Why a row can't be written, null if it can be; None if every row can be."""
        return None


class Topical(ABC):
    """What a format may ask of the source that it is of."""

    @property
    @abstractmethod
    def topics(self) -> tuple[str, ...]:
        """The topics, or the pattern."""

    @abstractmethod
    def target(self) -> str:
        """What is read, in a word."""

    @abstractmethod
    def newest_values(self, context: Context) -> DataFrame | None:
        """The column `value` of some newest messages as text, None if they can't be had."""

    @abstractmethod
    def ends(self, context: Context) -> dict[str, int]:
        """How far the topics go now for who reads what is committed, by `topic-partition`."""

    @abstractmethod
    def beginnings(self, context: Context, begin: dict[str, int], end: dict[str, int], length: int) -> set[bytes]:
        """The first bytes of the messages between offsets by `topic-partition`, each once."""


class Format(ABC):
    """How a declaration names it; the bytes are the business of what it gives."""

    def problems(self) -> Iterator[tuple[str, str]]:
        """What is wrong with it."""
        yield from ()

    @abstractmethod
    def for_reading(self, context: Context, source: Topical) -> Reading:
        """What decodes the messages of a source."""

    @abstractmethod
    def for_writing(self, context: Context, topic: str, rows: DataFrame) -> Writing:
        """What encodes rows for a topic."""

    def narrowed(self, columns: Collection[str], context: Context, source: Topical) -> Format:
        """The format with these of its columns only, if that is less work."""
        return self

    def rules(self, context: Context, source: Topical, rows: DataFrame) -> list[tuple[str, Column, Column]]:
        """What rows of a source must be: a rule's name, whether a row breaks it, what to say."""
        return []

    def unique(self, context: Context, source: Topical) -> list[Rule]:
        """What must be unique within a time among the rows of a source."""
        return []

    def checked(self, context: Context, topic: str, rows: DataFrame) -> Column:
        """The `value` of each row as it would be written; raises if rows of these columns can't be."""
        return self.for_writing(context, topic, rows).encode(rows)


class PlainFormat(Format, Reading, Writing):
    """One that knows all by itself."""

    def for_reading(self, context: Context, source: Topical) -> Reading:
        """Itself."""
        return self

    def for_writing(self, context: Context, topic: str, rows: DataFrame) -> Writing:
        """Itself."""
        return self


@dataclass(frozen=True)
class Json(PlainFormat):
    """JSON objects: `Json("order_id LONG, amount DOUBLE, created_at TIMESTAMP")`.

    Without columns a source learns them once from the rows that are there and freezes them in `schemas/`.
    """

    schema: str | None = None

    def for_reading(self, context: Context, source: Topical) -> Reading:
        """With its columns: declared, or learnt once from the newest rows."""
        if self.schema:
            return self

        def learn() -> str:
            values = source.newest_values(context)
            return json_columns(values) if values is not None else ""

        return Json(frozen_schema(context, source.target(), learn))

    def narrowed(self, columns: Collection[str], context: Context, source: Topical) -> Format:
        """Only these are parsed; the others must be JSON, whatever their types are."""
        from pyspark.sql.types import StructType

        reading = self.for_reading(context, source)
        assert isinstance(reading, Json)
        every = StructType.fromDDL(reading.schema or "")
        assert isinstance(every, StructType)
        kept = [one for one in every if one.name in columns] or every.fields[:1]
        named = (f"`{one.name.replace('`', '``')}` {one.dataType.simpleString()}" for one in kept)
        return Json(", ".join(named)) if len(kept) < len(every) else reading

    def decode(self, raw: DataFrame) -> DataFrame:
        """Parse in Spark's JVM; a row with a wrong type is as bad as one that is no JSON."""
        from pyspark.sql import functions as F  # noqa: N812

        parsed = with_json(raw, PARSED, F.col("value").cast("string"), self.schema or "", _CORRUPT)
        empty = F.col("value").isNull() | (F.octet_length("value") == 0)
        bad = F.when(empty, F.lit("no value")).when(
            F.col(PARSED).isNull() | F.col(f"{PARSED}.{_CORRUPT}").isNotNull(), F.lit("not JSON of the schema")
        )
        kept = [name for name in raw.columns if name != "value"]
        return parsed.select(f"{PARSED}.*", bad.alias(BAD), *kept).drop(_CORRUPT)

    def encode(self, rows: DataFrame) -> Column:
        """One JSON object per row, null fields left out."""
        from pyspark.sql import functions as F  # noqa: N812

        return F.to_json(F.struct(*quoted(rows.columns)), EXACT)


@dataclass(frozen=True)
class Csv(PlainFormat):
    """Lines of separated values with a declared schema."""

    schema: str
    separator: str = ","

    def decode(self, raw: DataFrame) -> DataFrame:
        """Parse in Spark's JVM."""
        from pyspark.sql import functions as F  # noqa: N812

        options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT, "sep": self.separator}
        text = F.col("value").cast("string")
        parsed = raw.withColumn(PARSED, F.from_csv(text, f"{self.schema}, {_CORRUPT} STRING", options))
        empty = F.col("value").isNull() | (F.octet_length("value") == 0)
        bad = F.when(empty, F.lit("no value")).when(
            F.col(f"{PARSED}.{_CORRUPT}").isNotNull(), F.lit("not CSV of the schema")
        )
        kept = [name for name in raw.columns if name != "value"]
        return parsed.select(f"{PARSED}.*", bad.alias(BAD), *kept).drop(_CORRUPT)

    def encode(self, rows: DataFrame) -> Column:
        """One line per row."""
        from pyspark.sql import functions as F  # noqa: N812

        return F.to_csv(F.struct(*quoted(rows.columns)), {"sep": self.separator})


@dataclass(frozen=True)
class Raw(PlainFormat):
    """The bytes as they are, in a column `value`."""

    def decode(self, raw: DataFrame) -> DataFrame:
        """Nothing can be wrong."""
        from pyspark.sql import functions as F  # noqa: N812

        return raw.withColumn(BAD, F.lit(None).cast("string"))

    def encode(self, rows: DataFrame) -> Column:
        """The column `value`."""
        from pyspark.sql import functions as F  # noqa: N812

        return F.col("value")
