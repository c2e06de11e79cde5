"""JSON texts as rows of columns: the plain ones quickly, all others by Spark's own parser."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from penstock.connectors.base import quoted
from penstock.connectors.expressions import Expressions
from penstock.connectors.plain_json import PlainJson, can_be_plain

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = ["with_json"]

_TEXT, _PLAIN = "__text", "__plain"
_EVALUATOR = "org.apache.spark.sql.catalyst.expressions.json.JsonToStructsEvaluator"


def with_json(rows: DataFrame, name: str, text: Column, columns: str, corrupt: str) -> DataFrame:
    """The rows with a struct of the columns in a text; before them, in `corrupt`, the text if it is not of them."""
    zone = str(rows.sparkSession.conf.get("spark.sql.session.timeZone"))
    plain, row = _readers(rows.sparkSession, f"{corrupt} STRING, {columns}", corrupt, zone)
    read = rows.withColumn(_TEXT, text)
    if plain is not None:
        read = read.withColumn(_PLAIN, plain)
    return read.select(*quoted(rows.columns), row.alias(name))


@lru_cache(maxsize=256)
def _readers(session: SparkSession, columns: str, corrupt: str, zone: str) -> tuple[Column | None, Column]:
    """What reads a plain text, if there can be one, and what gives the row of any; kept: it takes a while to make."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import StructType

    kind = StructType.fromDDL(columns)
    assert isinstance(kind, StructType)
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": corrupt}
    if not can_be_plain(kind):
        return None, F.from_json(_TEXT, kind, options)
    e = Expressions(session)
    text = e.of(F.col(_TEXT))
    plain = PlainJson(e, utc=zone == "UTC").row(text, kind.fields[1:], corrupt)
    by_spark = e.column(_by_spark(e, text, kind, options, zone))
    is_plain = F.col(f"{_PLAIN}.{corrupt}").isNull()
    return e.column(plain), F.when(is_plain, F.col(_PLAIN)).otherwise(by_spark)


def _by_spark(e: Expressions, text: Any, kind: StructType, options: dict[str, str], zone: str) -> Any:
    """What `from_json` evaluates; as a call it does not end the code that Spark generates for the rows around it."""
    columns = e.jvm.org.apache.spark.sql.types.DataType.fromJson(kind.json()).asNullable()
    given = (columns, options["columnNameOfCorruptRecord"], e.jvm.scala.Some(zone), False)
    parser = e.make("json.JsonToStructsEvaluator", e.jvm.PythonUtils.toScalaMap(options), *given)
    return e.call(e.constant(parser, e.object(_EVALUATOR)), "evaluate", columns, text, null=True)
