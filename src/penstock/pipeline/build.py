"""DataFrames out of a graph: sources decoded, time set, functions called, rules applied."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.connectors.base import BAD, ORIGIN, Context
from penstock.errors import DeclarationError
from penstock.pipeline.declare import ProcessingTime
from penstock.pipeline.durations import percentile, seconds
from penstock.pipeline.each import counts_of_made, made_of, rows_made
from penstock.pipeline.failure import told_at
from penstock.pipeline.freshness import FRESHNESS
from penstock.pipeline.keyed.process import RAISED
from penstock.pipeline.spark_plan import carried, states
from penstock.pipeline.ticks import Ticks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeAlias

    from pyspark.sql import Column, DataFrame

    from penstock.pipeline.declare import EventTime, Expectation, Flow, Source
    from penstock.pipeline.plan import Graph

    Observe: TypeAlias = Callable[[DataFrame, str, list[Column]], DataFrame]

__all__ = ["Build", "apply_rules", "broken", "call", "source_rules", "stage_of", "time_rules", "watermark_delay"]

_USUAL_DELAY = "10 seconds"


class Build:
    """The DataFrames of one graph in one session."""

    def __init__(self, graph: Graph, context: Context, delays: Mapping[str, str] | None = None) -> None:
        self.graph = graph
        self.context = context
        self.delays = dict(delays or {})

    def streams(self, names: set[str], counted: set[str], ticks: Ticks | None = None) -> dict[str, DataFrame]:
        """These sources, tables and flows as streams; the bad rows of the stages in `counted` are counted."""
        made: dict[str, DataFrame] = {}

        def observe(rows: DataFrame, name: str, counts: list[Column]) -> DataFrame:
            return rows.observe(name, *counts) if stage_of(name) in counted else rows

        for table in self.graph.tables:
            if table.name in names:
                with told_at(table.place, f"Table {table.name!r}", "Correct its options."):
                    made[table.name] = table.connector.table(self.context)
        for source in self.graph.sources:
            if source.name in names:
                _add(made, source.name, self._source(source, observe, ticks))
        self.add_flows(made, names, observe)
        return made

    def stream(self, name: str) -> DataFrame:
        """One source or flow as a stream, nothing counted."""
        return self.streams(self.graph.needed(name), set())[name]

    def add_flows(self, made: dict[str, DataFrame], names: set[str], observe: Observe) -> None:
        """Add the flows among these names that are not made yet; `observe` counts what is wrong with their rows."""
        for flow in self.graph.flows:
            if flow.name in names and flow.name not in made:
                _add(made, flow.name, self._flow(flow, made, observe))

    def _source(self, source: Source, observe: Observe, ticks: Ticks | None) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812

        with told_at(source.place, f"Source {source.name!r}", "Correct its options."):
            rows = source.connector.stream(self.context)
        time = source.time
        if time is not None and not isinstance(time, ProcessingTime) and time.column not in rows.columns:
            raise DeclarationError(
                f"Source {source.name!r} has no column {time.column!r} for its event time.",
                code="time-missing",
                place=str(source.place),
                remedy=f"It has {', '.join(one for one in rows.columns if one not in (BAD, ORIGIN))}.",
            )
        with told_at(source.place, f"The time of source {source.name!r}", "Name a column that is a TIMESTAMP."):
            bad = F.col(BAD).isNotNull()
            for _, wrong, _ in source_rules(source, rows, self.context):
                bad = bad | wrong
            rows = observe(rows, source.name, [F.count_if(bad).alias("dead")])
            if fresh := source.connector.freshness():
                rows = rows.observe(f"{FRESHNESS}{source.name}", *fresh)
            rows = rows.filter(~bad).drop(*((BAD,) if self._origin_wanted(source.name) else (BAD, ORIGIN)))
            return rows if time is None else self._timed(rows, source, time, ticks)

    def _timed(self, rows: DataFrame, source: Source, time: EventTime, ticks: Ticks | None) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812

        if isinstance(time, ProcessingTime):
            rows = rows.withColumn(time.column, F.current_timestamp())
        delay = watermark_delay(time, self.delays.get(source.name))
        if ticks is None or not ticks.wanted(source):
            return rows.withWatermark(time.column, delay)
        return Ticks.removed(ticks.joined(rows, source, time.column).withWatermark(time.column, delay), time.column)

    def _flow(self, flow: Flow, made: dict[str, DataFrame], observe: Observe) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812

        if flow.returns is None:
            rows = self._called(flow, made)
            if self.graph.quarantines(flow.name):
                from penstock.pipeline.keyed.on_spark import OUTPUT

                rows = observe(rows, flow.name, [F.count_if(F.col(OUTPUT) == RAISED).alias("raised")])
        else:
            given = made.get(flow.inputs[0] + ORIGIN, made[flow.inputs[0]])
            with told_at(flow.place, f"What {flow.name!r} returns", "Write it as columns: 'id LONG, score DOUBLE'."):
                tried = observe(made_of(flow, given, self.context), flow.name, counts_of_made(flow))
                rows = rows_made(tried, given)
        for rule in flow.expectations:
            with told_at(flow.place, f"Expectation {rule.name!r} of flow {flow.name!r}", "Correct the rule."):
                rows.filter(broken(rule))
        if flow.expectations:
            rows = observe(rows, f"{flow.name}:rules", _counts(flow))
        return apply_rules(rows, flow)

    def _called(self, flow: Flow, made: dict[str, DataFrame]) -> DataFrame:
        """What a flow gives, with the origin of its rows if a process after it tells it and no state is in between."""
        rows = call(flow, made)
        origins = [made[name + ORIGIN] for name in flow.inputs if name + ORIGIN in made]
        if not origins or flow.process or not self._origin_wanted(flow.name) or states(rows):
            return rows
        return carried(rows, origins)

    def _origin_wanted(self, name: str) -> bool:
        """Whether a flow tells where a row of this source or flow came from."""
        told = (one for one in self.graph.flows if one.with_origin or one.process is not None)
        return any(name in self.graph.needed(one.name) for one in told)


def _add(made: dict[str, DataFrame], name: str, rows: DataFrame) -> None:
    """Rows under their name, beside it those with their origin, if they have one."""
    count = rows.columns.count(ORIGIN)
    made[name] = rows.drop(ORIGIN) if count else rows
    if count == 1:
        made[name + ORIGIN] = rows


def call(flow: Flow, made: Mapping[str, DataFrame]) -> DataFrame:
    """Call a user's function; what goes wrong in it is told at its own line."""
    from pyspark.sql import DataFrame

    with told_at(flow.place, f"Flow {flow.name!r}", "Correct the function."):
        rows = flow.function(*(_given(flow, made, name) for name in flow.inputs))
    if not isinstance(rows, DataFrame):
        raise DeclarationError(
            f"Flow {flow.name!r} gives {type(rows).__name__}, not a DataFrame.",
            code="flow-wrong",
            place=str(flow.place),
            remedy="Return a DataFrame.",
        )
    return rows


def _given(flow: Flow, made: Mapping[str, DataFrame], name: str) -> DataFrame:
    """An input as a flow takes it: with the origin of its rows if it tells of them."""
    told = flow.with_origin or flow.process is not None
    return made.get(name + ORIGIN, made[name]) if told else made[name]


def source_rules(source: Source, rows: DataFrame, context: Context) -> list[tuple[str, Column, Column]]:
    """What makes a source's row unusable: its time, or its contract."""
    return [*time_rules(source.time, rows), *source.connector.rules(context, rows)]


def time_rules(time: EventTime | None, rows: DataFrame) -> list[tuple[str, Column, Column]]:
    """What makes a row's time unusable: a rule's name, whether a row breaks it, what to say."""
    from pyspark.sql import functions as F  # noqa: N812

    if time is None or isinstance(time, ProcessingTime):
        return []
    at = F.col(time.column)
    rules = [("no event time", at.isNull(), F.lit(f"{time.column} is empty"))]
    if time.future is not None:
        fields = rows.schema[ORIGIN].dataType
        arrived = F.col(f"{ORIGIN}.timestamp") if "timestamp" in fields.names else F.current_timestamp()  # type: ignore[attr-defined]
        limit = F.unix_micros(arrived) + F.lit(round((seconds(time.future) or 0) * 1e6))
        said = F.concat(
            F.lit(f"{time.column} is "), at.cast("string"), F.lit(", it arrived at "), arrived.cast("string")
        )
        rules.append(("future", F.coalesce(F.unix_micros(at) > limit, F.lit(False)), said))
    return rules


def watermark_delay(time: EventTime, learnt: str | None = None) -> str:
    """How long Spark waits: the delay, declared or learnt, and the grace in which a window is still corrected."""
    delay = (learnt or _USUAL_DELAY) if percentile(time.delay) is not None else time.delay
    waited = sum(seconds(one) or 0 for one in (delay, time.grace) if one is not None)
    return f"{waited} seconds"


def broken(rule: Expectation) -> Column:
    """Whether a row breaks a rule; a rule that is null of a row is broken."""
    from pyspark.sql import functions as F  # noqa: N812

    return ~F.coalesce(F.expr(rule.rule), F.lit(False))


def _counts(flow: Flow) -> list[Column]:
    """How many rows break each rule; a row that one rule takes out is not looked at by the next."""
    from pyspark.sql import functions as F  # noqa: N812

    counts, there = [], F.lit(True)
    for rule in flow.expectations:
        counts.append(F.count_if(there & broken(rule)).alias(f"{rule.action}:{rule.name}"))
        if rule.action == "quarantine":
            there = there & ~broken(rule)
    return counts


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


def stage_of(observed: str) -> str:
    """The stage of a count that Spark reports."""
    return observed.partition(":")[0]
