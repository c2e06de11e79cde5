"""Schema ids that rows name and nobody has met: asked of the registry while the query stands still."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from penstock.connectors.kafka import Kafka
from penstock.connectors.registered import NEW_SCHEMA
from penstock.connectors.schema_ids import learn_schema

if TYPE_CHECKING:
    from penstock.connectors.base import Context
    from penstock.pipeline.plan import Graph

__all__ = ["NewSchemas"]

_NEW = re.compile(rf"{NEW_SCHEMA}(\S+) (\d+)")


class NewSchemas:
    """The sources of a pipeline whose rows name their schemas; `notes` gets what was learnt."""

    def __init__(self, graph: Graph, context: Context, notes: list[str]) -> None:
        self._notes = notes
        self._context = context
        read = (*(one.connector for one in graph.sources), *(one.connector for one in graph.tables))
        self._topics = {one.target(): one for one in read if isinstance(one, Kafka)}

    def follow(self, said: str) -> bool:
        """Whether what failed said that a schema id is new; it is known, or known to be foreign, now."""
        match = _NEW.search(said)
        if match is None or match[1] not in self._topics:
            return False
        known = learn_schema(self._context, self._topics[match[1]], int(match[2]))
        what = "is known now" if known else "is not in the registry: its rows are dead letters"
        self._notes.append(f"{match[1]}: schema id {match[2]} {what}.")
        return True
