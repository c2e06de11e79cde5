"""The Plan: what will run, as data that prints as text, JSON and Mermaid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.pipeline.declare import Flow, Sink, Source

__all__ = ["Plan", "Query"]


@dataclass(frozen=True)
class Query:
    """One Spark query: the flows it computes, from which sources, to which sink."""

    name: str
    sources: tuple[str, ...]
    flows: tuple[str, ...]
    output: str
    sink: Sink
    guarantee: str

    def mode(self, plan: Plan) -> str:
        """Spark's output mode: a row once, or at every change."""
        changes = any(flow.name == self.output and flow.emit == "changes" for flow in plan.flows)
        return "update" if changes else "append"

    def sentence(self) -> str:
        """The guarantee, honestly."""
        if self.guarantee == "exactly-once":
            return "every row appears exactly once"
        return "every row appears; after a failure some may appear again"


@dataclass(frozen=True)
class Plan:
    """A compiled pipeline."""

    name: str
    sources: tuple[Source, ...]
    flows: tuple[Flow, ...]
    queries: tuple[Query, ...]

    @property
    def dead_letters(self) -> str:
        """The topic of the rows that could not be used."""
        return f"{self.name}-dead-letters"

    def source(self, name: str) -> Source | None:
        """The source of that name."""
        return next((one for one in self.sources if one.name == name), None)

    def flow(self, name: str) -> Flow:
        """The flow of that name."""
        return next(one for one in self.flows if one.name == name)

    def as_text(self) -> str:
        """For people."""
        lines = [f"pipeline {self.name}"]
        for source in self.sources:
            time = (
                f", time {source.time.column} + {source.time.delay}, late rows: {source.time.late}"
                if source.time
                else ""
            )
            lines.append(f"  source {source.name} <- {source.connector.target()}{time}")
        for flow in self.flows:
            lines.append(f"  flow   {flow.name}({', '.join(flow.inputs)})  [{flow.place}]")
            lines += [f"           expect {one.name}: {one.rule} ({one.action})" for one in flow.expectations]
        for query in self.queries:
            lines.append(f"  query  {query.name}: {' -> '.join((*query.sources, *query.flows))}")
            lines.append(f"           -> {query.sink.connector.target()}, {query.guarantee}: {query.sentence()}")
        lines.append(f"  rows that can't be used -> kafka:{self.dead_letters}")
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """For programs."""
        return {
            "pipeline": self.name,
            "sources": [
                {"name": one.name, "target": one.connector.target(), "time": one.time.column if one.time else None}
                for one in self.sources
            ],
            "flows": [
                {
                    "name": one.name,
                    "inputs": list(one.inputs),
                    "emit": one.emit,
                    "place": str(one.place),
                    "expectations": [{"name": e.name, "rule": e.rule, "action": e.action} for e in one.expectations],
                }
                for one in self.flows
            ],
            "queries": [
                {
                    "name": one.name,
                    "sources": list(one.sources),
                    "flows": list(one.flows),
                    "sink": one.sink.connector.target(),
                    "guarantee": one.guarantee,
                }
                for one in self.queries
            ],
            "dead_letters": self.dead_letters,
        }

    def as_mermaid(self) -> str:
        """For documents."""
        lines = ["graph LR"]
        lines += [f'  {one.name}[("{one.connector.target()}")]' for one in self.sources]
        for flow in self.flows:
            lines += [f"  {name} --> {flow.name}" for name in flow.inputs]
        for number, query in enumerate(self.queries):
            lines.append(f'  {query.output} --> sink{number}[("{query.sink.connector.target()}")]')
        return "\n".join(lines)
