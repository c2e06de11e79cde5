"""One batch to several sinks: computed once, kept, handed to each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.connectors.base import Context
from penstock.pipeline.build import Build, stage_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation

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
        batch.persist()
        seen: dict[str, Observation] = {}
        try:
            made = self._made(batch, context, seen)
            for sink in self._query.sinks:
                sink.connector.write_batch(made[sink.flow], number, context)
            self._observed[number] = {name: _counts(one) for name, one in seen.items()}
        finally:
            batch.unpersist()

    def observed(self, number: int) -> dict[str, dict[str, int]]:
        """What was counted in a batch, asked once."""
        return self._observed.pop(number, {})

    def _made(self, batch: DataFrame, context: Context, seen: dict[str, Observation]) -> dict[str, DataFrame]:
        from pyspark.sql import Observation

        def observe(rows: DataFrame, name: str, counts: list[Column]) -> DataFrame:
            if stage_of(name) not in self._counted:
                return rows
            seen[name] = Observation(name)
            return rows.observe(seen[name], *counts)

        query, graph = self._query, self._build.graph
        made = {query.root: batch}
        needed = graph.needed(*(sink.flow for sink in query.sinks)) - graph.needed(query.root)
        for table in graph.tables:
            if table.name in graph.needed(*needed):
                made[table.name] = table.connector.table(context)
        Build(graph, context).add_flows(made, needed, observe)
        return made


def _counts(observation: Observation) -> dict[str, int]:
    """What was counted; nothing if Spark left an empty branch out."""
    told = observation._jo is not None and observation._jo.future().isCompleted()
    return {name: int(count) for name, count in observation.get.items()} if told else {}
