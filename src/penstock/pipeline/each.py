"""Single rows made in Python, by a function or a lookup: what goes wrong is told of the row, and the query goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.connectors.base import ORIGIN, quoted
from penstock.pipeline.lookups.on_spark import answered, failure_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame, Row

    from penstock.connectors.base import Context
    from penstock.pipeline.declare import Flow

__all__ = ["MADE", "counts_of_made", "made_of", "rows_made"]

MADE = "__made"
_LONGEST = 2000


def made_of(flow: Flow, rows: DataFrame, context: Context) -> DataFrame:
    """One row for each of the input: what was given in `__made.rows`, or what went wrong in `__made.error`."""
    from pyspark.sql import functions as F  # noqa: N812

    if flow.lookup is not None:
        return answered(flow.lookup, rows, context.settings.postgres, MADE)
    returns = f"STRUCT<rows: ARRAY<STRUCT<{flow.returns}>>, error: STRUCT<kind: STRING, message: STRING>>"
    given = [name for name in rows.columns if name != ORIGIN]
    # Called once a row, wherever the columns are used: Spark does not repeat or move what may not be deterministic.
    function = F.udf(_guarded(flow.function, str(flow.returns)), returns).asNondeterministic()
    kept = [ORIGIN] if ORIGIN in rows.columns else []
    return rows.select(function(F.struct(*quoted(given))).alias(MADE), *kept)


def counts_of_made(flow: Flow) -> list[Column]:
    """How many rows went wrong; of a lookup also which, because it may answer when it is asked again."""
    from pyspark.sql import functions as F  # noqa: N812

    raised = F.count_if(F.col(f"{MADE}.error").isNotNull()).alias("raised")
    return [raised] if flow.lookup is None else [raised, failure_of(MADE).alias("failed")]


def rows_made(made: DataFrame, given: DataFrame) -> DataFrame:
    """The rows that were given; a column that keeps the name of the event time keeps its meaning."""
    from pyspark.sql import functions as F  # noqa: N812

    kept = quoted(name for name in made.columns if name != MADE)
    out = made.filter(F.col(f"{MADE}.error").isNull()).select(*kept, F.inline(f"{MADE}.rows"))
    for column in given.schema.fields:
        if column.metadata and column.name in out.columns and out.schema[column.name].dataType == column.dataType:
            out = out.withMetadata(column.name, column.metadata)
    return out


def _guarded(function: Callable[..., Any], returns: str) -> Callable[[Row], dict[str, Any]]:
    from pyspark.sql.types import _make_type_verifier, _parse_datatype_string

    columns: Any = _parse_datatype_string(returns)
    names = set(columns.names)
    fits = _make_type_verifier(columns)

    def guarded(row: Row) -> dict[str, Any]:
        try:
            gave = function(row.asDict(recursive=True))
            rows = [] if gave is None else [gave] if isinstance(gave, dict) else list(gave)
            for one in rows:
                if unknown := set(one) - names:
                    raise ValueError(f"{', '.join(sorted(unknown))} is not among the columns that it returns")
                fits(one)
            return {"rows": rows, "error": None}
        except Exception as error:  # noqa: BLE001
            return {"rows": [], "error": {"kind": type(error).__name__, "message": str(error)[:_LONGEST]}}

    guarded.__annotations__ = {}  # Spark would choose another kind of function by them
    return guarded
