"""Which rows of a batch came too late: exactly those that Spark's own late filter dropped.

Spark drops a row of batch N before the first operator with state if its time, or the end of its window, is not after
the watermark of batch N-1. The rows of a past batch are put through the same functions; the input of that operator is
taken out of the plan that Spark's analyzer makes of them, and asked the same question.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.connectors.base import ORIGIN, quoted
from penstock.pipeline.spark_plan import (
    OWN,
    analysed,
    children,
    elements,
    first_states,
    frame,
    is_time,
    with_own_names,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

__all__ = ["late_rows"]


def late_rows(result: DataFrame, watermark: str) -> Iterator[DataFrame]:
    """The rows that met their first state too late, each once, with `__origin`, `__said` and their own columns."""
    from pyspark.sql import functions as F  # noqa: N812

    for state in first_states(analysed(result)):
        for child, at, is_window in _inputs(state):
            given = with_own_names(frame(result, child))
            if ORIGIN not in given.columns:
                continue
            time = given.columns[at]
            end = F.col(f"`{time}`.end") if is_window else F.col(f"`{time}`")
            what = "its window ended at " if is_window else f"its {time} is "
            said = F.concat(F.lit(what), end.cast("string"), F.lit(f", the watermark was {watermark}"))
            hidden = {ORIGIN, *OWN, *((time,) if is_window else ())}
            shown = quoted(name for name in given.columns if name not in hidden)
            late = given.filter(end <= F.lit(watermark).cast("timestamp"))
            # A row that is in several sliding windows may have missed several: it is late once.
            same = (F.col(f"{ORIGIN}.row"), F.to_json(F.struct(*shown)))
            once = late.groupBy(*(one.alias(f"__{at}") for at, one in enumerate(same))).agg(
                F.first(ORIGIN).alias(ORIGIN), F.min(said).alias("__said"), F.first(F.struct(*shown)).alias("__columns")
            )
            yield once.select(ORIGIN, "__said", "__columns.*")


def _inputs(state: Any) -> Iterator[tuple[Any, int, bool]]:
    """The inputs of an operator, each with the place of the column that makes a row late, and if it is a window."""
    keys = state.groupingExpressions() if state.nodeName() == "Aggregate" else None
    for child in map(_as_given, children(state)):
        columns = elements(child.output())
        marked = [one for one in (elements(keys) if keys is not None else columns) if is_time(one)]
        if marked:
            at = next(number for number, one in enumerate(columns) if one.exprId().equals(marked[0].exprId()))
            yield child, at, marked[0].dataType().typeName() == "struct"


def _as_given(node: Any) -> Any:
    """The rows as the user gave them to an operator of ours: below what it put together for its state."""
    names = {one.name() for one in elements(node.output())}
    return _as_given(children(node)[0]) if names & OWN else node
