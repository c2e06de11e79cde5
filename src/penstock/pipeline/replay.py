"""A past batch once more: exactly its rows are read again, to tell which were bad and which came too late.

The user's functions are called on them as they were in the stream. Each row keeps its origin through them, also where a
function selects it away, as far as no state is in between.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.connectors.base import BAD, ORIGIN
from penstock.pipeline.build import apply_rules, broken, call, time_rules
from penstock.pipeline.declare import ProcessingTime
from penstock.pipeline.each import MADE, made_of, rows_made
from penstock.pipeline.late_rows import late_rows
from penstock.pipeline.spark_plan import DELAY, analysed, carried, first_states

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
    for name in query.sources:
        source = graph.source(name)
        told = next((one for one in record["sources"] if source and source.connector.recognises(one)), None)
        rows = source.connector.replay(context, told) if source and told and told["end"] else None
        if source is None or rows is None:
            continue
        if name in counted:
            yield from _wrong_in_source(source, rows)
        made[name] = _good(source, rows)
    looked_up = {name for flow in query.flows for name in graph.flow(flow).inputs}
    for table in graph.tables:
        if table.name in looked_up:
            made[table.name] = table.connector.table(context)
    for name in query.flows:
        flow = graph.flow(name)
        if not set(flow.inputs) <= set(made):
            continue
        yield from _in_flow(flow, made, record, ruled=name in counted, late=late and name in owned)


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
        out = carried(call(flow, {name: rows.drop(ORIGIN) for name, rows in made.items() if name in flow.inputs}))
        if ORIGIN not in out.columns and not first_states(analysed(out)):
            # Code that makes rows anew, such as mapInPandas, knows no origin: the row itself must do.
            out = out.withColumn(ORIGIN, F.struct(F.monotonically_increasing_id().alias("row")))
    if ruled:
        yield from _quarantined(flow, out)
    if late and record["watermark_before"]:
        for rows in late_rows(out, record["watermark_before"]):
            yield Found(flow.name, "late", rows)
    if ORIGIN in out.columns:
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
    rows = rows.drop(BAD).withColumn(ORIGIN, F.col(ORIGIN).withField("row", F.monotonically_increasing_id()))
    if source.time is None:
        return rows
    if isinstance(source.time, ProcessingTime):
        rows = rows.withColumn(source.time.column, F.current_timestamp())
    return rows.withMetadata(source.time.column, {DELAY: 0})


def _quarantined(flow: Flow, rows: DataFrame) -> Iterator[Found]:
    from pyspark.sql import functions as F  # noqa: N812

    shown = [F.col(f"`{name}`") for name in rows.columns if name != ORIGIN]
    for rule in flow.expectations:
        if rule.action == "quarantine":
            said = F.to_json(F.struct(*shown)).alias(SAID)
            yield Found(flow.name, rule.name, rows.filter(broken(rule)).select(ORIGIN, said))
            rows = rows.filter(~broken(rule))
