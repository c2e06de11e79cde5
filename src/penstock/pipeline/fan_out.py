"""One batch to several sinks: computed once, kept, handed to each."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from penstock.connectors.base import Context
from penstock.pipeline.build import Build, stage_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from penstock.pipeline.plan import Query

__all__ = ["FanOut"]


class FanOut:
    """Writes each batch of a query to all its sinks, and remembers what the stages after the root counted."""

    def __init__(self, build: Build, query: Query, counted: set[str]) -> None:
        self._build = build
        self._query = query
        self._counted = counted
        self._observed: dict[int, dict[str, dict[str, int]]] = {}

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Write one batch."""
        context = Context(batch.sparkSession, self._build.context.settings)
        with ExitStack() as kept:
            self._observed[number] = {}
            made = self._made(_kept(batch, kept), number, context, kept)
            for sink in self._query.sinks:
                sink.connector.write_batch(made[sink.flow], number, context)

    def observed(self, number: int) -> dict[str, dict[str, int]]:
        """What was counted in a batch, asked once."""
        return self._observed.pop(number, {})

    def _made(self, batch: DataFrame, number: int, context: Context, kept: ExitStack) -> dict[str, DataFrame]:
        def observe(rows: DataFrame, name: str, counts: list[Column]) -> DataFrame:
            # Spark tells what it observed of a stream, or of a batch that is collected, but not of one that is written.
            if stage_of(name) not in self._counted:
                return rows
            rows = _kept(rows, kept)
            self._observed[number][name] = rows.agg(*counts).collect()[0].asDict()
            return rows

        query, graph = self._query, self._build.graph
        made = {query.root: batch}
        needed = graph.needed(*(sink.flow for sink in query.sinks)) - graph.needed(query.root)
        for table in graph.tables:
            if table.name in graph.needed(*needed):
                made[table.name] = table.connector.table(context)
        Build(graph, context).add_flows(made, needed, observe)
        return made


def _kept(rows: DataFrame, until: ExitStack) -> DataFrame:
    """The rows, computed once as long as the batch is written."""
    rows.persist()
    until.callback(rows.unpersist)
    return rows
