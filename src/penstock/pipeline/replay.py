"""A past batch once more: exactly its rows are read again, to tell which were bad and which came too late.

The user's functions are called on them as they were in the stream. Each row keeps its origin through them, also where a
function selects it away, as far as no state is in between.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from penstock.connectors.base import BAD, ORIGIN, quoted
from penstock.pipeline.build import apply_rules, broken, call, source_rules
from penstock.pipeline.declare import ProcessingTime
from penstock.pipeline.each import MADE, made_of, rows_made
from penstock.pipeline.late_rows import late_rows
from penstock.pipeline.lookups.on_spark import known_failures
from penstock.pipeline.spark_plan import DELAY, analysed, carried, first_states, with_own_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import Column, DataFrame, Row

    from penstock.connectors.base import Context
    from penstock.pipeline.declare import Flow, Source
    from penstock.pipeline.plan import Graph, Query

__all__ = ["RULE", "SAID", "Found", "found_in", "good_rows", "letters_of", "told_of"]

RULE = "__rule"
SAID = "__said"
_FEW = 1_000  # letters that the driver takes at once


@dataclass(frozen=True)
class Found:
    """Rows that a stage could not use: the origin of each and what to say of it.

    Bad ones have the rule that they broke, late ones their columns.
    """

    stage: str
    rows: DataFrame
    late: bool = False


def found_in(
    record: dict[str, Any], graph: Graph, query: Query, owned: set[str], context: Context, *, late: bool
) -> Iterator[Found]:
    """What was wrong with the rows of a batch, stage by stage; of the stages that are `owned` only."""
    counted = {stage for stage in record["dead"] if stage in owned}
    made: dict[str, DataFrame] = {}
    for source, told in told_of(graph, query, record):
        rows = source.connector.replay(context, told)
        if rows is None:
            continue
        if source.name in counted:
            yield Found(source.name, _wrong_in_source(source, rows, context))
        made[source.name] = good_rows(source, rows, context)
    needed = graph.needed(*(name for name in query.flows if name in counted or (late and name in owned)))
    for table in graph.tables:
        if table.name in needed:
            made[table.name] = table.connector.table(context)
    for name in query.flows:
        flow = graph.flow(name)
        after_state = not set(flow.inputs) <= set(made)
        if name not in needed or flow.with_origin or after_state:
            continue
        yield from _in_flow(flow, made, record, context, ruled=name in counted, late=late and name in owned)


def told_of(graph: Graph, query: Query, record: dict[str, Any]) -> Iterator[tuple[Source, dict[str, Any]]]:
    """What a batch tells of each source; one that could be several gets what the others leave."""
    left = [one for one in record["sources"] if one["end"]]
    sources = [one for one in graph.sources if one.name in query.sources]
    known = {one.name: [told for told in left if one.connector.recognises(told)] for one in sources}
    for source in sorted(sources, key=lambda one: len(known[one.name])):
        told = next((one for one in known[source.name] if one in left), None)
        if told is not None:
            left.remove(told)
            yield source, told


def _in_flow(
    flow: Flow, made: dict[str, DataFrame], record: dict[str, Any], context: Context, *, ruled: bool, late: bool
) -> Iterator[Found]:
    from pyspark.sql import functions as F  # noqa: N812

    if flow.returns is not None:
        given = made[flow.inputs[0]]
        failed = _failed(flow, record)
        if failed is None:
            wrong = made_of(flow, given, context)
            out = rows_made(wrong, given)
        else:
            wrong, given = given.withColumn(MADE, F.struct(failed.alias("error"))), given.filter(failed.isNull())
            out = rows_made(made_of(flow, given, context), given)
        if ruled:
            error = F.col(f"{MADE}.error")
            said = (ORIGIN, error["kind"].alias(RULE), error["message"].alias(SAID))
            yield Found(flow.name, wrong.filter(error.isNotNull()).select(*said))
    else:
        inputs = {name: rows for name, rows in made.items() if name in flow.inputs}
        out = carried(call(flow, {name: rows.drop(ORIGIN) for name, rows in inputs.items()}), inputs.values())
        if first_states(analysed(out)):  # from here on rows are not those of the source any more
            if late and record["watermark_before"]:
                yield from (Found(flow.name, rows, late=True) for rows in late_rows(out, record["watermark_before"]))
            return
        if ORIGIN not in out.columns:
            # Code that makes rows anew, such as mapInPandas, knows no origin: the row itself must do.
            out = out.withColumn(ORIGIN, F.struct(F.monotonically_increasing_id().alias("row")))
    if ruled:
        yield Found(flow.name, _quarantined(flow, out))
    made[flow.name] = apply_rules(out, flow)


def _failed(flow: Flow, record: dict[str, Any]) -> Column | None:
    """What a lookup failed with when the batch was computed; None if nobody noted it."""
    if flow.lookup is None or "failed" not in record:
        return None
    return known_failures(flow.lookup, record["failed"].get(flow.name, []))


def _wrong_in_source(source: Source, rows: DataFrame, context: Context) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    rules = [("decode", F.col(BAD).isNotNull(), F.col(BAD)), *source_rules(source, rows, context)]
    said = F.coalesce(*(F.when(wrong, said) for _, wrong, said in rules))
    return _told(rows, [(rule, wrong) for rule, wrong, _ in rules], said)


def good_rows(source: Source, rows: DataFrame, context: Context) -> DataFrame:
    """The rows that reach the flows, each with an origin of its own and its time marked as Spark marks it."""
    from pyspark.sql import functions as F  # noqa: N812

    rules = source_rules(source, rows, context)
    wrong: list[Column] = [F.col(BAD).isNotNull(), *(broken for _, broken, _ in rules)]
    for one in wrong:
        rows = rows.filter(~one)
    rows = rows.drop(BAD).withColumn(ORIGIN, _origin(rows))
    if source.time is None:
        return rows
    if isinstance(source.time, ProcessingTime):
        rows = rows.withColumn(source.time.column, F.current_timestamp())
    return rows.withMetadata(source.time.column, {DELAY: 0})


def _origin(rows: DataFrame) -> Column:
    """The origin with the same fields whatever the source, so that rows of several can be united; and with a number."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.struct(*_fields(rows), F.monotonically_increasing_id().alias("row"))


def _fields(rows: DataFrame) -> list[Column]:
    from pyspark.sql import functions as F  # noqa: N812

    kinds = {"topic": "string", "partition": "int", "offset": "long", "key": "binary", "value": "binary"}
    has = set(rows.schema[ORIGIN].dataType.names)  # type: ignore[attr-defined]
    return [
        (F.col(f"{ORIGIN}.{name}") if name in has else F.lit(None)).cast(kind).alias(name)
        for name, kind in kinds.items()
    ]


def letters_of(every: list[Found], count: int) -> Iterator[Row]:
    """What stages found as rows of stage, late, rule, said and origin; by one job if there are few."""
    from pyspark.sql import functions as F  # noqa: N812

    parts = [
        one.rows.select(
            F.lit(one.stage).alias("stage"),
            F.lit(one.late).alias("late"),
            (F.lit("late") if one.late else F.col(RULE)).alias("rule"),
            F.col(SAID).alias("said"),
            F.struct(*_fields(one.rows)).alias("origin"),
        )
        for one in every
    ]
    if parts:
        rows = reduce(lambda one, other: one.unionByName(other), parts)
        yield from rows.collect() if count <= _FEW else rows.toLocalIterator()


def _quarantined(flow: Flow, rows: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    rows = with_own_names(rows)
    shown = F.to_json(F.struct(*quoted(name for name in rows.columns if name != ORIGIN)))
    rules = [(rule.name, broken(rule)) for rule in flow.expectations if rule.action == "quarantine"]
    return _told(rows, rules, shown)


def _told(rows: DataFrame, rules: list[tuple[str, Column]], said: Column) -> DataFrame:
    """The rows that break a rule, each with the first one that it breaks."""
    from pyspark.sql import functions as F  # noqa: N812

    first = F.coalesce(F.lit(None).cast("string"), *(F.when(wrong, F.lit(rule)) for rule, wrong in rules))
    return rows.select(ORIGIN, first.alias(RULE), said.alias(SAID)).filter(F.col(RULE).isNotNull())
