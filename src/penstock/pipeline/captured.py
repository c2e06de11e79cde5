"""The captured tables that a run reads: kept running, and followed when their columns change."""

from __future__ import annotations

import json
import re
import threading
import time
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from penstock.cdc.captures import Captures
from penstock.cdc.supervisor import Supervisor
from penstock.connectors.change_rows import COLUMNS_CHANGED
from penstock.connectors.changes import Changes
from penstock.errors import PenstockError, StateError

if TYPE_CHECKING:
    from penstock.connectors.base import Context
    from penstock.pipeline.plan import Graph

__all__ = ["Captured"]

_LOOK_SECONDS = 0.2
_REST = 2.0  # times as long as a look took
_NOTED = 20
_CHANGED = re.compile(rf"{COLUMNS_CHANGED}(\S+) (\[[^\]]*\])")


class Captured:
    """The captures behind the sources and tables of a pipeline; `notes` gets what happened to them."""

    def __init__(self, graph: Graph, context: Context, notes: list[str]) -> None:
        self.notes = notes
        self._context = context
        read = (*(one.connector for one in graph.sources), *(one.connector for one in graph.tables))
        self._tables = {one.name: one for one in read if isinstance(one, Changes)}
        self._looked_up = [one.connector for one in graph.tables if isinstance(one.connector, Changes)]
        self._supervisor: Supervisor | None = None
        self._over = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name="penstock-tables", daemon=True)

    def prepare(self) -> None:
        """Bring the tables that are looked up to what they are now, before the first batch."""
        for table in self._looked_up:
            self._refresh(table)

    def start(self) -> None:
        """Look after the connectors as long as the run lasts."""
        found = {one.name: one for one in (table.found(self._context.settings)[0] for table in self._tables.values())}
        if found:
            self._supervisor = Supervisor(self._context.settings, list(found.values()), self._note)
            self._supervisor.start()
        if self._looked_up:
            self._keeper.start()

    def stop(self) -> None:
        """Leave the connectors and tables to themselves."""
        self._over.set()
        if self._keeper.is_alive():
            self._keeper.join(timeout=30.0)
        if self._supervisor is not None:
            self._supervisor.stop()
            self._supervisor = None

    def follow(self, said: str) -> bool:
        """Whether what failed said that the columns of a table changed, and can go on with them now."""
        match = _CHANGED.search(said)
        if match is None or match[1] not in self._tables:
            return False
        table = self._tables[match[1]]
        try:
            changed = table.adapt(self._context, json.loads(match[2].replace('\\"', '"')))
        except StateError:
            capture, _ = table.found(self._context.settings)
            if capture.declared.schema_changes == "stop":
                with Captures(self._context.settings) as captures:
                    captures.pause(capture)
            raise
        self.notes.append(f"{table.name}: {'; '.join(changed) or 'a row that is not of its columns is a dead letter'}.")
        return True

    def _refresh(self, table: Changes) -> None:
        while True:
            try:
                table.kept(self._context).refresh()
            except PySparkException as error:
                if not self.follow(str(error)):
                    raise
            else:
                return

    def _keep(self) -> None:
        """Keep the tables fresh; one that can't be is told of, and stays as it is until the next look."""
        took = 0.0
        while not self._over.wait(max(_LOOK_SECONDS, took * _REST)):  # batches need the cores too
            began = time.monotonic()
            for table in self._looked_up:
                try:
                    self._refresh(table)
                except (PenstockError, PySparkException, Py4JError) as error:
                    note = f"{table.name} is not fresh: {str(error).splitlines()[0]}"
                    if not self._over.is_set() and note not in self.notes[-_NOTED:]:
                        self.notes.append(note)
            took = time.monotonic() - began

    def _note(self, told: dict[str, Any]) -> None:
        if told["said"] != "running":
            self.notes.append(f"capture {told['capture']}: {told['said']}")
