"""Running features of a key, for models: at each of its rows, and when a window of it becomes empty."""

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
from penstock.pipeline.durations import short
from penstock.pipeline.keyed.feature import Count, Distinct, Last, Total
from penstock.pipeline.keyed.feature_rows import AT, KEY, FeatureColumn, FeatureRows
from penstock.pipeline.keyed.keys import key_columns, key_text
from penstock.pipeline.keyed.on_spark import ROW, turns
from penstock.pipeline.keyed.running import Counted, Different, Newest, Summed, SummedDecimals, SummedReals
from penstock.pipeline.operators.arguments import micros_of, names_of, refuse_clash, refused
from penstock.pipeline.operators.event_time import event_time_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

    from penstock.pipeline.keyed.feature import Feature
    from penstock.pipeline.keyed.running import Running

__all__ = ["CREATED", "features"]

CREATED = "created"
_PLAIN = (StringType, IntegralType, DoubleType, FloatType, BooleanType)  # JSON has their values as they are


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
    made = [one for name, feature in wanted.items() for one in _made(rows, name, feature)]
    refuse_clash(
        [*keys, time, CREATED, *(one.column.name for one in made)], "Give a feature, or a column, another name."
    )
    fields = {one.column.field: one.value for one in made if one.value is not None}
    text = F.to_json(F.struct(key_text(keys).alias(KEY), *(value.alias(name) for name, value in fields.items())), EXACT)
    columns = [one.column for one in made]
    keeps = f"rows for {', '.join(f'{one.name} [{one.field}, {one.over / 1e6:g} s]' for one in columns)}"
    found = turns(rows, text, keys, partial(FeatureRows, columns, empty_rows=empty_rows), keeps)
    told = ", ".join(f"`{one.column.name}` {one.told}" for one in made)
    row = found.select(F.from_json(ROW, f"{KEY} STRING, {AT} BIGINT, {told}").alias("row"))
    return row.select(
        *key_columns(F.col(f"row.{KEY}"), rows, keys),
        F.timestamp_micros(F.col(f"row.{AT}")).alias(time),
        F.current_timestamp().alias(CREATED),
        *(one.shown(F.col("row").getField(one.column.name)).alias(one.column.name) for one in made),
    )


@dataclass(frozen=True)
class _Made:
    """A column of a feature: what it needs of a row, the type that Python tells it in, and how it is shown then."""

    column: FeatureColumn
    value: Column | None
    told: str
    shown: Callable[[Column], Column]


def _made(rows: DataFrame, name: str, feature: Feature) -> Iterator[_Made]:
    """The columns of a feature, one for each time."""
    if not isinstance(feature, Count | Total | Distinct | Last):
        raise refused(f"{name}={feature!r} is not a feature.", "Write ps.Count, ps.Total, ps.Distinct or ps.Last.")
    overs = names_of(feature.over)
    if not overs:
        raise refused(f"Feature {name!r} is over no time.", "Write over='1 hour', or several of them.")
    field, value, begin, told, shown = _computed(name, feature, {one.name: one.dataType for one in rows.schema.fields})
    for over in overs:
        column = FeatureColumn(f"{name}_{short(over)}", micros_of("over", over), field, begin)
        yield _Made(column, value, told, shown)


_Computed = tuple[str, "Column | None", "Callable[[], Running]", str, "Callable[[Column], Column]"]


def _computed(name: str, feature: Feature, kinds: Mapping[str, DataType]) -> _Computed:
    """What a feature looks at and under which name, its aggregate, and the type and look of its answer."""
    if feature.column is None:
        return AT, None, Counted, "BIGINT", _as_it_is
    if feature.column not in kinds:
        raise refused(f"Feature {name!r}: there is no column {feature.column!r}.", f"Name one of {', '.join(kinds)}.")
    kind, (value,) = kinds[feature.column], quoted([feature.column])
    if isinstance(feature, Count):
        return f"there:{feature.column}", F.when(value.isNotNull(), F.lit(1)), Counted, "BIGINT", _as_it_is
    if isinstance(feature, Total):
        return _total(name, feature.column, kind)
    if isinstance(feature, Distinct) and isinstance(kind, MapType):
        raise refused(f"Feature {name!r}: maps can't be compared.", "Take a value out of it in the flow.")
    plain = isinstance(kind, _PLAIN)
    field = f"{'value' if plain else 'text'}:{feature.column}"
    kept = value if plain else F.when(value.isNotNull(), F.to_json(F.struct(value.alias("one")), EXACT))
    if isinstance(feature, Distinct):
        return field, kept, Different, "BIGINT", _as_it_is
    if feature.size < 1:
        raise refused(f"Feature {name!r} has the last {feature.size} values.", "Write ps.Last('amount', 5, over=…).")
    begin = partial(Newest, feature.size)
    if plain:
        return field, kept, begin, f"ARRAY<{kind.simpleString()}>", _as_it_is
    return field, kept, begin, "ARRAY<STRING>", partial(_read, kind.simpleString())


def _total(name: str, column: str, kind: DataType) -> _Computed:
    (value,) = quoted([column])
    if isinstance(kind, IntegralType):
        return f"value:{column}", value, Summed, "BIGINT", _as_it_is
    if isinstance(kind, DoubleType):
        return f"value:{column}", value, SummedReals, "DOUBLE", _as_it_is
    if isinstance(kind, DecimalType):
        told = f"DECIMAL(38, {kind.scale})"
        return f"exact:{column}", value.cast("string"), partial(SummedDecimals, kind.scale), told, _as_it_is
    if isinstance(kind, NumericType):
        return f"double:{column}", value.cast("double"), SummedReals, "DOUBLE", _as_it_is
    raise refused(f"Feature {name!r}: {column!r} is no number.", "Cast it in the flow.")


def _as_it_is(told: Column) -> Column:
    return told


def _read(kind: str, told: Column) -> Column:
    """Values that Python has as texts."""
    return F.transform(told, lambda one: F.from_json(one, f"one {kind}", EXACT).getField("one"))
