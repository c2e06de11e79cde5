"""A broker that goes away while a pipeline runs: the pipeline waits, comes back by itself, and no row is missing."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import TYPE_CHECKING

from penstock.broker import Producer, Topics, read
from penstock.local.progress import Silent
from penstock.pipeline.state import PipelineState
from tests.conftest import Project, own_ports, wait_until

if TYPE_CHECKING:
    from pathlib import Path

PIPELINE = """
import penstock as ps

copy = ps.Pipeline("copy")
copy.source("given", ps.Kafka("given", format=ps.Json("n LONG")))
copy.sink("given", ps.Kafka("copied", key="n"))
"""


def test_a_pipeline_outlives_its_broker(project: Project, tmp_path: Path) -> None:
    ports = own_ports("kafka", "kafka-controller")
    (project.folder / "penstock.toml").write_text(ports, encoding="utf-8")
    project.stack.up(("kafka",), Silent())
    kafka = project.settings.kafka
    for name in ("given", "copied"):
        Topics(kafka).create(name)
    (project.folder / "copy_pipeline.py").write_text(PIPELINE, encoding="utf-8")
    state = PipelineState(project.home, "copy")

    def send(numbers: range) -> None:
        with Producer(kafka) as producer:
            for n in numbers:
                producer.send("given", {"n": n})
                if n % 10 == 0:
                    producer.send("given", "broken")

    def copied() -> set[int]:
        return {record.json()["n"] for record in read(kafka, "copied")}

    with (tmp_path / "said").open("w") as said:
        driver = subprocess.Popen(
            project.command("run", "copy_pipeline.py"), cwd=project.folder, stdout=said, stderr=said
        )
    try:
        send(range(100))
        wait_until(lambda: copied() == set(range(100)), 120, "the first rows are copied")
        os.kill(project.processes()["kafka"].pid, signal.SIGKILL)
        wait_until(lambda: "kafka" not in project.processes(), 30)
        project.stack.up(("kafka",), Silent())
        send(range(100, 200))
        wait_until(lambda: copied() == set(range(200)), 120, "it goes on after the broker is back")
        assert state.owner() == driver.pid
        assert project.run("stop", "copy").returncode == 0
        assert driver.wait(60) == 0
    finally:
        if driver.poll() is None:
            driver.kill()
            driver.wait()
    assert state.owner() is None
    dead = [record.json()["offset"] for record in read(kafka, "copy-dead-letters")]
    assert len(dead) == len(set(dead)) == 20
    assert "Traceback" not in (tmp_path / "said").read_text()
