"""The archive of Spark's classes: used when it is there, done without when it can't be."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from penstock.local.jars import JarStore
from penstock.pipeline.class_archive import archive_of, make_archive, use_archive

if TYPE_CHECKING:
    import pytest
    from pyspark.sql import SparkSession


def test_spark_starts_from_the_archive(spark: SparkSession) -> None:
    archive = archive_of(JarStore().classes, JarStore().paths("spark"))
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    assert str(archive) in Path(f"/proc/{gateway.proc.pid}/maps").read_text()


def test_what_can_not_be_recorded_is_done_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\nexit 1\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert use_archive(tmp_path / "classes", []) == ""
    assert not make_archive(tmp_path / "classes", [])
    assert archive_of(tmp_path / "classes", []).exists()  # so that it is not tried again
    assert use_archive(tmp_path / "classes", []) == ""
