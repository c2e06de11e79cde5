"""What can be done with captures: create, look at, pause, resume, restart, snapshot, delete."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from penstock.broker.replay import Start, read
from penstock.broker.topics import Topics
from penstock.cdc.connect import Connect, first_sentence
from penstock.cdc.database import Slot, open_database
from penstock.cdc.debezium import TOPICS, connector_config
from penstock.cdc.on_demand import asked_for, with_tables
from penstock.cdc.secrets import forget_password, write_password
from penstock.cdc.vanished import tell_of_vanished
from penstock.errors import DeclarationError, PenstockError, SetupError, StateError, TransientError

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from penstock.cdc.capture import Capture
    from penstock.settings import Settings

__all__ = ["CaptureStatus", "Captures"]

_START_SECONDS = 90.0
_PLACE_SECONDS = 5.0
_FAILED = "FAILED"
_EMPTIED = "cannot accept message without key"  # a change that is of no row


@dataclass(frozen=True)
class CaptureStatus:
    """How a capture is: absent, running, paused, failed, or stopped; and what it said last, if it failed.

    `reading` are the tables of a snapshot on demand that is under way.
    """

    name: str
    state: str
    database: str
    tables: tuple[str, ...]
    topics: tuple[str, ...]
    reading: tuple[str, ...] = ()
    said: str | None = None
    trace: str | None = None
    remedy: str | None = None


class Captures:
    """The captures of a project on its Kafka Connect."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._connect = Connect(settings.connect)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connect.close()

    def create(self, capture: Capture, *, snapshot_again: bool = False) -> CaptureStatus:
        """Create a capture, or bring one to what is declared; when it fails nothing of it stays."""
        known = self._connect.config(capture.name)
        if known is not None and known.get("topic.prefix") != capture.name:
            raise DeclarationError(
                f"Kafka Connect has another connector {capture.name!r} already.",
                code="connector-exists",
                remedy="Give the capture another name.",
            )
        with open_database(capture, self._settings) as database:
            database.check(capture)
            config = connector_config(capture, self._settings)
            if known is not None and snapshot_again:
                self._forget(capture)
                database.clean(capture)
                tell_of_vanished(capture, database, self._settings)
            elif known is not None:
                self._refuse_lost(capture, database.slot(capture))
            try:
                write_password(capture, self._settings)
                self._make_topics(capture)
                database.prepare(capture)
                if known is not None and not snapshot_again:
                    self._halt(capture)
                    self._ask_for(capture, _added(known, capture))
                self._connect.put(capture.name, config)
                status = self._go(capture)
            except BaseException:
                if known is None or snapshot_again:
                    with suppress(PenstockError):  # what is away can't be tidied up; the rest can
                        self._connect.delete(capture.name)
                    forget_password(capture, self._settings)
                    with suppress(PenstockError):
                        database.clean(capture)
                raise
        return status

    def status(self, capture: Capture) -> CaptureStatus:
        """How a capture is now."""
        where = str(capture.database(self._settings))
        topics = tuple(capture.topic(table) for table in capture.tables)
        status = CaptureStatus(capture.name, "absent", where, capture.declared.tables, topics)
        told = self._connect.status(capture.name)
        if told is None:
            return replace(status, remedy=f"Create it: penstock cdc create {capture.name}")
        states = [told["connector"], *told["tasks"]]
        if failed := next((one for one in states if one["state"] == _FAILED), None):
            return self._failed(capture, replace(status, state="failed", trace=str(failed.get("trace", ""))))
        if any(one["state"] in ("PAUSED", "STOPPED") for one in states):
            return replace(status, state="paused", remedy=f"Let it go on: penstock cdc resume {capture.name}")
        running = len(told["tasks"]) > 0 and all(one["state"] == "RUNNING" for one in states)
        reading = tuple(asked_for(self._connect.offsets(capture.name)))
        return replace(status, state="running" if running else told["connector"]["state"].lower(), reading=reading)

    def _failed(self, capture: Capture, status: CaptureStatus) -> CaptureStatus:
        """Why it failed, in a sentence; a slot that is lost explains it best."""
        try:
            with open_database(capture, self._settings) as database:
                self._refuse_lost(capture, database.slot(capture))
        except StateError as error:
            return replace(status, said=error.problem, remedy=error.remedy)
        except PenstockError:  # the database is away: the trace says so
            pass
        if _EMPTIED in (status.trace or ""):
            again = f"penstock cdc create {capture.name} --snapshot-again"
            return replace(status, said="A table was emptied with TRUNCATE.", remedy=f"Take a new snapshot: {again}")
        said = first_sentence(status.trace or "")
        return replace(status, said=said, remedy=f"Mend the cause, then: penstock cdc restart {capture.name}")

    def others(self, known: set[str]) -> list[str]:
        """Connectors that no capture of this project has made."""
        return [name for name in self._connect.names() if name not in known]

    def pause(self, capture: Capture) -> CaptureStatus:
        """Let a capture rest; the database keeps its log for it meanwhile."""
        self._must_exist(capture)
        self._connect.pause(capture.name)
        self._connect.wait(capture.name, lambda told: told["connector"]["state"] == "PAUSED", 20.0)
        return self.status(capture)

    def resume(self, capture: Capture) -> CaptureStatus:
        """Let a capture go on; a lost slot is refused."""
        self._must_exist(capture)
        with open_database(capture, self._settings) as database:
            self._refuse_lost(capture, database.slot(capture))
        return self._go(capture)

    def restart(self, capture: Capture) -> CaptureStatus:
        """Start the connector and its task anew, with the password as it is now."""
        self._must_exist(capture)
        with open_database(capture, self._settings) as database:
            self._refuse_lost(capture, database.slot(capture))
        write_password(capture, self._settings)
        self._halt(capture)
        return self._go(capture)

    def snapshot(self, capture: Capture, tables: tuple[str, ...]) -> None:
        """Ask for the rows of tables as they are now, while changes go on."""
        if unknown := [one for one in tables if one not in capture.declared.tables]:
            raise DeclarationError(
                f"Capture {capture.name!r} has no table {unknown[0]!r}.",
                code="table-unknown",
                remedy=f"It has {', '.join(capture.declared.tables)}.",
            )
        self._must_exist(capture)
        was = self.status(capture).state
        if not self._has_place(capture):
            raise TransientError(
                f"Capture {capture.name!r} has not noted a place in the database's log yet.",
                code="capture-young",
                remedy="Ask again when it has: with its first change, or its next sign of life.",
            )
        self._halt(capture)
        self._ask_for(capture, tables)
        if was != "paused":
            self._go(capture)

    def delete(self, capture: Capture) -> None:
        """Remove a capture: connector, offsets, publication, slot; its topics stay."""
        if self._connect.config(capture.name) is not None:
            self._forget(capture)
        with open_database(capture, self._settings) as database:
            database.clean(capture)
        forget_password(capture, self._settings)

    def slot(self, capture: Capture) -> Slot:
        """Where a capture stands in its database's log, with how old its last sign of life is."""
        with open_database(capture, self._settings) as database:
            slot = database.slot(capture)
        return replace(slot, behind_seconds=self._silent_for(capture))

    def _silent_for(self, capture: Capture) -> float | None:
        """How old the last heartbeat is."""
        try:
            beats = [one.json()["ts_ms"] for one in read(self._settings.kafka, capture.heartbeat_topic, Start(last=4))]
        except DeclarationError:  # it has not made its topic yet
            return None
        return round(max(0.0, time.time() - max(beats) / 1000), 1) if beats else None

    def _forget(self, capture: Capture) -> None:
        """Remove the connector and what it remembers."""
        self._halt(capture)
        self._connect.forget(capture.name)
        self._connect.delete(capture.name)

    def _has_place(self, capture: Capture) -> bool:
        """Whether it knows where to go on after a stop; a new one is given the time of a sign of life."""
        deadline = time.monotonic() + capture.declared.heartbeat_seconds + _PLACE_SECONDS
        while not self._connect.offsets(capture.name):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.3)
        return True

    def _ask_for(self, capture: Capture, tables: tuple[str, ...]) -> None:
        """Let a stopped capture read tables when it goes on; one without a place begins with all of them anyway."""
        places = self._connect.offsets(capture.name)
        if tables and places:
            self._connect.move(capture.name, with_tables(places, tables))

    def _make_topics(self, capture: Capture) -> None:
        """The topics of the tables, so that they can be read before there is a row."""
        topics = Topics(self._settings.kafka)
        there = topics.names()
        for name in map(capture.topic, capture.tables):
            if name not in there:
                topics.create(name, partitions=capture.declared.partitions, config=TOPICS[capture.declared.keep])

    def _halt(self, capture: Capture) -> None:
        """End its task, so that whatever runs later was started later."""
        self._connect.stop(capture.name)
        self._connect.wait(capture.name, lambda told: not told["tasks"], 30.0)

    def _go(self, capture: Capture) -> CaptureStatus:
        """Let it run, and see that it does."""

        def settled(told: dict[str, Any]) -> bool:
            states = [told["connector"]["state"], *(task["state"] for task in told["tasks"])]
            return _FAILED in states or (len(states) > 1 and set(states) == {"RUNNING"})

        self._connect.resume(capture.name)
        self._connect.wait(capture.name, settled, _START_SECONDS)
        status = self.status(capture)
        if status.state != "running":
            raise SetupError(
                f"Capture {capture.name!r} does not start: {status.said or f'it is {status.state}.'}",
                code="capture-failed",
                remedy="Mend the cause and create it again; `penstock logs connect` has the whole story.",
            )
        return status

    def _must_exist(self, capture: Capture) -> None:
        if self._connect.config(capture.name) is None:
            raise DeclarationError(
                f"Capture {capture.name!r} was not created.",
                code="capture-absent",
                remedy=f"Create it: penstock cdc create {capture.name}",
            )

    def _refuse_lost(self, capture: Capture, slot: Slot) -> None:
        if slot.state in ("lost", "missing") and self._connect.offsets(capture.name):
            raise StateError(
                f"The slot of capture {capture.name!r} is {slot.state}: changes since then can't be had any more.",
                code="slot-lost",
                remedy=f"Take a new snapshot: penstock cdc create {capture.name} --snapshot-again",
            )


def _added(known: dict[str, str], capture: Capture) -> tuple[str, ...]:
    """The tables whose rows a capture has to read because it did not have them before."""
    before = set(known.get("table.include.list", "").replace("\\", "").split(","))
    wanted = capture.declared.snapshot == "initial"
    return tuple(one for one in capture.declared.tables if wanted and one not in before)
