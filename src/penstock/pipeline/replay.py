"""A past batch once more: exactly its rows are read again, to tell which were bad and which came too late.

The user's functions are called on them as they were in the stream. Each row keeps its origin through them, also where a
function selects it away, as far as no state is in between.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.connectors.base import BAD, ORIGIN, quoted
from penstock.pipeline.build import apply_rules, broken, call, time_rules
from penstock.pipeline.declare import ProcessingTime
from penstock.pipeline.each import MADE, made_of, rows_made
from penstock.pipeline.late_rows import late_rows
from penstock.pipeline.spark_plan import DELAY, analysed, carried, first_states, with_own_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import Column, DataFrame

    from penstock.connectors.base import Context
    from penstock.pipeline.declare import Flow, Source
    from penstock.pipeline.plan import Graph, Query

__all__ = ["SAID", "Found", "found_in"]

SAID = "__said"


@dataclass(frozen=True)
class Found:
    """Rows of one stage that broke one rule: their origin, what to say of each, and of late ones the columns."""

    stage: str
    rule: str
    rows: DataFrame


def found_in(
    record: dict[str, Any], graph: Graph, query: Query, owned: set[str], context: Context, *, late: bool
) -> Iterator[Found]:
    """What was wrong with the rows of a batch, stage by stage; of the stages that are `owned` only."""
    counted = {stage for stage in record["dead"] if stage in owned}
    made: dict[str, DataFrame] = {}
    for source, told in _told_of(graph, query, record):
        rows = source.connector.replay(context, told)
        if rows is None:
            continue
        if source.name in counted:
            yield from _wrong_in_source(source, rows)
        made[source.name] = _good(source, rows)
    looked_up = {name for flow in query.flows for name in graph.flow(flow).inputs}
    for table in graph.tables:
        if table.name in looked_up:
            made[table.name] = table.connector.table(context)
    for name in query.flows:
        flow = graph.flow(name)
        if not set(flow.inputs) <= set(made):
            continue
        yield from _in_flow(flow, made, record, ruled=name in counted, late=late and name in owned)


def _told_of(graph: Graph, query: Query, record: dict[str, Any]) -> Iterator[tuple[Source, dict[str, Any]]]:
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
    flow: Flow, made: dict[str, DataFrame], record: dict[str, Any], *, ruled: bool, late: bool
) -> Iterator[Found]:
    from pyspark.sql import functions as F  # noqa: N812

    if flow.returns is not None:
        given = made[flow.inputs[0]]
        tried = made_of(flow, given)
        if ruled:
            raised = tried.filter(F.col(f"{MADE}.error").isNotNull())
            yield from _by_kind(flow.name, raised)
        out = rows_made(tried, given)
    else:
        inputs = {name: rows for name, rows in made.items() if name in flow.inputs}
        out = carried(call(flow, {name: rows.drop(ORIGIN) for name, rows in inputs.items()}), inputs.values())
        if first_states(analysed(out)):  # from here on rows are not those of the source any more
            if late and record["watermark_before"]:
                yield from (Found(flow.name, "late", rows) for rows in late_rows(out, record["watermark_before"]))
            return
        if ORIGIN not in out.columns:
            # Code that makes rows anew, such as mapInPandas, knows no origin: the row itself must do.
            out = out.withColumn(ORIGIN, F.struct(F.monotonically_increasing_id().alias("row")))
    if ruled:
        yield from _quarantined(flow, out)
    made[flow.name] = apply_rules(out, flow)


def _by_kind(stage: str, raised: DataFrame) -> Iterator[Found]:
    """What the function raised, by the class of the error."""
    from pyspark.sql import functions as F  # noqa: N812

    error = F.col(f"{MADE}.error")
    for row in raised.select(error["kind"].alias("kind")).distinct().collect():
        rows = raised.filter(error["kind"] == row["kind"])
        yield Found(stage, row["kind"], rows.select(ORIGIN, error["message"].alias(SAID)))


def _wrong_in_source(source: Source, rows: DataFrame) -> Iterator[Found]:
    from pyspark.sql import functions as F  # noqa: N812

    decoded = F.col(BAD).isNull()
    yield Found(source.name, "decode", rows.filter(~decoded).select(ORIGIN, F.col(BAD).alias(SAID)))
    rows = rows.filter(decoded)
    for rule, wrong, said in time_rules(source.time, rows):
        yield Found(source.name, rule, rows.filter(wrong).select(ORIGIN, said.alias(SAID)))
        rows = rows.filter(~wrong)


def _good(source: Source, rows: DataFrame) -> DataFrame:
    """The rows that reach the flows, each with an origin of its own and its time marked as Spark marks it."""
    from pyspark.sql import functions as F  # noqa: N812

    wrong: list[Column] = [F.col(BAD).isNotNull(), *(broken for _, broken, _ in time_rules(source.time, rows))]
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

    kinds = {"topic": "string", "partition": "int", "offset": "long", "key": "binary", "value": "binary"}
    has = set(rows.schema[ORIGIN].dataType.names)  # type: ignore[attr-defined]
    fields = [
        (F.col(f"{ORIGIN}.{name}") if name in has else F.lit(None)).cast(kind).alias(name)
        for name, kind in kinds.items()
    ]
    return F.struct(*fields, F.monotonically_increasing_id().alias("row"))


def _quarantined(flow: Flow, rows: DataFrame) -> Iterator[Found]:
    from pyspark.sql import functions as F  # noqa: N812

    for rule in flow.expectations:
        if rule.action == "quarantine":
            bad = with_own_names(rows.filter(broken(rule)))
            said = F.to_json(F.struct(*quoted(name for name in bad.columns if name != ORIGIN))).alias(SAID)
            yield Found(flow.name, rule.name, bad.select(ORIGIN, said))
            rows = rows.filter(~broken(rule))
