"""Spark's Java is a process of its own: what is said if it ends under a pipeline, and why."""

from __future__ import annotations

import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from penstock.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

__all__ = ["JavaEndedError", "java_ended", "telling_of_java"]

_OUT_OF_MEMORY = 52  # the code that Spark ends with then
_SECONDS = 10.0
_GOES_ON = "every query goes on from its checkpoint"


class JavaEndedError(SetupError):
    """Spark's Java has ended under us."""


@contextmanager
def telling_of_java(spark: SparkSession) -> Iterator[None]:
    """Say that Java has ended, if it has, instead of that nobody answers."""
    from py4j.protocol import Py4JError, Py4JJavaError

    try:
        yield
    except Exception as error:
        unanswered = isinstance(error, Py4JError | ConnectionError) and not isinstance(error, Py4JJavaError)
        told = java_ended(spark, _SECONDS if unanswered else 0.0)
        if told is None:
            raise
        raise told from error


def java_ended(spark: SparkSession, seconds: float = 0.0) -> JavaEndedError | None:
    """Why Java has ended, or does within these seconds; None if it runs."""
    process: Any = getattr(spark.sparkContext._gateway, "proc", None)
    try:
        code = None if process is None else process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    if code is None:
        return None
    if code == _OUT_OF_MEMORY:
        return JavaEndedError(
            "Spark has run out of Java's memory.",
            code="java-memory",
            remedy='Give it more, "spark.driver.memory" = "8g" in [spark] of penstock.toml, and run it again:'
            f" {_GOES_ON}.",
        )
    how = f"was killed (signal {-code})" if code < 0 else f"has ended (exit code {code})"
    return JavaEndedError(
        f"Spark's Java {how}.",
        code="java-ended",
        remedy=f"Run it again: {_GOES_ON}. If it happens again, see whether the machine has enough memory.",
    )
