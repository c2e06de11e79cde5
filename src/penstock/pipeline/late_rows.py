"""Which rows of a batch came too late: exactly those that Spark's own late filter dropped.

Spark drops a row of batch N before the first operator with state if its time, or the end of its window, is not after
the watermark of batch N-1. The rows of a past batch are put through the same functions; the input of that operator is
taken out of the plan that Spark's analyzer makes of them, and asked the same question.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.connectors.base import ORIGIN
from penstock.pipeline.spark_plan import DELAY, analysed, children, first_states, frame

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

__all__ = ["late_rows"]


def late_rows(result: DataFrame, watermark: str) -> Iterator[DataFrame]:
    """The rows that met their first state too late, each once, with `__origin`, `__said` and their own columns."""
    from pyspark.sql import functions as F  # noqa: N812

    for state in first_states(analysed(result)):
        for child, time, is_window in _inputs(state):
            given = frame(result, _as_given(child))
            if ORIGIN not in given.columns:
                continue
            end = F.col(f"`{time}`.end") if is_window else F.col(f"`{time}`")
            what = "its window ended at " if is_window else f"its {time} is "
            said = F.concat(F.lit(what), end.cast("string"), F.lit(f", the watermark was {watermark}"))
            shown = [F.col(f"`{name}`") for name in given.columns if name not in (ORIGIN, time if is_window else "")]
            late = given.filter(end <= F.lit(watermark).cast("timestamp"))
            # A row that is in several sliding windows may have missed several: it is late once.
            same = (F.col(f"{ORIGIN}.row"), F.to_json(F.struct(*shown)))
            once = late.groupBy(*(one.alias(f"__{at}") for at, one in enumerate(same))).agg(
                F.first(ORIGIN).alias(ORIGIN), F.min(said).alias("__said"), F.first(F.struct(*shown)).alias("__columns")
            )
            yield once.select(ORIGIN, "__said", "__columns.*")


def _as_given(node: Any) -> Any:
    """The rows as the user gave them to an operator: below what it, or Spark, put together for its state."""
    names = [node.output().apply(number).name() for number in range(node.output().size())]
    hidden = len(set(names)) < len(names) or any(name.startswith("__") and name != ORIGIN for name in names)
    return _as_given(children(node)[0]) if hidden else node


def _inputs(state: Any) -> Iterator[tuple[Any, str, bool]]:
    """The inputs of an operator, each with the column that says when a row is too late, and whether it is a window."""
    keys = state.groupingExpressions() if state.nodeName() == "Aggregate" else None
    for child in children(state):
        columns = keys if keys is not None else child.output()
        for number in range(columns.size()):
            column = columns.apply(number)
            if hasattr(column, "metadata") and column.metadata().contains(DELAY):
                yield child, str(column.name()), column.dataType().typeName() == "struct"
                break
