"""A Python function over single rows: what it raises is told of the row, and the query goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.connectors.base import ORIGIN, quoted

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, Row

    from penstock.pipeline.declare import Flow

__all__ = ["MADE", "made_of", "rows_made"]

MADE = "__made"
_LONGEST = 2000


def made_of(flow: Flow, rows: DataFrame) -> DataFrame:
    """One row for each of the input: what the function gave in `__made.rows`, or what it raised in `__made.error`."""
    from pyspark.sql import functions as F  # noqa: N812

    returns = f"STRUCT<rows: ARRAY<STRUCT<{flow.returns}>>, error: STRUCT<kind: STRING, message: STRING>>"
    given = [name for name in rows.columns if name != ORIGIN]
    # Called once a row, wherever the columns are used: Spark does not repeat or move what may not be deterministic.
    function = F.udf(_guarded(flow.function, str(flow.returns)), returns).asNondeterministic()
    kept = [ORIGIN] if ORIGIN in rows.columns else []
    return rows.select(function(F.struct(*quoted(given))).alias(MADE), *kept)


def rows_made(made: DataFrame, given: DataFrame) -> DataFrame:
    """The rows that the function gave; a column that keeps the name of the event time keeps its meaning."""
    from pyspark.sql import functions as F  # noqa: N812

    kept = [ORIGIN] if ORIGIN in made.columns else []
    out = made.filter(F.col(f"{MADE}.error").isNull()).select(F.inline(f"{MADE}.rows"), *kept)
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
