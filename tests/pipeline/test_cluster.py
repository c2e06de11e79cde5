"""A pipeline on a real standalone cluster of two workers, started from PySpark's own classes."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import urlopen

import pyspark
import pytest

from penstock.broker import Producer, read
from tests.conftest import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.settings import Kafka

PIPELINE = """
import penstock as ps
from pyspark.sql import functions as F
from words import word_of

numbers = ps.Pipeline("cluster-{unique}")
numbers.source("given", ps.Kafka("{source}", format=ps.Json("n LONG, at TIMESTAMP")),
               time=ps.EventTime("at", delay="1 second"))

@numbers.each("n LONG, word STRING, at TIMESTAMP")
def named(given):
    return {{**given, "word": word_of(given["n"])}}

@numbers.flow
def counts(named):
    return named.groupBy(F.window("at", "1 minute"), "word").agg(F.count("*").alias("rows"))

numbers.sink(counts, ps.Kafka("{out}"))
"""
SETTINGS = """profile = "here"
[profiles.here.kafka]
bootstrap = "{bootstrap}"
[spark]
"spark.driver.host" = "127.0.0.1"
"spark.executor.memory" = "512m"
"spark.sql.shuffle.partitions" = 2
"""
WORDS = """
def word_of(n):
    return ["zero", "one"][n % 3]
"""


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """The address of a master with two workers of one core each."""
    home = Path(pyspark.__file__).parent
    address, page = f"spark://127.0.0.1:{(port := free_port())}", free_port()
    base = [str(home / "bin" / "spark-class")]
    environment = {**os.environ, "SPARK_HOME": str(home), "SPARK_DAEMON_MEMORY": "256m"}
    commands = [
        ["Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(page)],
        *(
            [
                "Worker",
                "--host",
                "127.0.0.1",
                "--webui-port",
                "0",
                "--cores",
                "1",
                "--memory",
                "1g",
                "--work-dir",
                folder,
            ]
            for folder in (str(tmp_path / "worker-0"), str(tmp_path / "worker-1"))
        ),
    ]
    started: list[subprocess.Popen[bytes]] = []
    try:
        for command in commands:
            kind = command[0].lower()
            words = [*base, f"org.apache.spark.deploy.{kind}.{command[0]}", *command[1:]]
            words += [address] if kind == "worker" else []
            with (tmp_path / f"{kind}-{len(started)}.log").open("w") as log:
                started.append(subprocess.Popen(words, env=environment, stdout=log, stderr=log))

        def alive() -> bool:
            try:
                with urlopen(f"http://127.0.0.1:{page}/json/") as answer:
                    return bool(json.load(answer)["aliveworkers"] == 2)
            except (OSError, ValueError):
                return False

        wait_until(alive, 60, "both workers are there")
        yield address
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait(30)


@pytest.mark.parametrize("where", ["here", "cluster"])
def test_a_pipeline_finds_its_code_and_jars_where_it_runs(
    request: pytest.FixtureRequest, kafka: Kafka, topic: Callable[..., str], tmp_path: Path, where: str
) -> None:
    source, out = topic("numbers", partitions=2), topic("out")
    folder = tmp_path / "project"
    pipelines = folder / "pipelines"
    pipelines.mkdir(parents=True)
    (pipelines / "counted.py").write_text(PIPELINE.format(unique=source[-8:], source=source, out=out), encoding="utf-8")
    (pipelines / "words.py").write_text(WORDS, encoding="utf-8")
    (folder / "penstock.toml").write_text(SETTINGS.format(bootstrap=kafka.bootstrap), encoding="utf-8")
    with Producer(kafka) as producer:
        for number in range(300):
            at = f"2026-01-01T00:{number // 60:02}:{number % 60:02}Z"
            producer.send(source, {"n": number, "at": at}, partition=number % 2)
        producer.send(source, {"n": 0, "at": "2026-01-01T01:00:00Z"}, partition=0)
    words = [sys.executable, "-m", "penstock", "run", "pipelines/counted.py", "--until-caught-up", "--json"]
    words += ["--master", request.getfixturevalue("master")] if where == "cluster" else []
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    (totals,) = json.loads(done.stdout)["queries"].values()
    assert (totals["rows"], totals["dead"]) == (301, 100)
    rows = [record.json() for record in read(kafka, out)]
    assert sum(row["rows"] for row in rows) == 200
    assert {row["word"] for row in rows} == {"zero", "one"}
    letters = [record.json() for record in read(kafka, f"cluster-{source[-8:]}-dead-letters")]
    assert len(letters) == 100
    assert {letter["rule"] for letter in letters} == {"IndexError"}
    if where == "cluster":
        for worker in ("worker-0", "worker-1"):
            assert list((tmp_path / worker).glob("app-*/*/penstock.zip")), f"{worker} had an executor with our code"
