"""Cut the graph into Spark queries: one per stateful branch; sinks that hang on the same rows share one.

A query is named after its anchor: the source, or the flow that keeps state, at the head of the stateless chain that its
sinks hang on. So its name, and with it its checkpoint, stays when a sink is added or taken away.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.connectors.keyed import REMOVED, KeyedSink
from penstock.errors import DeclarationError
from penstock.pipeline.compile.realtime import blockers
from penstock.pipeline.declare import ALL, LATE
from penstock.pipeline.failure import told_at
from penstock.pipeline.plan import Plan, Query
from penstock.pipeline.spark_plan import children, frame, states, with_own_names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.connectors.base import Context
    from penstock.pipeline.compile.analyse import Facts
    from penstock.pipeline.declare import Sink
    from penstock.pipeline.plan import Graph

__all__ = ["cut"]

_PROCESS = "TransformWithState"
_EMIT_ALL = (
    'Give the source an event time (time=ps.EventTime(…)) and group by a window of it, or let the flow emit="changes".'
)


def cut(graph: Graph, facts: dict[str, Facts], context: Context) -> Plan:
    """Group the sinks into queries, then ask Spark whether it would run each."""
    groups: dict[str, list[Sink]] = {}
    for sink in graph.sinks:
        if sink.flow.endswith(LATE):
            _check_late(graph, facts, sink, context)
            continue
        name = _name(graph, facts, sink)
        _check_company(graph, facts, name, sink, groups.get(name, []))
        groups.setdefault(name, []).append(sink)
    return Plan(graph, tuple(_query(graph, facts, context, name, sinks) for name, sinks in groups.items()))


def _name(graph: Graph, facts: dict[str, Facts], sink: Sink) -> str:
    if sink.query is not None:
        return sink.query
    if sink.alone:
        return f"{sink.flow}-to-{sink.connector.system}-{_slug(sink.connector.target())}".rstrip("-")
    anchor = _chain(graph, facts, sink.flow)[-1]
    changes = _mode(graph, facts, sink.flow) == "update"
    says_so = any(one.name == anchor and one.emit == "changes" for one in graph.flows)
    name = anchor.removesuffix(ALL)
    return f"{name}-changes" if changes and not says_so and not graph.corrected(sink.flow) else name


def _check_company(graph: Graph, facts: dict[str, Facts], name: str, sink: Sink, others: list[Sink]) -> None:
    """Refuse a sink that can't be in one query with those that are in it already."""
    for other in others:
        common = set(_chain(graph, facts, sink.flow)) & set(_chain(graph, facts, other.flow))
        modes = {_mode(graph, facts, one.flow) for one in (sink, other)}
        if sink.alone or other.alone or not common or len(modes) > 1:
            raise DeclarationError(
                f"This sink and the one at {other.place} can't share the query {name!r}.",
                code="query-mixed",
                place=str(sink.place),
                remedy="Give it another name: query='…'.",
            )


def _check_late(graph: Graph, facts: dict[str, Facts], sink: Sink, context: Context) -> None:
    """Refuse a sink of late rows that would get none, or can't take them as they are."""
    flow = graph.late_for(sink)
    if not facts[flow].adds_state:
        raise DeclarationError(
            f"Flow {flow!r} keeps no state, so no row is late for it.",
            code="late-without-state",
            place=str(sink.place),
            remedy="Hang the sink on the flow that groups, joins or deduplicates.",
        )
    if graph.late_sink(flow) is not sink:
        raise DeclarationError(
            f"The late rows of {flow!r} go to another sink already.",
            code="late-twice",
            place=str(sink.place),
            remedy="Declare one sink for them.",
        )
    rows = facts[flow].rows
    for given in (with_own_names(frame(rows, child)) for child in children(states(rows)[0])):
        shown = given.drop("window", "session_window")
        with told_at(sink.place, f"The sink of {sink.flow!r}", f"Its columns are {', '.join(shown.columns)}."):
            sink.connector.check(shown, context)


def _chain(graph: Graph, facts: dict[str, Facts], name: str) -> list[str]:
    """The flow, and what it is made of one by one, as far as nothing but single rows is looked at."""
    chain = [name]
    while graph.source(chain[-1]) is None and not facts[chain[-1]].adds_state:
        streams = [one for one in graph.flow(chain[-1]).inputs if one in facts]
        if len(streams) != 1:
            break
        chain.append(streams[0])
    return chain


def _query(graph: Graph, facts: dict[str, Facts], context: Context, name: str, sinks: list[Sink]) -> Query:
    chains = [_chain(graph, facts, sink.flow) for sink in sinks]
    root = last = next(one for one in chains[0] if all(one in chain for chain in chains))
    if within := [one for one in chains[0] if facts[one].whole_windows]:
        below = chains[0][chains[0].index(within[-1]) + 1 :]
        root = root if root in below else below[0]
        sinks = [replace(one, guarantee="exactly-once") if one.streamed else one for one in sinks]
    if graph.quarantines(chains[0][-1]) and not sinks[0].alone:
        root = chains[0][-1]  # with all that a process gives out, also the rows that it could not use
    needed = graph.needed(*(sink.flow for sink in sinks))
    made = Query(
        name=name,
        root=root,
        sources=tuple(one.name for one in graph.sources if one.name in needed),
        flows=tuple(one.name for one in graph.flows if one.name in needed),
        sinks=tuple(sinks),
        # Real-time mode takes nothing but update, which for rows that do not change is the same as append.
        mode="update" if sinks[0].latency == "realtime" else _mode(graph, facts, sinks[0].flow),
        latency=sinks[0].latency,
        columns=str(facts[last].rows.schema.simpleString()),
        state=facts[root].state,
        store=_store(graph, facts[root].state, sinks[0].latency),
    )
    made = replace(made, blockers=blockers(graph, made, facts))
    _refuse(graph, made, facts, context)
    return made


def _store(graph: Graph, state: tuple[str, ...], latency: str) -> str:
    """Where all state of a query is: on disk if a process is among it or it runs in real time, Spark can't else."""
    on_disk = latency == "realtime" or any(one.startswith(_PROCESS) for one in state)
    return graph.store if state and not on_disk else "disk"


def _mode(graph: Graph, facts: dict[str, Facts], flow: str) -> str:
    """Spark's output mode: a row once when it is final, or at every change."""
    return "update" if facts[flow].state and graph.emits_changes(flow) else "append"


def _refuse(graph: Graph, query: Query, facts: dict[str, Facts], context: Context) -> None:
    """Say now, at the user's line, what Spark would say at the start."""
    rows = facts[query.root].rows
    flow = next((one for one in graph.flows if one.name == query.root), None)
    with told_at(
        flow.place if flow else query.sinks[0].place, f"Spark can't run {query.root!r} as a stream", _EMIT_ALL
    ):
        _ask_spark(rows, query.mode)
    for sink in query.sinks:
        columns = facts[sink.flow].rows
        with told_at(sink.place, f"The sink of {sink.flow!r}", f"Its columns are {', '.join(columns.columns)}."):
            sink.connector.check(columns, context)
        before = (facts[one].rows.columns for one in _chain(graph, facts, sink.flow))
        if _deletes_lost(sink, columns.columns) and any(REMOVED in names for names in before):
            raise DeclarationError(
                f"The rows of {sink.flow!r} do not say any more which of them delete ({REMOVED}).",
                code="deletes-lost",
                place=str(sink.place),
                remedy=f"Select {REMOVED} too, or choose columns before ps.rows_of or in ps.view.",
            )
        if query.mode == "update" and not sink.connector.takes_changes():
            raise DeclarationError(
                f"The {sink.connector.system} sink can't take changes to rows.",
                code="sink-appends",
                place=str(sink.place),
                remedy='Use emit="final" on the flow, give the sink a key, or write to one that takes changes.',
            )
    if query.realtime and query.blockers:
        raise DeclarationError(
            f"{query.root!r} can't run in real time: it is blocked by {query.blockers[0]}",
            code="realtime-blocked",
            place=str(query.sinks[0].place),
            remedy="Rewrite it so, or leave latency out.",
        )


def _deletes_lost(sink: Sink, columns: list[str]) -> bool:
    """Whether a sink that deletes by its key is not told what to delete."""
    return isinstance(sink.connector, KeyedSink) and bool(sink.connector.keys) and REMOVED not in columns


def _ask_spark(rows: DataFrame, mode: str) -> None:
    """Ask Spark's own checker, which otherwise speaks only at the start of the query."""
    jvm = rows.sparkSession._jvm
    assert jvm is not None
    output = getattr(jvm.org.apache.spark.sql.streaming.OutputMode, mode.capitalize())()
    checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    checker.checkForStreaming(rows._jdf.queryExecution().analyzed(), output)


def _slug(target: str) -> str:
    return re.sub(r"[^A-Za-z0-9.]+", "-", target.partition(":")[2]).strip("-")
