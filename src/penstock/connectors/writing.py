"""One batch on its way into a sink, and the mark that says it has arrived.

A mark says which batch comes next and of which input the last one was made. A batch that comes again is known by it;
a mark that fits neither the batch nor the one before it means that the checkpoint or the sink is not what it was.
"""

from __future__ import annotations

import json
import os
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from penstock.errors import StateError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame

    from penstock.connectors.base import BatchSink, Context

__all__ = [
    "REBUILD",
    "START_OVER",
    "Batch",
    "Letter",
    "Mark",
    "MarkedWriter",
    "Opening",
    "Successor",
    "Writer",
    "is_due",
    "refuse_rival",
]

Letter = tuple[str, Any, Any]
_Made = TypeVar("_Made")

REBUILD = "0" * 15  # the run that builds a sink anew
START_OVER = (
    "Bring it back with its rows; or start the query over by removing its folder under .penstock/state/, and what it"
    " wrote."
)


@dataclass(frozen=True)
class Mark:
    """What a sink remembers of a query: the batch that comes next, and of what input the last one was made."""

    next: int
    digest: str
    run: str = field(default="", compare=False)


@dataclass(frozen=True)
class Batch:
    """One batch of a query on its way to a sink: its number, what it was made of, where it may leave files.

    `letters` are its dead letters, known when its rows are computed; `ends` is up to where it has read Kafka topics.
    """

    number: int
    digest: str
    folder: Path
    target: str = "sink"
    ends: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    letters: Callable[[], Iterable[Letter]] = tuple
    made: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def mark(self) -> Mark:
        """What a sink remembers once it has this batch."""
        return Mark(self.number + 1, self.digest)

    def once(self, name: str, make: Callable[[], _Made]) -> _Made:
        """What Spark computes for this batch: once, also if the sink is tried again, or rows would be counted twice."""
        if name not in self.made:
            self.made[name] = make()
        found: _Made = self.made[name]
        return found

    def refuse(self, letters: Iterable[Letter]) -> None:
        """Keep what the sink refuses, on disk, before it marks the batch: a crash must not lose what is refused."""
        told = [(topic, None if key is None else bytes(key).hex(), value) for topic, key, value in letters]
        path = self._refusals
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(".new")
        with fresh.open("w", encoding="utf-8") as out:
            json.dump({"batch": self.number, "digest": self.digest, "letters": told}, out)
            out.flush()
            os.fsync(out.fileno())
        fresh.replace(path)

    def refused(self) -> list[Letter]:
        """What the sink has refused of this batch, now or before a crash."""
        if not self._refusals.exists():
            return []
        told = json.loads(self._refusals.read_text(encoding="utf-8"))
        if (told["batch"], told["digest"]) != (self.number, self.digest):
            return []
        return [(topic, None if key is None else bytes.fromhex(key), value) for topic, key, value in told["letters"]]

    @property
    def _refusals(self) -> Path:
        return self.folder.with_name("refused") / re.sub(r"[^A-Za-z0-9._-]+", "-", self.target)[:200]

    def reached(self, point: str) -> None:
        """A named point of the protocol; nothing happens here, unless a test lets the process die."""


@dataclass(frozen=True)
class Opening:
    """For whom a writer is opened: a query by the id in its checkpoint, and the sinks, each with its flow."""

    context: Context
    pipeline: str
    query: str
    query_id: str
    run: str
    sinks: tuple[tuple[str, BatchSink], ...]
    guarantee: str = "exactly-once"


class Writer(ABC):
    """Writes the batches of one query to the sinks that are written together."""

    carries_letters: ClassVar[bool] = False
    in_one_step: ClassVar[bool] = False  # else a batch that comes again must have the very same rows

    @abstractmethod
    def write(self, rows: Mapping[str, DataFrame], batch: Batch) -> None:
        """Write the rows of each flow to its sinks; what the outside refuses goes to `batch.refuse` before the end."""

    def maintain(self) -> None:
        """Tidy up in the sink, if there is something to tidy up; called when little is waiting."""
        return

    @abstractmethod
    def close(self) -> None:
        """Let go of what is held, also of what was known of the outside; the next use opens it anew."""


class MarkedWriter(Writer):
    """A writer whose sink remembers what it was given."""

    in_one_step: ClassVar[bool] = True

    @abstractmethod
    def mark(self) -> Mark | None:
        """What the sink remembers; None if it has nothing of this query."""


class Successor(ABC):
    """A writer whose sink, built beside another one, can take its place."""

    @abstractmethod
    def take_place_of(self, sink: BatchSink) -> None:
        """Let what was written here be what another sink of the same kind has."""


def is_due(mark: Mark | None, batch: Batch, where: str, *, adopt: bool) -> bool:
    """Whether a batch is to be written: False if the sink has it; an error if what it remembers can't be right."""
    if mark is None:
        if batch.number == 0 or adopt:
            return True
        raise StateError(
            f"{where} remembers nothing of this query, but the checkpoint is at batch {batch.number}.",
            code="mark-missing",
            remedy="If what it remembered was deleted, bring it back or start the query over; if the sink is"
            " exactly-once only from now on, run once with --adopt.",
        )
    if mark.next == batch.number:
        return True
    if mark == batch.mark:
        return False
    if mark.next > batch.number:
        raise StateError(
            f"{where} has batch {mark.next - 1} already, but the checkpoint is at batch {batch.number}"
            f"{' with other rows' if mark.next == batch.number + 1 else ''}: it was rolled back, or copied.",
            code="mark-ahead",
            remedy="Bring the newer checkpoint back; to write these rows again, remove the query's folder under"
            " .penstock/state/ and what it wrote.",
        )
    raise StateError(
        f"{where} has batch {mark.next - 1}, but the checkpoint is at batch {batch.number}: rows between are missing.",
        code="mark-behind",
        remedy="The sink was restored to an older state: start the query over by removing its folder under"
        " .penstock/state/ and what it wrote.",
    )


def refuse_rival(mark: Mark | None, known: Mark, run: str, where: str) -> None:
    """In a running process the mark is what we knew, or what we wrote; else somebody else writes in our name."""
    if mark is None:
        raise StateError(
            f"{where} does not remember this query any more: it was dropped or made anew while the query ran.",
            code="mark-gone",
            remedy=START_OVER,
        )
    if mark != known and mark.run != run:
        raise StateError(
            f"Another process writes to {where} in the name of this query.",
            code="writer-rival",
            remedy="Stop one of the two: they work on copies of one checkpoint.",
        )
