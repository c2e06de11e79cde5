"""Which rows of a batch came too late for their window: exactly those that Spark's own late filter dropped.

Spark drops a row of batch N from a window whose end is not after the watermark of batch N-1. The rows of a past batch
are put through the same functions; the input of the aggregate, with each row's windows, is taken out of the plan that
Spark's analyzer makes of them, and asked the same question.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.connectors.base import ORIGIN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["late_rows"]

_WINDOW = "window"


def late_rows(result: DataFrame, watermark: str) -> DataFrame | None:
    """The rows that went into a windowed aggregate too late, each once; None if there is no such aggregate."""
    from pyspark.sql import functions as F  # noqa: N812

    given = _input_of_aggregate(result)
    if given is None or ORIGIN not in given.columns:
        return None
    end = F.col(f"{_WINDOW}.end")
    said = F.concat(F.lit("its window ended at "), end.cast("string"), F.lit(f", the watermark was {watermark}"))
    late = given.filter(end <= F.lit(watermark).cast("timestamp"))
    # A row that is in several sliding windows may have missed several: it is late once.
    return (
        late.groupBy(F.struct(F.col(ORIGIN)).alias("__row"))
        .agg(F.min(said).alias("__said"))
        .select(F.col(f"__row.{ORIGIN}").alias(ORIGIN), "__said")
    )


def _input_of_aggregate(result: DataFrame) -> DataFrame | None:
    from pyspark.sql import DataFrame

    plan = _find(result._jdf.queryExecution().analyzed())
    if plan is None:
        return None
    session = result.sparkSession
    jvm: Any = session._jvm
    dataset = getattr(getattr(jvm.org.apache.spark.sql.classic, "Dataset$"), "MODULE$")
    return DataFrame(dataset.ofRows(session._jsparkSession, plan), session)


def _find(node: Any) -> Any:
    """The child of the first aggregate over windows, from the top of the plan down."""
    children = node.children()
    if node.nodeName() == "Aggregate":
        child = children.apply(0)
        output = child.output()
        if _WINDOW in {output.apply(number).name() for number in range(output.size())}:
            return child
    for number in range(children.size()):
        found = _find(children.apply(number))
        if found is not None:
            return found
    return None
