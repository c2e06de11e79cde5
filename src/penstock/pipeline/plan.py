"""The Plan: what will run, as data that prints as text, JSON and Mermaid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.connectors.base import BestEffortSink
from penstock.connectors.letters import dead_letters
from penstock.pipeline.declare import ALL, LATE

if TYPE_CHECKING:
    from penstock.pipeline.declare import Flow, Sink, Source, Table

__all__ = ["STORES", "Graph", "Plan", "Query"]

STORES = {"disk": "on disk", "memory": "in memory"}  # where state is


@dataclass(frozen=True)
class Graph:
    """The declarations of a pipeline, checked, flows in an order in which each comes after its inputs."""

    name: str
    sources: tuple[Source, ...]
    tables: tuple[Table, ...]
    flows: tuple[Flow, ...]
    sinks: tuple[Sink, ...]
    store: str = "disk"
    warnings: tuple[str, ...] = ()

    def source(self, name: str) -> Source | None:
        """The source of that name."""
        return next((one for one in self.sources if one.name == name), None)

    def table(self, name: str) -> Table | None:
        """The table of that name."""
        return next((one for one in self.tables if one.name == name), None)

    def flow(self, name: str) -> Flow:
        """The flow of that name."""
        return next(one for one in self.flows if one.name == name)

    def needed(self, *names: str) -> set[str]:
        """These and all that they are made of."""
        found = set(names)
        for flow in reversed(self.flows):
            if flow.name in found:
                found.update(flow.inputs)
        return found

    def emits_changes(self, *names: str) -> bool:
        """Whether a result with state goes out at every change: a flow says so, or late rows correct it."""
        needed = self.needed(*names)
        says_so = any(one.emit == "changes" for one in self.flows if one.name in needed)
        return says_so or self.corrected(*names)

    def corrected(self, *names: str) -> bool:
        """Whether late rows correct what was emitted."""
        needed = self.needed(*names)
        return any(one.time is not None and one.time.late == "update" for one in self.sources if one.name in needed)

    def late_sink(self, flow: str) -> Sink | None:
        """The sink of a flow's late rows."""
        return next((one for one in self.sinks if one.flow == flow.removesuffix(ALL) + LATE), None)

    def quarantines(self, name: str) -> bool:
        """Whether that is a process that tells of rows which it could not use."""
        flow = next((one for one in self.flows if one.name == name), None)
        return flow is not None and name.endswith(ALL) and flow.process is not None and flow.process.quarantine

    def late_for(self, sink: Sink) -> str:
        """The flow that the rows of a sink were too late for."""
        name = sink.flow.removesuffix(LATE)
        return next((one.name for one in self.flows if one.name == name + ALL), name)


@dataclass(frozen=True)
class Query:
    """One Spark query: it computes `root` as a stream, and the flows after it batch by batch for each of its sinks."""

    name: str
    root: str
    sources: tuple[str, ...]
    flows: tuple[str, ...]
    sinks: tuple[Sink, ...]
    mode: str
    latency: str
    columns: str = ""
    state: tuple[str, ...] = ()
    store: str = "disk"
    blockers: tuple[str, ...] = ()

    @property
    def streamed(self) -> Sink | None:
        """The one sink that Spark writes by itself; None if each batch is handed to the sinks."""
        return self.sinks[0] if self.sinks[0].streamed else None

    @property
    def realtime(self) -> bool:
        """Whether it runs in milliseconds."""
        return self.latency == "realtime"


@dataclass(frozen=True)
class Plan:
    """A compiled pipeline: the graph, cut into queries."""

    graph: Graph
    queries: tuple[Query, ...]

    @property
    def name(self) -> str:
        """The pipeline's name."""
        return self.graph.name

    @property
    def dead_letters(self) -> str:
        """The topic of the rows that could not be used."""
        return dead_letters(self.name)

    def as_text(self) -> str:
        """For people."""
        lines = [f"pipeline {self.name}"]
        lines += [f"  source {one.name} <- {one.connector.target()}{_time(one)}" for one in self.graph.sources]
        lines += [f"  table  {one.name} <- {one.connector.target()}" for one in self.graph.tables]
        for flow in self.graph.flows:
            asked = f" <- {flow.lookup.target()}" if flow.lookup else ""
            lines.append(f"  flow   {flow.name}({', '.join(flow.inputs)}){asked}  [{flow.place}]")
            lines += [f"           expect {one.name}: {one.rule} ({one.action})" for one in flow.expectations]
        for query in self.queries:
            lines.append(f"  query  {query.name} ({query.latency}): {' -> '.join((*query.sources, *query.flows))}")
            lines += [f"           keeps {one}, {STORES[query.store]}" for one in query.state]
            for sink in query.sinks:
                lines.append(f"           {sink.flow} -> {sink.connector.target()}, {sink.promise}: {_sentence(sink)}")
            lines += [f"           real-time is blocked by {one}" for one in query.blockers]
        for sink in self.graph.sinks:
            if sink.flow.endswith(LATE):
                lines.append(f"  late rows of {sink.flow.removesuffix(LATE)} -> {sink.connector.target()}")
        lines.append(f"  rows that can't be used -> kafka:{self.dead_letters}")
        lines += [f"  warning: {one}" for one in self.graph.warnings]
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """For programs."""
        return {
            "pipeline": self.name,
            "sources": [
                {"name": one.name, "target": one.connector.target(), "time": one.time.column if one.time else None}
                for one in self.graph.sources
            ],
            "tables": [{"name": one.name, "target": one.connector.target()} for one in self.graph.tables],
            "flows": [
                {
                    "name": one.name,
                    "inputs": list(one.inputs),
                    "lookup": one.lookup.target() if one.lookup else None,
                    "emit": one.emit,
                    "place": str(one.place),
                    "expectations": [{"name": e.name, "rule": e.rule, "action": e.action} for e in one.expectations],
                }
                for one in self.graph.flows
            ],
            "queries": [
                {
                    "name": one.name,
                    "sources": list(one.sources),
                    "flows": list(one.flows),
                    "latency": one.latency,
                    "blocks_realtime": list(one.blockers),
                    "mode": one.mode,
                    "columns": one.columns,
                    "state": list(one.state),
                    "store": one.store,
                    "sinks": [
                        {
                            "flow": sink.flow,
                            "target": sink.connector.target(),
                            "guarantee": sink.promise,
                            "promise": _sentence(sink),
                        }
                        for sink in one.sinks
                    ],
                }
                for one in self.queries
            ],
            "dead_letters": self.dead_letters,
            "warnings": list(self.graph.warnings),
        }

    def as_mermaid(self) -> str:
        """For documents."""
        lines = ["graph LR"]
        read: list[Source | Table] = [*self.graph.sources, *self.graph.tables]
        lines += [f'  {one.name}[("{one.connector.target()}")]' for one in read]
        for flow in self.graph.flows:
            lines += [f"  {name} --> {flow.name}" for name in flow.inputs]
            if flow.lookup:
                lines.append(f'  {flow.name}__asked[("{flow.lookup.target()}")] -.-> {flow.name}')
        for number, sink in enumerate(self.graph.sinks):
            late = sink.flow.endswith(LATE)
            arrow = "-. late .->" if late else "-->"
            lines.append(f'  {sink.flow.removesuffix(LATE)} {arrow} sink{number}[("{sink.connector.target()}")]')
        return "\n".join(lines)


def _time(source: Source) -> str:
    time = source.time
    if time is None:
        return ""
    late = f"{time.late} for {time.grace}" if time.grace else time.late
    return f", time {time.column} + {time.delay}, late rows: {late}"


def _sentence(sink: Sink) -> str:
    """The guarantee, honestly."""
    if sink.promise == sink.connector.guarantee:
        return sink.connector.honestly()
    if sink.promise == "at-most-once":
        return "no row appears twice; after a failure the rows of a batch may be missing"
    return BestEffortSink.sentence
