"""Checkpoints, topics and tables that are not what they were: refused with the remedy, never skipped, never doubled."""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
import traceback
import uuid
from collections import Counter
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

import penstock as ps
from penstock.broker import Producer, Topics, read
from penstock.connectors.writing import Batch
from penstock.errors import PenstockError, StateError
from penstock.pipeline.commit import Commit
from penstock.pipeline.compile import compile_pipeline
from penstock.pipeline.run import Running, start
from penstock.pipeline.state import PipelineState
from tests.conftest import Project, wait_until
from tests.contracts.rigs import Service

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame

    from penstock.connectors.base import BatchSink, Context
    from penstock.settings import Kafka


SAME = """
import penstock as ps

copy = ps.Pipeline("{name}")
copy.source("numbers", ps.Kafka("{source}", format=ps.Json("n LONG, text STRING")))

@copy.flow
def same(numbers):
    return numbers

copy.sink(same, ps.Kafka("{out}", key="n"))
"""


class Copy:
    """A pipeline that copies numbers into some sinks."""

    def __init__(self, context: Context, topic: Callable[..., str], *sinks: BatchSink, **how: Any) -> None:
        self.context = context
        self.kafka: Kafka = context.settings.kafka
        self.source, self.out = topic("numbers"), topic("copied")
        self.pipeline = ps.Pipeline(f"copy-{uuid.uuid4().hex[:6]}")
        self.pipeline.source("numbers", ps.Kafka(self.source, format=ps.Json("n LONG, text STRING")))

        @self.pipeline.flow
        def same(numbers: DataFrame) -> DataFrame:
            return numbers

        for sink in sinks or (ps.Kafka(self.out, key="n"),):
            self.pipeline.sink(same, sink, **how)
        self.sent = 0

    def send(self, count: int = 5) -> None:
        with Producer(self.kafka) as producer:
            for _ in range(count):
                producer.send(self.source, {"n": self.sent}, str(self.sent))
                self.sent += 1

    def run(self, context: Context | None = None, **how: Any) -> None:
        context = context or self.context
        running = start(compile_pipeline(self.pipeline, context), context, until_caught_up=True, **how)
        try:
            assert running.wait(60)
        finally:
            running.stop()

    def begin(self) -> Running:
        return start(compile_pipeline(self.pipeline, self.context), self.context)

    def copied(self) -> Counter[int]:
        return Counter(record.json()["n"] for record in read(self.kafka, self.out))

    def letters(self) -> list[Any]:
        name = f"{self.pipeline.name}-dead-letters"
        return [record.json() for record in read(self.kafka, name)] if name in Topics(self.kafka).names() else []

    @property
    def folder(self) -> Path:
        return PipelineState(self.context.settings.home, self.pipeline.name).folder


@pytest.fixture
def service() -> Iterator[Service]:
    made = Service()
    yield made
    made.shutdown()
    made.server_close()


def test_a_checkpoint_that_was_rolled_back_is_refused(
    context: Context, topic: Callable[..., str], tmp_path: Path
) -> None:
    copy = Copy(context, topic)
    copy.send()
    copy.run()
    shutil.copytree(copy.folder, tmp_path / "older")
    for _ in range(2):
        copy.send()
        copy.run()
    newest = copy.folder.rename(tmp_path / "newest")
    shutil.copytree(tmp_path / "older", copy.folder)
    with pytest.raises(StateError, match="rolled back, or copied") as caught:
        copy.run()
    assert "Bring the newer checkpoint back" in caught.value.remedy
    assert copy.copied() == Counter(range(15))
    shutil.rmtree(copy.folder)
    newest.rename(copy.folder)
    copy.send()
    copy.run()
    assert copy.copied() == Counter(range(20))


def test_of_two_copies_of_a_checkpoint_one_writes(context: Context, topic: Callable[..., str], tmp_path: Path) -> None:
    copy = Copy(context, topic)
    copy.send()
    running = copy.begin()
    fenced: PenstockError | None = None
    other = Project(tmp_path / "other")
    text = SAME.format(name=copy.pipeline.name, source=copy.source, out=copy.out)
    (other.folder / "same.py").write_text(text, encoding="utf-8")
    try:
        wait_until(lambda: list(copy.folder.glob("*/checkpoint/commits/0")), 60)
        shutil.copytree(copy.folder, PipelineState(other.home, copy.pipeline.name).folder)
        copy.send()
        wait_until(lambda: len(copy.copied()) == 10)
        env = {"PENSTOCK_KAFKA_BOOTSTRAP": copy.kafka.bootstrap}
        done = other.run("run", "same.py", "--until-caught-up", env=env)
        assert done.returncode == 0, done.stderr  # the same rows in the same batch: the mark says that it is there
        assert copy.copied() == Counter(range(10))
        copy.send()
        try:
            running.wait(60)
        except PenstockError as error:
            fenced = error
    finally:
        with contextlib.suppress(PenstockError):
            running.stop()
    assert fenced is not None
    assert fenced.code == "producer-fenced"
    copy.run()
    assert copy.copied() == Counter(range(15))


def test_a_progress_topic_that_was_deleted_is_noticed_and_can_be_adopted(
    context: Context, topic: Callable[..., str]
) -> None:
    copy = Copy(context, topic)
    copy.send()
    copy.run()
    Topics(copy.kafka).delete(f"{copy.pipeline.name}-numbers-progress")
    copy.send()
    with pytest.raises(StateError, match="remembers nothing of this query") as caught:
        copy.run()
    assert "--adopt" in caught.value.remedy
    assert copy.copied() == Counter(range(5))
    copy.run(adopt=True)
    assert copy.copied() == Counter(range(10))


def test_a_table_dropped_under_a_running_query_stops_it(context: Context, topic: Callable[..., str]) -> None:
    table = f"dropped_{uuid.uuid4().hex[:6]}"
    copy = Copy(context, topic, ps.Postgres(table, create=True))

    def run(statement: str) -> Any:
        with psycopg.connect(context.settings.postgres.url, autocommit=True) as connection:
            found = connection.execute(statement)
            return found.fetchone() if found.description else None

    copy.send()
    running = copy.begin()
    try:
        wait_until(lambda: run(f"SELECT to_regclass('{table}')") != (None,))
        wait_until(lambda: run(f"SELECT count(*) FROM {table}") == (5,))
        run(f"DROP TABLE {table}")
        copy.send()
        with pytest.raises(StateError, match="is not there any more"):
            running.wait(60)
    finally:
        running.stop()


def test_a_sink_that_is_away_holds_nobody_up_for_good(
    context: Context, topic: Callable[..., str], service: Service
) -> None:
    table = f"agree_{uuid.uuid4().hex[:6]}"
    out = topic("agreed")
    copy = Copy(context, topic, ps.Http(service.url), ps.Postgres(table, create=True), ps.Kafka(out, key="n"))
    service.answers = {'"n"': [503] * 1_000_000}
    copy.send(20)
    running = copy.begin()
    try:
        wait_until(lambda: service.calls.total() > 20, 60, "the service is asked, and is away")
        wait_until(lambda: "does not take rows" in running.waits().get("numbers", ""), 60, "it says what it waits for")
        copy.send(20)
        service.answers.clear()
        wait_until(lambda: len(service.taken) == 40, 90, "the service has all rows")
        wait_until(lambda: sum(1 for _ in read(copy.kafka, out)) == 40, 30)
    finally:
        running.stop()
    with psycopg.connect(context.settings.postgres.url) as connection:
        found = [row[0] for row in connection.execute(f"SELECT n FROM {table}")]
    assert Counter(found) == Counter(record.json()["n"] for record in read(copy.kafka, out)) == Counter(range(40))


def test_stopping_does_not_wait_for_a_sink_that_is_away(
    context: Context, topic: Callable[..., str], service: Service
) -> None:
    copy = Copy(context, topic, ps.Http(service.url))
    service.answers = {'"n"': [503] * 1_000_000}
    copy.send()
    running = copy.begin()
    wait_until(lambda: service.calls.total() > 5, 60, "the service is asked")
    began = time.monotonic()
    stopping = threading.Thread(target=running.stop)
    stopping.start()
    stopping.join(45)
    assert not stopping.is_alive()
    assert time.monotonic() - began < 45
    service.answers.clear()
    copy.run()
    assert len(service.taken) == 5


def test_a_batch_that_is_cut_off_says_so_in_few_words(
    context: Context, topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark looks through what it says letter by letter, each a call deeper: a whole stack is too much for Java's."""
    copy = Copy(context, topic)
    begun, said = threading.Event(), list[str]()
    whole = Commit.__call__

    def listened(commit: Commit, frame: DataFrame, number: int) -> None:
        try:
            whole(commit, frame, number)
        except Exception:
            said.append(traceback.format_exc())
            raise

    def slowly(commit: Commit, frame: DataFrame, number: int, kept: Any) -> None:
        begun.set()
        frame.selectExpr("java_method('java.util.concurrent.locks.LockSupport', 'parkNanos', 60000000000L)").collect()

    monkeypatch.setattr(Commit, "__call__", listened)
    monkeypatch.setattr(Commit, "_commit", slowly)
    copy.send()
    running = copy.begin()
    (live,) = running._live.values()
    assert begun.wait(60)
    tracker = context.spark.sparkContext.statusTracker()
    wait_until(lambda: bool(tracker.getActiveStageIds()), 60, "the batch is worked on")
    running.abandon()
    wait_until(lambda: bool(said), 60, "it is cut off")
    assert "java.lang.InterruptedException" in said[0]
    assert len(said[0]) < 2_000
    assert live.stream.exception() is None


def test_at_most_once_sends_nothing_twice_and_says_so(
    context: Context, topic: Callable[..., str], service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.connectors.http_writer._TRIES", 1)
    copy = Copy(context, topic, ps.Http(service.url, concurrency=1), guarantee="at-most-once")
    service.answers = {'"n":3': [503]}
    copy.send()
    copy.run()
    assert set(service.calls.values()) == {1}
    assert len(service.taken) < 5
    (letter,) = copy.letters()
    assert letter["rule"] == "at most once"
    copy.send()
    copy.run()
    assert set(service.calls.values()) == {1}
    assert len(copy.letters()) == 1


def test_offsets_of_a_group_are_those_of_the_batch(context: Context, topic: Callable[..., str]) -> None:
    out = topic("grouped")
    group = f"shown-{uuid.uuid4().hex[:6]}"
    copy = Copy(context, topic, ps.Kafka(out, group=group))
    copy.send()
    copy.run()
    topics = Topics(copy.kafka)
    assert topics.committed(copy.source, group) == topics.end_offsets(copy.source)


def test_a_row_too_large_for_the_topic_is_a_letter(context: Context, topic: Callable[..., str]) -> None:
    copy = Copy(context, topic)
    noise = "".join(uuid.uuid4().hex for _ in range(50_000))  # 1.6 MB that can't be made small
    Topics(copy.kafka).configure(copy.source, {"max.message.bytes": "20000000"})
    with Producer(copy.kafka) as producer:
        producer.send(copy.source, {"n": 0, "text": noise})
        producer.send(copy.source, {"n": 1, "text": "a" * 1_600_000})
        producer.send(copy.source, {"n": 2, "text": "small"})
    copy.run()
    assert copy.copied() == Counter([1, 2])
    (letter,) = copy.letters()
    assert (letter["rule"], letter["stage"]) == ("too large", "same")
    assert '"n":0' in letter["value"]


def test_a_crash_after_a_sinks_commit_loses_no_letter(
    context: Context, topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = f"refusing_{uuid.uuid4().hex[:6]}"
    with psycopg.connect(context.settings.postgres.url, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE {table} (n bigint CHECK (n <> 3), text text)")
    copy = Copy(context, topic, ps.Postgres(table))
    with Producer(copy.kafka) as producer:
        producer.send(copy.source, "no json")
    copy.send()
    died: list[str] = []

    def dying(batch: Batch, point: str) -> None:
        if point.endswith(" written") and point != "all written" and not died:
            died.append(point)
            raise RuntimeError("as if the process died here")

    monkeypatch.setattr(Batch, "reached", dying)
    copy.run()
    assert died == [f"postgres:{table} written"]
    assert sorted(letter["rule"] for letter in copy.letters()) == ["decode", "refused by postgres"]
    with psycopg.connect(context.settings.postgres.url) as connection:
        found = [row[0] for row in connection.execute(f"SELECT n FROM {table}")]
    assert sorted(found) == [0, 1, 2, 4]
