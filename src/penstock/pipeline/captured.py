"""The captured tables that a run reads: kept running, and followed when their columns change."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from penstock.cdc.captures import Captures
from penstock.cdc.supervisor import Supervisor
from penstock.connectors.change_rows import COLUMNS_CHANGED
from penstock.connectors.changes import Changes
from penstock.errors import StateError

if TYPE_CHECKING:
    from penstock.connectors.base import Context
    from penstock.errors import PenstockError
    from penstock.pipeline.plan import Graph

__all__ = ["Captured"]

_CHANGED = re.compile(rf"{COLUMNS_CHANGED}(\S+) (\[[^\]]*\])")


class Captured:
    """The captures behind the sources and tables of a pipeline; `notes` is what happened to them."""

    def __init__(self, graph: Graph, context: Context) -> None:
        self.notes: list[str] = []
        self._context = context
        read = (*(one.connector for one in graph.sources), *(one.connector for one in graph.tables))
        self._tables = {one.name: one for one in read if isinstance(one, Changes)}
        self._supervisor: Supervisor | None = None

    def start(self) -> None:
        """Look after the connectors as long as the run lasts."""
        found = {one.name: one for one in (table.found(self._context.settings)[0] for table in self._tables.values())}
        if found:
            self._supervisor = Supervisor(self._context.settings, list(found.values()), self._note)
            self._supervisor.start()

    def stop(self) -> None:
        """Leave the connectors to themselves."""
        if self._supervisor is not None:
            self._supervisor.stop()
            self._supervisor = None

    def follow(self, error: PenstockError) -> bool:
        """Whether a query failed because the columns of a table changed, and can go on with them now."""
        match = _CHANGED.search(error.problem)
        if match is None or match[1] not in self._tables:
            return False
        table = self._tables[match[1]]
        try:
            said = table.adapt(self._context, json.loads(match[2].replace('\\"', '"')))
        except StateError:
            capture, _ = table.found(self._context.settings)
            if capture.declared.schema_changes == "stop":
                with Captures(self._context.settings) as captures:
                    captures.pause(capture)
            raise
        self.notes.append(f"{table.name}: {'; '.join(said) or 'a row that is not of its columns is a dead letter'}.")
        return True

    def _note(self, told: dict[str, Any]) -> None:
        if told["said"] != "running":
            self.notes.append(f"capture {told['capture']}: {told['said']}")
