"""The second half: Spark's analyzer over the real plan, before anything runs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from penstock.errors import DeclarationError
from penstock.pipeline.build import STATEFUL, Build
from penstock.pipeline.failure import told_at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.connectors.base import Context
    from penstock.pipeline.declare import Flow
    from penstock.pipeline.plan import Plan, Query

__all__ = ["analyse"]

_BOUND_IT = (
    'Give the source an event time (time=ps.EventTime(…)) and group by a window of it, or let the flow emit="changes".'
)
_STATE = re.compile(rf"\b({'|'.join(STATEFUL)})\b")


def analyse(plan: Plan, context: Context) -> dict[str, str]:
    """Columns and types of every query's output, as DDL; refuses what Spark would refuse at the start, or worse."""
    build = Build(plan, context)
    return {query.name: _checked(plan, build, query) for query in plan.queries}


def _checked(plan: Plan, build: Build, query: Query) -> str:
    frames = build.frames(query)
    rows = frames[query.output]
    flow = next((one for one in plan.flows if one.name == query.output), None)
    place = flow.place if flow else query.sink.place
    with told_at(place, f"Spark can't run {query.output!r} as a stream", _BOUND_IT):
        _ask_spark(rows, query.mode(plan))
    with told_at(query.sink.place, f"The sink of {query.output!r}", f"Its columns are {', '.join(rows.columns)}."):
        query.sink.connector.write(rows, build.context)
    if _state_of(rows) and "EventTimeWatermark" not in _analysed(rows):
        raise DeclarationError(
            f"Flow {query.output!r} keeps state that grows without bound.",
            code="state-unbounded",
            place=str(place),
            remedy="Give its source an event time: time=ps.EventTime('column', delay='10 seconds').",
        )
    for name in query.flows:
        _rules_before_state(plan.flow(name), frames[name])
    return str(rows.schema.simpleString())


def _ask_spark(rows: DataFrame, mode: str) -> None:
    """Ask Spark's own checker, which otherwise speaks only at the start of the query."""
    jvm = rows.sparkSession._jvm
    assert jvm is not None
    output = getattr(jvm.org.apache.spark.sql.streaming.OutputMode, mode.capitalize())()
    checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    checker.checkForStreaming(rows._jdf.queryExecution().analyzed(), output)


def _rules_before_state(flow: Flow, rows: DataFrame) -> None:
    """A row that an aggregate made has no origin to quarantine it with."""
    state = _state_of(rows)
    if state and any(rule.action == "quarantine" for rule in flow.expectations):
        raise DeclarationError(
            f"Flow {flow.name!r} expects something of rows that were computed from many ({state}).",
            code="rule-after-state",
            place=str(flow.place),
            remedy="Quarantine the rows that go in, or use the action 'warn' or 'fail' here.",
        )


def _analysed(rows: DataFrame) -> str:
    return str(rows._jdf.queryExecution().analyzed().toString())


def _state_of(rows: DataFrame) -> str:
    found = _STATE.search(_analysed(rows))
    return found[1] if found else ""
