"""The only SparkSession, with the settings that were measured to be good."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.errors import SetupError
from penstock.pipeline.chatter import without_chatter
from penstock.pipeline.class_archive import use_archive
from penstock.pipeline.code import packed_code
from penstock.pipeline.slots import local_cores

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

__all__ = ["COMPILED", "open_session"]

_LOG4J = Path(__file__).with_name("log4j2.properties")
_SECRETS = "(?i)secret|password|token|access[.]?key|jaas|credential|keystore[.]key"
# A broken length must not ask for all the memory there is.
_AVRO = " ".join(
    f"-Dorg.apache.avro.limits.{what}.maxLength={limit}"
    for what, limit in (("string", 64 << 20), ("bytes", 64 << 20), ("collectionItems", 10_000_000))
)
_CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
# Java leaves methods of more than 8,000 bytes to its interpreter; Spark makes such ones of a few dozen expressions.
_HUGE = "-XX:-DontCompileHugeMethods"
# Its second compiler comes ten times later by calls, not by loops: what plans queries runs too seldom to be worth it.
# Not in real-time mode, whose waits are those of code that is not compiled yet.
_LATER = "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 -XX:Tier4CompileThreshold=150000"
COMPILED = f"{_HUGE} {_LATER}"
_YOUNG_MIB = 512  # the usual third of a large heap: a quarter to a half more memory in all, 5 % quicker
# State that has expired goes while rows come, two for each of them, not all at the end of a batch, for which rows wait.
_REALTIME = {"spark.sql.streaming.statefulOperator.incrementalCleanupFactor": "2"}
# Groups of a task that fit into Spark's quickest map: 2^20 (8 MiB), not 2^16; the others go into a slower one.
_GROUPS = {"spark.sql.codegen.aggregate.fastHashMap.capacityBit": "20"}
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def open_session(
    name: str,
    jars: Sequence[Path],
    *,
    master: str | None = None,
    options: Mapping[str, str] | None = None,
    realtime: bool = False,
    code: Path | None = None,
    classes: Path | None = None,
) -> SparkSession:
    """Start Spark, here on all cores or on the master that is named; any option can be overridden.

    `code` is the folder of the pipeline's file: its modules, and ours, go along to a cluster. `classes` is the folder
    where an archive of Spark's classes may be.
    """
    given = dict(options or {})
    master = given.get("spark.master", master)
    local = master is None or master.startswith("local")
    if code is not None and local:  # Python workers here find the modules beside the pipeline's file
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(code), os.environ.get("PYTHONPATH"))))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    from py4j import java_gateway
    from pyspark.sql import SparkSession

    cores = os.cpu_count() or 2
    java = f"{_HUGE if realtime else COMPILED} {_AVRO}"
    chosen = {
        "spark.app.name": f"penstock {name}",
        "spark.master": master or f"local[{local_cores(realtime=realtime)}]",
        "spark.jars": ",".join(map(str, jars)),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": f"{_heap_mib()}m",
        "spark.driver.defaultJavaOptions": use_archive(classes, jars) if classes else "",
        "spark.driver.extraJavaOptions": f"{_collector()} {java} -Dlog4j2.configurationFile={_LOG4J}",
        "spark.executor.extraJavaOptions": f"-XX:+UseParallelGC {java}",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.sql.codegen.cache.maxEntries": "1000",  # of 100, three queries with state drive each other out
        "spark.sql.streaming.stateStore.providerClass": _ROCKSDB,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.maxBatchesToRetainInMemory": "1",  # the next one begins with the last, no other is read
        "spark.sql.streaming.metricsEnabled": "false",
        "spark.buffer.pageSize": "16m",  # not 64: Java's collector copies them whole
        "spark.shuffle.streaming.networkBufferMaxWaitTimeMs": "1",
        "spark.python.sql.dataFrameDebugging.enabled": "false",  # two calls into the JVM for each column
        "spark.redaction.regex": _SECRETS,
        "spark.sql.redaction.options.regex": _SECRETS,
    }
    chosen |= _REALTIME if realtime else _GROUPS
    if local:
        chosen |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        chosen |= _without_forks(jars)
    # Py4J tells its failures to everybody's log, which writes a trace for each; its own is where they belong.
    java_gateway.logging = java_gateway.logger
    # PySpark would log every refusal of the analyzer with its whole trace; the exception says it all.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
    builder = SparkSession.builder
    for key, value in (chosen | given).items():
        builder = builder.config(key, value)
    with without_chatter(), _told_of_settings():
        spark = builder.getOrCreate()
    _remember_classes(spark._jvm)
    if threading.current_thread() is threading.main_thread():
        # PySpark's own handler would cancel the batch that a Ctrl-C is meant to let end.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if code is not None and not local:
        for archive in packed_code(code):
            spark.sparkContext.addPyFile(str(archive))
    return spark


@contextmanager
def _told_of_settings() -> Iterator[None]:
    """Say in one sentence what Spark refuses of its settings."""
    from py4j.protocol import Py4JJavaError

    try:
        yield
    except Py4JJavaError as error:
        said = str(error.java_exception.getMessage()).splitlines()[0]
        raise SetupError(
            f"Spark can't start: {said}",
            code="spark-start",
            remedy="Look at [spark] in penstock.toml, and at --master.",
        ) from error


def _remember_classes(jvm: Any) -> None:
    """Look once for what PySpark asks the JVM for again and again: a name that is no class is sought in every jar."""
    for used in ("functions", "org.apache.spark.sql.functions", "PythonSQLUtils", "PythonUtils"):
        setattr(jvm, used, getattr(jvm, used))
    jvm.py4j = jvm.py4j  # asked for some dozens of times at the end of every Java collection that is walked
    jvm.py4j.reflection = jvm.py4j.reflection
    jvm.py4j.reflection.TypeUtil = jvm.py4j.reflection.TypeUtil


def _without_forks(jars: Sequence[Path]) -> dict[str, str]:
    """Files of this machine by Java's own calls: Hadoop would start a process for the rights of each new file.

    A checkpoint is written by the same way: a new file beside, then a rename, which is one step on a disk.
    """
    found = next((one for one in jars if one.name.startswith("hadoop-bare-naked-local-fs")), None)
    if found is None:
        return {}
    return {
        "spark.driver.extraClassPath": str(found),
        "spark.hadoop.fs.file.impl": "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem",
        "spark.sql.streaming.checkpointFileManagerClass": _CHECKPOINTS,
    }


def _collector() -> str:
    """Room for classes at once spares two collections during a start, a heap that begins larger those of its growth."""
    heap = _heap_mib()
    begin = f"-XX:InitialRAMPercentage={25 * heap / _memory_mib():.2f}"  # unlike -Xms it may be more than there is
    return f"-XX:+UseParallelGC {begin} -XX:MaxNewSize={min(_YOUNG_MIB, heap // 3)}m -XX:MetaspaceSize=256m"


def _heap_mib() -> int:
    """A sixth of the memory, within what is of use: the services and the Python workers need the rest."""
    return max(1024, min(6144, _memory_mib() // 6))


def _memory_mib() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
