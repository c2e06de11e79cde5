"""How a feature is computed, by the type of its column: what Python keeps of a row, and what it says of many."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import (
    BooleanType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    MapType,
    NumericType,
    StringType,
)

from penstock.connectors.base import EXACT, quoted
from penstock.pipeline.keyed.feature import Count, Distinct, Total
from penstock.pipeline.keyed.feature_rows import AT
from penstock.pipeline.keyed.running import Counted, Different, Newest, Summed, SummedDecimals, SummedReals
from penstock.pipeline.operators.arguments import refused

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import Column
    from pyspark.sql.types import DataType

    from penstock.pipeline.keyed.feature import Feature
    from penstock.pipeline.keyed.running import Running

__all__ = ["Computed", "computed"]

_PLAIN = (StringType, IntegralType, DoubleType, FloatType, BooleanType)  # JSON has their values as they are


@dataclass(frozen=True)
class Computed:
    """The field of a row's text and its value (none: the time of the row), the aggregate, the type that it is told in.

    With `texts` its values are texts, to be read as that type.
    """

    field: str
    value: Column | None
    begin: Callable[[], Running]
    told: str
    texts: str | None = None

    def shown(self, told: Column) -> Column:
        """What Python has told, as the column that comes out."""
        kind = self.texts
        return F.transform(told, lambda one: F.from_json(one, f"one {kind}", EXACT)["one"]) if kind else told


def computed(name: str, feature: Feature, kinds: Mapping[str, DataType]) -> Computed:
    """How a feature is computed over rows with columns of these types."""
    if feature.column is None:
        return Computed(AT, None, Counted, "BIGINT")
    if feature.column not in kinds:
        raise refused(f"Feature {name!r}: there is no column {feature.column!r}.", f"Name one of {', '.join(kinds)}.")
    kind, (value,) = kinds[feature.column], quoted([feature.column])
    if isinstance(feature, Count):
        return Computed(f"there:{feature.column}", F.when(value.isNotNull(), F.lit(1)), Counted, "BIGINT")
    if isinstance(feature, Total):
        return _total(name, feature.column, kind)
    if isinstance(feature, Distinct) and isinstance(kind, MapType):
        raise refused(f"Feature {name!r}: maps can't be compared.", "Take a value out of it in the flow.")
    plain = isinstance(kind, _PLAIN)
    field = f"{'value' if plain else 'text'}:{feature.column}"
    kept = value if plain else F.when(value.isNotNull(), F.to_json(F.struct(value.alias("one")), EXACT))
    if isinstance(feature, Distinct):
        return Computed(field, kept, Different, "BIGINT")
    if feature.size < 1:
        raise refused(f"Feature {name!r} has the last {feature.size} values.", "Write ps.Last('amount', 5, over=…).")
    named, newest = kind.simpleString(), partial(Newest, feature.size)
    if plain:
        return Computed(field, kept, newest, f"ARRAY<{named}>")
    return Computed(field, kept, newest, "ARRAY<STRING>", texts=named)


def _total(name: str, column: str, kind: DataType) -> Computed:
    (value,) = quoted([column])
    if isinstance(kind, IntegralType):
        return Computed(f"value:{column}", value, Summed, "BIGINT")
    if isinstance(kind, DoubleType):
        return Computed(f"value:{column}", value, SummedReals, "DOUBLE")
    if isinstance(kind, DecimalType):
        begin = partial(SummedDecimals, kind.scale)
        return Computed(f"exact:{column}", value.cast("string"), begin, f"DECIMAL(38, {kind.scale})")
    if isinstance(kind, NumericType):
        return Computed(f"double:{column}", value.cast("double"), SummedReals, "DOUBLE")
    raise refused(f"Feature {name!r}: {column!r} is no number.", "Cast it in the flow.")
