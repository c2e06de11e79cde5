"""One running stack for each side of the test run; every test has topics, schemas and folders of its own."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from penstock.broker import Topics
from penstock.cli.jars import record_classes
from penstock.connectors.base import Context
from penstock.local import processes
from penstock.local.jars import JarStore
from penstock.local.progress import Silent
from penstock.local.stack import Stack
from penstock.pipeline.session import open_session
from penstock.settings import Kafka, Settings, load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

# Every JVM of the tests lives for seconds or minutes: the second compiler would only take the cores from it. Without it
# Java's room for compiled code would be too small for Spark.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m")


class Project:
    """A project folder with its own services, used through the command line as a person would."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder.resolve()
        self.home = self.folder / ".penstock"

    @property
    def settings(self) -> Settings:
        return load(project=self.folder)

    @property
    def stack(self) -> Stack:
        return Stack(self.settings)

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "penstock", *words]

    def run(self, *words: str, env: dict[str, str] | None = None, text: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*words),
            cwd=self.folder,
            env={**os.environ, **(env or {})},
            input=text,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )

    def processes(self) -> dict[str, processes.Process]:
        return processes.find(self.home)


def own_ports(*names: str) -> str:
    """Ports for penstock.toml that the other side, or a second test run, can't take from a service that is killed."""
    side = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    first = random.randrange(20_000, 22_000, 10) + 2_000 * (side % 5)
    return "\n".join(["[local.ports]", *(f"{name} = {first + number}" for number, name in enumerate(names)), ""])


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """A project of one test; whatever it started is gone after the test."""
    made = Project(tmp_path / "project")
    yield made
    made.stack.down(Silent(), remove_data=True)


@pytest.fixture(scope="session")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """All services, running for the whole test run."""
    made = Project(tmp_path_factory.mktemp("platform"))
    ports = own_ports("kafka", "kafka-controller", "postgres", "registry", "connect")
    (made.folder / "penstock.toml").write_text(ports, encoding="utf-8")
    made.stack.up((), Silent())
    yield made
    made.stack.down(Silent(), remove_data=True)


@pytest.fixture(scope="session")
def kafka(platform: Project) -> Kafka:
    """How to reach the shared broker."""
    return platform.settings.kafka


@pytest.fixture
def topic(kafka: Kafka) -> Callable[..., str]:
    """Make a topic with a name that no other test has."""

    def make(name: str = "topic", **options: object) -> str:
        unique = f"{name}-{uuid.uuid4().hex[:8]}"
        Topics(kafka).create(unique, **options)  # type: ignore[arg-type]
        return unique

    return make


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The one Spark of the test run."""
    store = JarStore()
    store.ensure(["spark"], Silent())
    record_classes(store, Silent())
    # A batch of a few rows is quicker with one partition; both sides, and what they start, must find room.
    options = {"spark.sql.shuffle.partitions": "1", "spark.driver.memory": "2g"}
    session = open_session("tests", store.paths("spark"), master="local[8]", options=options, classes=store.classes)
    yield session
    session.stop()


@pytest.fixture
def context(spark: SparkSession, platform: Project, tmp_path: Path) -> Context:
    """The shared services, and a project of the test's own."""
    lake = replace(platform.settings.lake, warehouse=str(tmp_path / "lake"))
    return Context(spark, replace(platform.settings, project=tmp_path, lake=lake))


def wait_until(condition: Callable[[], object], seconds: float = 60.0, what: str = "") -> None:
    """Wait on a condition; fail the test if it does not come true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"did not come true within {seconds:.0f} s: {what or condition}")
        time.sleep(0.05)
