"""A lookup on Spark: the questions of an Arrow batch at a time, answers read by Spark, all other columns left alone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from penstock.connectors.base import ORIGIN, quoted
from penstock.errors import DeclarationError
from penstock.pipeline.lookups.asking import asking

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import Column, DataFrame

    from penstock.pipeline.lookups.declared import Lookup
    from penstock.settings import Postgres

__all__ = ["answered", "failure_of", "known_failures"]

_ANSWER, _PARSED, _CORRUPT = "__answer", "__parsed", "__corrupt"
_FAILURE = "STRUCT<kind: STRING, message: STRING>"
_LONGEST = 500
_MOST = 1000
_PLAIN = (
    "string",
    "byte",
    "short",
    "integer",
    "long",
    "decimal",
    "boolean",
    "varchar",
    "char",
    "date",
    "timestamp",
    "timestamp_ntz",
)


def answered(lookup: Lookup, rows: DataFrame, postgres: Postgres, name: str) -> DataFrame:
    """The rows with a column of that name: `rows` (what is added), `error`, and `question` for the first row of it."""
    from pyspark.sql import functions as F  # noqa: N812

    _check(lookup, rows)
    answer = f"STRUCT<text: STRING, error: {_FAILURE}, first: BOOLEAN>"
    # Called once a row, wherever the columns are used: Spark does not repeat or move what may not be deterministic.
    ask = F.arrow_udf(_asks(lookup, postgres), answer).asNondeterministic()  # type: ignore[call-overload]
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    text, parsed = F.col(f"{_ANSWER}.text"), F.col(_PARSED)
    heard = rows.withColumn(_ANSWER, ask(_question(lookup))).withColumn(
        _PARSED, F.from_json(text, f"{lookup.returns}, {_CORRUPT} STRING", options)
    )
    wrong = F.struct(
        F.lit("wrong answer").alias("kind"),
        F.concat(F.lit(f"{lookup.target()} answers no {lookup.returns}: "), text.substr(1, _LONGEST)).alias("message"),
    )
    unread = text.isNotNull() & (parsed.isNull() | parsed[_CORRUPT].isNotNull())
    error = F.coalesce(F.col(f"{_ANSWER}.error"), F.when(unread, wrong))
    added = F.struct(*(parsed.getField(one).alias(one) for one in lookup.names))
    question = F.when(F.col(f"{_ANSWER}.first"), F.to_json(_question(lookup)))
    made = F.struct(F.array(added).alias("rows"), error.alias("error"), question.alias("question"))
    return heard.withColumn(name, made).drop(_ANSWER, _PARSED)


def failure_of(made: str) -> Column:
    """What failed, to be counted with how often: questions and what was said, as many as can be remembered."""
    from pyspark.sql import functions as F  # noqa: N812

    error, question = F.col(f"{made}.error"), F.col(f"{made}.question")
    told = F.struct(question, error["kind"].alias("kind"), error["message"].substr(1, _LONGEST).alias("message"))
    failed = F.when(error.isNotNull() & question.isNotNull(), told)
    return F.max_by(failed, failed, _MOST)


def known_failures(lookup: Lookup, failed: Sequence[dict[str, str]]) -> Column | None:
    """What was said of a row when its batch was computed, null if it was answered; None if not all is known."""
    from pyspark.sql import functions as F  # noqa: N812

    if len(failed) >= _MOST:
        return None
    said = {one["question"]: {"kind": one["kind"], "message": one["message"]} for one in failed}
    known = F.from_json(F.lit(json.dumps(said)), f"MAP<STRING, {_FAILURE}>")
    return F.try_element_at(known, F.to_json(_question(lookup)))


def _question(lookup: Lookup) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    columns = zip(lookup.asks_by, quoted(lookup.asks_by), strict=True)
    return F.struct(*(column.cast("string").alias(name) for name, column in columns))


def _check(lookup: Lookup, rows: DataFrame) -> None:
    """The columns that are asked by are there and can be written out; those that are added are new."""
    given = [one for one in rows.columns if one != ORIGIN]
    for name in lookup.asks_by:
        if name not in given:
            raise _wrong(f"{lookup.target()} is asked by {name!r}, which its input lacks.", given)
        kind = rows.schema[name].dataType.typeName()
        if kind not in _PLAIN:
            raise DeclarationError(
                f"{lookup.target()} is asked by {name!r}, which is no plain value ({kind}).",
                code="lookup-wrong",
                remedy="Cast it to a text in the flow before.",
            )
    for name in lookup.names:
        if name.lower() in (one.lower() for one in given):
            raise DeclarationError(
                f"{lookup.target()} returns {name!r}, which its input has already.",
                code="lookup-wrong",
                remedy="Rename the input's column in a flow before, or leave it out of what is returned.",
            )


def _wrong(problem: str, given: list[str]) -> DeclarationError:
    return DeclarationError(problem, code="lookup-wrong", remedy=f"It has {', '.join(given)}.")


def _asks(lookup: Lookup, postgres: Postgres) -> Callable[..., Any]:
    import pyarrow as pa

    error = pa.struct([("kind", pa.string()), ("message", pa.string())])
    kind = pa.struct([("text", pa.string()), ("error", error), ("first", pa.bool_())])

    def asks(rows: Any) -> Any:
        fields = [column.to_pylist() for column in rows.flatten()]
        questions = list(zip(*fields, strict=True))
        answers = asking(lookup, postgres).answers(questions)
        seen, told = set(), []
        for question in questions:
            one = answers[question]
            failed = None if one.rule is None else {"kind": one.rule, "message": one.said}
            told.append({"text": one.text, "error": failed, "first": question not in seen})
            seen.add(question)
        return pa.array(told, kind)

    asks.__annotations__ = {"rows": pa.Array, "return": pa.Array}  # Spark chooses by them what it hands over
    return asks
