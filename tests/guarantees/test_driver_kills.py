"""The driver killed with -9 at random moments: no row is lost, the state is as a batch has it, dead rows come once.

A quick version runs with the other tests; `make chaos` kills twenty times.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from penstock.broker import Producer, read
from penstock.pipeline.state import PipelineState
from tests.conftest import Project, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.settings import Kafka

KILLS = int(os.environ.get("PENSTOCK_KILLS", "2"))
ROWS_PER_KILL = 500
START = datetime(2026, 1, 1, tzinfo=UTC)
PIPELINE = """
import penstock as ps
from pyspark.sql import functions as F

counts = ps.Pipeline("kills-{unique}")
counts.source("numbers", ps.Kafka("{source}", format=ps.Json("n LONG, at TIMESTAMP"), rows_per_batch=200),
              time=ps.EventTime("at", delay="10 seconds"))

@counts.flow(expect={{"not a seventh": "n % 100 != 7"}})
def kept(numbers):
    return numbers

@counts.flow
def totals(kept):
    return kept.groupBy(F.window("at", "1 minute")).agg(F.count("*").alias("rows"), F.sum("n").alias("sum"))

counts.sink(kept, ps.Kafka("{kept}", key="n"))
counts.sink(totals, ps.Kafka("{totals}"))
"""


def send(kafka: Kafka, topic: str, numbers: range) -> None:
    with Producer(kafka) as producer:
        for n in numbers:
            producer.send(topic, {"n": n, "at": (START + timedelta(seconds=n)).isoformat()}, str(n))


def test_kill_9_of_the_driver_at_random(platform: Project, kafka: Kafka, topic: Callable[..., str]) -> None:
    source, kept, totals = topic("numbers", partitions=3), topic("kept"), topic("totals")
    unique = source[-8:]
    file = platform.folder / f"kills_{unique}.py"
    file.write_text(PIPELINE.format(unique=unique, source=source, kept=kept, totals=totals), encoding="utf-8")
    state = PipelineState(platform.home, f"kills-{unique}")
    chance = random.Random(KILLS)

    def batches() -> int:
        return sum(len(state.progress(name)) for name in state.queries())

    sent = 0
    for _ in range(KILLS):
        send(kafka, source, range(sent, sent + ROWS_PER_KILL))
        sent += ROWS_PER_KILL
        before = batches()
        driver = subprocess.Popen(
            platform.command("run", str(file)),
            cwd=platform.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        aim = chance.randint(1, 4)
        wait_until(lambda before=before, aim=aim: batches() >= before + aim, 120, "some batches more")  # type: ignore[misc]
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    send(kafka, source, range(sent, sent + 1))
    send(kafka, source, range(sent + 100_000, sent + 100_001))  # moves the watermark past every window before it
    done = platform.run("run", str(file), "--until-caught-up")
    assert done.returncode == 0, done.stderr

    numbers = [*range(sent + 1), sent + 100_000]
    good = {n for n in numbers if n % 100 != 7}
    assert {record.json()["n"] for record in read(kafka, kept)} == good
    wanted: dict[int, tuple[int, int]] = {}
    for n in good - {sent + 100_000}:
        rows, total = wanted.get(n // 60, (0, 0))
        wanted[n // 60] = (rows + 1, total + n)
    found = {}
    for record in read(kafka, totals):
        row = record.json()
        minute = int((datetime.fromisoformat(row["window"]["start"]) - START).total_seconds()) // 60
        assert found.setdefault(minute, (row["rows"], row["sum"])) == (row["rows"], row["sum"])
    assert found == wanted
    letters = [record.json() for record in read(kafka, f"kills-{unique}-dead-letters")]
    places = [(one["partition"], one["offset"]) for one in letters]
    assert len(places) == len(set(places)) == sum(n % 100 == 7 for n in numbers)
