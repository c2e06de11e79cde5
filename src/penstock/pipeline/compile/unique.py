"""What a contract wants to be unique within a time: a query beside the others tells of every double, once.

The rows go on: whoever wants each only once says so with `ps.deduplicated`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from penstock.connectors.formats import Raw
from penstock.connectors.kafka import Kafka
from penstock.connectors.letters import dead_letters, open_dead_letters
from penstock.errors import DeclarationError
from penstock.pipeline.declare import Flow, ProcessingTime, Sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.connectors.base import Context
    from penstock.pipeline.declare import Source
    from penstock.pipeline.plan import Graph
    from penstock.registry.contract import Rule

__all__ = ["with_uniqueness"]


class _DeadLetters(Kafka):
    """The pipeline's dead-letter topic as a sink."""

    def open_topic(self, context: Context) -> None:
        """Make it as large as all its letters need it."""
        open_dead_letters(context.settings.kafka, self.sole_topic.removesuffix(dead_letters("")))


def with_uniqueness(graph: Graph, context: Context) -> Graph:
    """The graph with a flow and a sink for each such rule."""
    for source in graph.sources:
        for number, rule in enumerate(source.connector.unique(context)):
            flow = _flow(graph.name, source, rule, number)
            sink = Sink(flow.name, _DeadLetters(dead_letters(graph.name), Raw(), key="key"), None, source.place)
            graph = replace(graph, flows=(*graph.flows, flow), sinks=(*graph.sinks, sink))
    return graph


def _flow(pipeline: str, source: Source, rule: Rule, number: int) -> Flow:
    if source.time is None or isinstance(source.time, ProcessingTime):
        raise DeclarationError(
            f"By its contract {rule.name}, and source {source.name!r} has no event time.",
            code="time-missing",
            place=str(source.place),
            remedy="Declare it: time=ps.EventTime('created_at').",
        )
    return Flow(
        name=f"{source.name}__unique{number or ''}",
        function=partial(_doubles, pipeline, source.name, rule),
        inputs=(source.name,),
        expectations=(),
        emit="final",
        place=source.place,
        with_origin=True,
    )


def _doubles(pipeline: str, stage: str, rule: Rule, rows: DataFrame) -> DataFrame:
    from penstock.pipeline.keyed.doubles import doubles

    return doubles(rows, pipeline, stage, rule)
