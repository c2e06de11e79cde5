"""If Java ends under a pipeline, that is said in a sentence, and the pipeline can be started again."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from penstock.pipeline.java_end import java_ended

if TYPE_CHECKING:
    from tests.conftest import Project

PIPELINE = """
import penstock as ps

copy = ps.Pipeline("{name}")
copy.source("given", ps.Kafka("{given}", format=ps.Json("n LONG")))
copy.sink("given", ps.Kafka("{copied}", key="n"))
"""


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


def _spark_of(words: str) -> Any:
    process = subprocess.Popen(["sh", "-c", f"exec {words}" if words.startswith("sleep") else words])
    return SimpleNamespace(sparkContext=SimpleNamespace(_gateway=SimpleNamespace(proc=process)))
