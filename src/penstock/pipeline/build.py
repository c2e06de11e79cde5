"""DataFrames out of a Plan: sources decoded, time set, functions called, rules applied."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.connectors.base import BAD, ORIGIN, Context
from penstock.errors import DeclarationError
from penstock.pipeline.failure import told_at

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from penstock.pipeline.declare import Expectation, Flow, Source
    from penstock.pipeline.plan import Plan, Query

__all__ = ["STATEFUL", "Build", "broken"]

STATEFUL = ("Aggregate", "Deduplicate", "TransformWithState", "FlatMapGroups", "MapGroups", "Window")


class Build:
    """The DataFrames of one plan in one session."""

    def __init__(self, plan: Plan, context: Context) -> None:
        self.plan = plan
        self.context = context
        self.owners = stage_owners(plan)

    def frames(self, query: Query) -> dict[str, DataFrame]:
        """Every source and flow of a query; the one that its output names goes to the sink."""
        made: dict[str, DataFrame] = {}
        for name in query.sources:
            source = self.plan.source(name)
            assert source is not None
            made[name] = self._source(source, query)
        for name in query.flows:
            made[name] = self._flow(self.plan.flow(name), made, query)
        return made

    def _source(self, source: Source, query: Query) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812

        with told_at(source.place, f"Source {source.name!r}", "Correct its options."):
            rows = source.connector.stream(self.context)
        if self.owners[source.name] == query.name:
            rows = rows.observe(source.name, F.count_if(F.col(BAD).isNotNull()).alias("dead"))
        rows = rows.filter(F.col(BAD).isNull()).drop(BAD, ORIGIN)
        if source.time is None:
            return source.connector.settled(rows, None)
        if source.time.column not in rows.columns:
            raise DeclarationError(
                f"Source {source.name!r} has no column {source.time.column!r} for its event time.",
                code="time-missing",
                place=str(source.place),
                remedy=f"It has {', '.join(rows.columns)}.",
            )
        timed = rows.withWatermark(source.time.column, source.time.delay)
        return source.connector.settled(timed, source.time.column)

    def _flow(self, flow: Flow, made: dict[str, DataFrame], query: Query) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812

        rows = call(flow, made)
        for rule in flow.expectations:
            with told_at(flow.place, f"Expectation {rule.name!r} of flow {flow.name!r}", "Correct the rule."):
                rows.filter(broken(rule))
        counted = [F.count_if(broken(one)).alias(one.name) for one in flow.expectations]
        if counted and self.owners[flow.name] == query.name:
            rows = rows.observe(flow.name, *counted)
        return apply_rules(rows, flow)


def call(flow: Flow, made: dict[str, DataFrame]) -> DataFrame:
    """Call a user's function; what goes wrong in it is told at its own line."""
    from pyspark.sql import DataFrame

    with told_at(flow.place, f"Flow {flow.name!r}", "Correct the function."):
        rows = flow.function(*(made[name] for name in flow.inputs))
    if not isinstance(rows, DataFrame):
        raise DeclarationError(
            f"Flow {flow.name!r} gives {type(rows).__name__}, not a DataFrame.",
            code="flow-wrong",
            place=str(flow.place),
            remedy="Return a DataFrame.",
        )
    return rows


def broken(rule: Expectation) -> Column:
    """Whether a row breaks a rule; a rule that is null of a row is broken."""
    from pyspark.sql import functions as F  # noqa: N812

    return ~F.coalesce(F.expr(rule.rule), F.lit(False))


def apply_rules(rows: DataFrame, flow: Flow) -> DataFrame:
    """Take out the rows to quarantine, stop at those that must not be, let the others pass."""
    from pyspark.sql import functions as F  # noqa: N812

    for rule in flow.expectations:
        if rule.action == "quarantine":
            rows = rows.filter(~broken(rule))
        elif rule.action == "fail":
            said = F.raise_error(F.lit(f"expectation {rule.name!r} of flow {flow.name!r} is broken: {rule.rule}"))
            rows = rows.filter(F.when(broken(rule), said.cast("boolean")).otherwise(F.lit(True)))
    return rows


def stage_owners(plan: Plan) -> dict[str, str]:
    """For each source and flow the one query that counts and publishes its dead rows."""
    owners: dict[str, str] = {}
    for query in plan.queries:
        for name in (*query.sources, *query.flows):
            owners.setdefault(name, query.name)
    return owners
