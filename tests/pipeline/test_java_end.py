"""If Java ends under a pipeline, that is said in a sentence, and the pipeline can be started again."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from penstock.broker import Producer, read
from penstock.pipeline.java_end import java_ended
from penstock.pipeline.state import PipelineState
from tests.conftest import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.settings import Kafka
    from tests.conftest import Project

PIPELINE = """
import penstock as ps

copy = ps.Pipeline("{name}")
copy.source("given", ps.Kafka("{given}", format=ps.Json("n LONG")))
copy.sink("given", ps.Kafka("{copied}", key="n"))
"""


def test_it_is_said_and_no_row_is_lost(
    platform: Project, kafka: Kafka, topic: Callable[..., str], tmp_path: Path
) -> None:
    given, copied = topic("given"), topic("copied")
    name = f"copy-{given[-6:]}"
    file = tmp_path / "same_rows.py"
    file.write_text(PIPELINE.format(name=name, given=given, copied=copied), encoding="utf-8")
    with Producer(kafka) as producer:
        producer.send(given, {"n": 1})
    with subprocess.Popen(
        platform.command("run", str(file)), cwd=platform.folder, stderr=subprocess.PIPE, text=True
    ) as driver:
        try:
            wait_until(lambda: list(read(kafka, copied)), 120, "the first row is copied")
            os.kill(_java_of(driver.pid), signal.SIGKILL)
            said = driver.communicate(timeout=60)[1]
        finally:
            driver.kill()
    assert driver.returncode == 1
    assert "error: Spark's Java was killed (signal 9). Run it again: every query goes on" in said
    assert "Traceback" not in said
    assert PipelineState(platform.home, name).owner() is None
    with Producer(kafka) as producer:
        producer.send(given, {"n": 2})
    assert platform.run("run", str(file), "--until-caught-up").returncode == 0
    assert [one.json()["n"] for one in read(kafka, copied)] == [1, 2]


def test_a_lack_of_memory_is_told_from_other_ends() -> None:
    assert "run out of Java's memory" in str(java_ended(_spark_of("exit 52"), 10))
    assert "has ended (exit code 1)" in str(java_ended(_spark_of("exit 1"), 10))
    running = _spark_of("sleep 60")
    assert java_ended(running) is None
    running.sparkContext._gateway.proc.kill()
    assert "was killed (signal 9)" in str(java_ended(running, 10))


def test_settings_that_spark_refuses_are_a_sentence(project: Project) -> None:
    (project.folder / "penstock.toml").write_text('[spark]\n"spark.driver.memory" = "300m"\n', encoding="utf-8")
    (project.folder / "same_rows.py").write_text(PIPELINE.format(name="copy", given="a", copied="b"), encoding="utf-8")
    done = project.run("check", "same_rows.py")
    assert done.returncode == 1
    assert "error: Spark can't start: " in done.stderr
    assert "driver memory" in done.stderr
    assert "Traceback" not in done.stderr


def _java_of(pid: int) -> int:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()
    return next(int(one) for one in children if Path(f"/proc/{one}/exe").resolve().name == "java")


def _spark_of(words: str) -> Any:
    process = subprocess.Popen(["sh", "-c", f"exec {words}" if words.startswith("sleep") else words])
    return SimpleNamespace(sparkContext=SimpleNamespace(_gateway=SimpleNamespace(proc=process)))
