"""One batch into all sinks of a query, each exactly once: the commit protocol.

Spark promises that a batch that comes again has the same input. Each sink is asked what it remembers of this query: it
gets the batch, or has it already. A sink that is away is waited for; the others have the batch by then and are not
asked twice. Dead letters come last, so that whoever sees them knows that the batch is everywhere.
"""

from __future__ import annotations

import shutil
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.connectors.base import BatchSink, Context, IdempotentSink
from penstock.connectors.letters import dead_letters, envelope
from penstock.connectors.writing import Batch, Letter, Mark, MarkedWriter, Opening, Writer, is_due, refuse_rival
from penstock.errors import CommitUnknownError, PenstockError, TransientError
from penstock.pipeline import progress
from penstock.pipeline.batch_rows import BatchRows, kept_until
from penstock.pipeline.build import stage_of
from penstock.pipeline.checkpoint import batch_record, digest_of, kafka_ends, query_id
from penstock.pipeline.intent import Intent
from penstock.pipeline.observed import observed
from penstock.pipeline.replay import RULE, SAID, Found

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame

    from penstock.pipeline.build import Build
    from penstock.pipeline.dead_letters import DeadLetters
    from penstock.pipeline.declare import Sink
    from penstock.pipeline.plan import Query

__all__ = ["Commit", "Terms"]

_PATIENCE_SECONDS = 900.0
_LONGEST_WAIT = 15.0
_LITTLE = 10_000  # rows that wait
# Spark takes an error of this text for its own interruption. It looks for it by an expression that goes one call deeper
# for each letter: the text of a whole stack is more than a thread of Java can bear.
_CUT_OFF = "py4j.protocol.Py4JJavaError: An error occurred while calling: java.lang.InterruptedException"


@dataclass(frozen=True)
class Terms:
    """What a run has agreed on: its id, who publishes dead letters, whether sinks that remember nothing are taken."""

    run: str
    letters: Callable[[str], DeadLetters]
    over: threading.Event
    adopt: bool = False


@dataclass
class _Target:
    """The sinks of a query that are written together, and their writer."""

    name: str
    sinks: tuple[Sink, ...]
    writer: Writer
    intent: Intent | None
    known: Mark | None = None

    def close(self) -> None:
        """After any doubt: the next use begins with what the outside remembers."""
        self.writer.close()


_Given = TypeVar("_Given", _Target, "DeadLetters")


class Commit:
    """Writes each batch of a query to all its sinks, and remembers what the stages after the root counted."""

    def __init__(self, build: Build, query: Query, folder: Path, counted: set[str], terms: Terms) -> None:
        self.failure: PenstockError | None = None
        self.waits_for: str | None = None
        self.behind = 0
        self.ended: dict[int, float] = {}
        self._build = build
        self._query = query
        self._folder = folder
        self._counted = counted
        self._terms = terms
        self._targets: list[_Target] | None = None
        self._letters: DeadLetters | None = None
        self._query_id = ""
        self._rows = BatchRows(build.graph, query, counted)

    def __call__(self, frame: DataFrame, number: int) -> None:
        """Write one batch; what goes wrong is kept, because Spark hands on its text only."""
        self.failure = None
        try:
            with ExitStack() as kept:
                self._commit(frame, number, kept)
        except Exception as error:
            self.failure = error if isinstance(error, PenstockError) else None
            if self._terms.over.is_set():
                raise InterruptedError(_CUT_OFF) from None
            raise

    def observed(self, number: int) -> dict[str, dict[str, Any]]:
        """What was counted in a batch after the root, asked once."""
        return self._rows.observed.pop(number, {})

    def close(self) -> None:
        """Let go of all writers; the next batch opens them anew."""
        for target in self._targets or ():
            target.writer.close()
        self._targets = None

    def _commit(self, frame: DataFrame, number: int, kept: ExitStack) -> None:
        context = replace(self._build.context, spark=frame.sparkSession)
        targets, letters = self._opened(context)
        record = batch_record(self._folder / "checkpoint", number)
        batch = Batch(number, digest_of(record), self._folder / "staged", ends=kafka_ends(record))
        own = {one.name: replace(batch, target=one.name, made={}) for one in targets}

        def refused() -> list[Letter]:
            return [letter for one in own.values() for letter in one.refused()]

        if self._build.graph.quarantines(self._query.root):
            frame = kept_until(frame, kept)
        batch.reached("batch begun")
        due = [one for one in targets if self._may_be_due(one, batch)]
        if due:
            once = len(targets) < 2 and targets[0].writer.in_one_step
            rows = (self._rows.made if once else self._rows.staged)(frame, batch, context, kept)
        else:
            frame.write.format("noop").mode("overwrite").save()  # the state of this batch must exist all the same

        def write(one: _Target) -> None:
            said = replace(
                own[one.name],
                letters=lambda: chain(letters.messages(self._told(record), self._raised(frame)), refused()),
            )
            self._write(one, rows, said)
            batch.reached(f"{one.name} written")

        self._each_patiently([one for one in due if not one.writer.carries_letters], write)
        self._each_patiently([one for one in due if one.writer.carries_letters], write)
        if not any(one.writer.carries_letters for one in targets):
            self._each_patiently([letters], lambda one: one.publish(self._told(record), refused(), self._raised(frame)))
        self.ended[number] = time.time()
        batch.reached("all written")
        for folder in (batch.folder, batch.folder.with_name("refused")):
            shutil.rmtree(folder, ignore_errors=True)
        if self.behind < _LITTLE:
            for one in targets:
                with suppress(TransientError, CommitUnknownError):  # another time
                    one.writer.maintain()

    def _raised(self, frame: DataFrame) -> Iterator[Found]:
        """The rows that a process could not use, among what it gave out."""
        if self._build.graph.quarantines(self._query.root):
            from penstock.pipeline.keyed.on_spark import raised_rows

            rows = raised_rows(frame).withColumnsRenamed({"kind": RULE, "message": SAID})
            yield Found(self._query.root, rows)

    def _is_due(self, target: _Target, batch: Batch) -> bool:
        if target.intent is not None:
            return target.intent.is_new(batch.number) or target.intent.is_doubtful(batch.number)
        if not isinstance(target.writer, MarkedWriter):
            return True
        mark = target.writer.mark()
        if target.known is not None:
            refuse_rival(mark, target.known, self._terms.run, target.name)
        return is_due(mark, batch, target.name, adopt=self._terms.adopt)

    def _write(self, target: _Target, rows: dict[str, DataFrame], batch: Batch) -> None:
        if target.intent is not None:
            self._write_at_most_once(target, target.intent, rows, batch)
        elif self._is_due(target, batch):  # else the outcome of a try before was unknown, and it was written
            target.writer.write(rows, batch)
        target.known = replace(batch.mark, run=self._terms.run)

    def _write_at_most_once(self, target: _Target, intent: Intent, rows: dict[str, DataFrame], batch: Batch) -> None:
        if intent.is_doubtful(batch.number):
            batch.refuse([self._not_again(sink, batch) for sink in target.sinks])
        else:
            intent.note(batch.number, "begun")
            target.writer.write(rows, batch)
        intent.note(batch.number, "ended")

    def _not_again(self, sink: Sink, batch: Batch) -> Letter:
        """A letter for a batch that may have been sent in part, and is not sent again because nobody asked for that."""
        pipeline = self._build.graph.name
        said = f"a failure hit batch {batch.number} on its way to {sink.connector.target()}: it is not sent again"
        key, letter = envelope(pipeline, sink.flow, "at most once", said, {})
        return dead_letters(pipeline), key, letter

    def _may_be_due(self, target: _Target, batch: Batch) -> bool:
        """Whether a sink wants the batch; one that does not answer may."""
        try:
            return self._is_due(target, batch)
        except (TransientError, CommitUnknownError):
            target.close()
            return True

    def _each_patiently(self, left: list[_Given], step: Callable[[_Given], Any]) -> None:
        """Do a step for each; those that are away come again, ever later, while the others go on."""
        began, pause = time.monotonic(), 0.5
        while left:
            away: list[_Given] = []
            for one in left:
                try:
                    step(one)
                except (TransientError, CommitUnknownError) as error:
                    one.close()
                    away.append(one)
                    self.waits_for = f"{one.name}: {error.problem}"
                    trouble = error
            left = away
            if left and (time.monotonic() - began > _PATIENCE_SECONDS or self._terms.over.wait(pause)):
                raise trouble
            pause = min(pause * 2, _LONGEST_WAIT)
        self.waits_for = None

    def _opened(self, context: Context) -> tuple[list[_Target], DeadLetters]:
        """The writers, opened by the id that Spark has noted in the checkpoint: never by a name alone."""
        if self._targets is None or self._letters is None:
            self._query_id = query_id(self._folder / "checkpoint")
            groups: dict[str, list[Sink]] = {}
            for sink in self._query.sinks:
                assert isinstance(sink.connector, BatchSink)
                groups.setdefault(sink.connector.together(), []).append(sink)
            self._targets = [self._target(sinks, context) for sinks in groups.values()]
            self._letters = self._terms.letters(self._query_id)
        return self._targets, self._letters

    def _target(self, sinks: list[Sink], context: Context) -> _Target:
        pairs = tuple((one.flow, one.connector) for one in sinks if isinstance(one.connector, BatchSink))
        opening = Opening(
            context, self._build.graph.name, self._query.name, self._query_id, self._terms.run, pairs, sinks[0].promise
        )
        name = ", ".join(one.connector.target() for one in sinks)
        careful = sinks[0].promise == "at-most-once" and isinstance(sinks[0].connector, IdempotentSink)
        intent = Intent(self._folder / "intents", name) if careful else None
        return _Target(name, tuple(sinks), pairs[0][1].open(opening), intent)

    def _told(self, record: dict[str, Any]) -> dict[str, Any]:
        """The record with what is wrong with the rows of this batch, now that it is computed."""
        counts, late = observed(self._build.context.spark, self._query_id)  # the batch has a session of its own
        counts = {name: one for name, one in counts.items() if stage_of(name) in self._counted}
        counts |= self._rows.observed.get(record["batch"], {})
        dead, _ = progress.counts_of(counts)
        return {**record, "dead": dead, "late": late, "failed": progress.failed_in(counts)}
