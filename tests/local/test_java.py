from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.errors import SetupError
from penstock.local.java import find_java

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Project


def fake_java(folder: Path, words: str) -> Path:
    path = folder / "bin" / "java"
    path.parent.mkdir()
    path.write_text(f"#!/bin/sh\n{words}\n", encoding="utf-8")
    path.chmod(0o755)
    return folder


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("echo 'openjdk version \"11.0.2\" 2019-01-15' >&2", "is Java 11"),
        ("echo 'java version \"1.8.0_292\"' >&2", "is Java 8"),
        ("echo hello >&2", "unknown version"),
        ("exit 3", "does not run"),
    ],
)
def test_an_old_or_broken_java_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, said: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path, words)))
    with pytest.raises(SetupError, match=said) as caught:
        find_java()
    assert "Install Java 17 or newer" in str(caught.value)


def test_java_25_is_recognised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path, "echo 'openjdk version \"25\" 2025-09-16' >&2")))
    assert find_java().version == 25


def test_up_without_java_is_one_sentence(project: Project, tmp_path: Path) -> None:
    done = project.run("up", "kafka", env={"JAVA_HOME": str(tmp_path)})
    assert done.returncode == 1
    assert done.stderr.startswith("error: Java was not found under JAVA_HOME")
    assert "Traceback" not in done.stderr
    assert project.processes() == {}
