"""What a run is refused for before anything starts; the task slots of real-time queries have a file of their own."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from penstock.broker.topics import Topics
from penstock.errors import DeclarationError, TransientError

if TYPE_CHECKING:
    from penstock.connectors.base import Context
    from penstock.pipeline.plan import Graph

__all__ = ["refuse_another_kafka", "refuse_clock"]

_OF_KAFKA = ("kafka", "changes")


def refuse_another_kafka(graph: Graph, context: Context) -> None:
    """Refuse to read from a Kafka that is not the one meant; one that is away may come yet."""
    read = {one.connector.system for one in graph.sources} | {one.connector.system for one in graph.tables}
    if context.settings.kafka.cluster is None or read.isdisjoint(_OF_KAFKA):
        return
    with suppress(TransientError):
        Topics(context.settings.kafka).names()


def refuse_clock(graph: Graph, what: str) -> None:
    """Refuse a process that goes by the clock where the end is when nothing is left to do: it never comes."""
    for flow in graph.flows:
        if flow.process is not None and flow.process.clock == "processing":
            raise DeclarationError(
                f"{what} would never end: {flow.name!r} goes by the clock, not by the time of its rows.",
                code="clock-endless",
                place=str(flow.place),
                remedy="Run it until you stop it; test it with penstock.testing.ProcessTrial.",
            )
