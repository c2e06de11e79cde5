"""Spark's classes as Java has read and checked them, kept in an archive: made once, Spark then starts in half the time.

`python -m penstock.pipeline.class_archive FILE JAR…` is the recording: a small Spark that uses what pipelines use.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["archive_of", "make_archive", "use_archive"]

_SECONDS = 240
_QUIET = "-Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off"


def archive_of(folder: Path, jars: Sequence[Path]) -> Path:
    """Where the archive of this recording for this Java, Spark and jars is, or will be; others need another one."""
    java, spark = _java(), _spark()
    where = _digest(f"{java} {spark}")
    core = next(spark.glob("jars/spark-core_*.jar"), spark)
    named = " ".join([*(one.name for one in jars), _digest(Path(__file__).read_text(encoding="utf-8"))])
    what = _digest(f"{java.stat().st_mtime_ns} {core.name} {core.stat().st_mtime_ns} {named}")
    return folder / f"spark-{where}-{what}.jsa"


def use_archive(folder: Path, jars: Sequence[Path]) -> str:
    """The options that let Java use the archive, none if there is none."""
    path = archive_of(folder, jars)
    return f"-XX:SharedArchiveFile={path} {_QUIET}" if path.is_file() and path.stat().st_size else ""


def make_archive(folder: Path, jars: Sequence[Path]) -> bool:
    """Record the archive in a process of its own; a failure leaves an empty file, and is not tried again."""
    path = archive_of(folder, jars)
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob(f"{path.name.rsplit('-', 1)[0]}-*"):
        old.unlink(missing_ok=True)
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    command = [sys.executable, "-m", __name__, str(fresh), *map(str, jars)]
    try:
        subprocess.run(command, capture_output=True, timeout=_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        fresh.unlink(missing_ok=True)
    if not fresh.is_file():
        fresh.touch()
    fresh.replace(path)
    return path.stat().st_size > 0


def _record(path: Path, jars: Sequence[Path]) -> None:
    """Use Spark as pipelines do; Java writes the archive when it ends."""
    from pyspark.sql import functions

    from penstock.connectors.json_rows import with_json
    from penstock.pipeline.session import open_session

    recording = f"-XX:ArchiveClassesAtExit={path} {_QUIET}"
    spark = open_session("class-archive", jars, options={"spark.driver.defaultJavaOptions": recording})
    rows = spark.readStream.format("rate").load().withWatermark("timestamp", "1 second")
    told = with_json(rows, "row", functions.expr("concat('{\"n\":', value, '}')"), "n LONG, t TIMESTAMP", "bad")
    counts = told.groupBy(functions.window("timestamp", "1 second"), "row.n").agg(
        functions.count("*"), functions.sum("row.n")
    )
    query = counts.writeStream.foreachBatch(lambda batch, _: batch.show()).trigger(availableNow=True).start()
    query.awaitTermination()
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    spark.stop()
    gateway.proc.stdin.close()  # it ends with its standard input
    gateway.proc.wait(_SECONDS)


def _java() -> Path:
    """The Java that Spark will take."""
    home = os.environ.get("JAVA_HOME")
    return Path(shutil.which("java", path=str(Path(home) / "bin") if home else None) or "java").resolve()


def _spark() -> Path:
    """The folder of PySpark, without importing it."""
    found = find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:10]


if __name__ == "__main__":
    _record(Path(sys.argv[1]), [Path(one) for one in sys.argv[2:]])
