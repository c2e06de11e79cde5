"""What the benches stand on: a broker and a Spark session of their own, gone afterwards."""

from __future__ import annotations

import tempfile
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.connectors.base import Context
from penstock.local.jars import JarStore
from penstock.local.progress import Silent
from penstock.local.stack import Stack
from penstock.pipeline.compile import compile_pipeline
from penstock.pipeline.run import Running, start
from penstock.pipeline.session import open_session
from penstock.settings import load

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import penstock as ps

__all__ = ["caught_up", "working"]


@contextmanager
def working(
    name: str,
    *,
    realtime: bool = False,
    services: tuple[str, ...] = ("kafka",),
    options: Mapping[str, str] | None = None,
) -> Iterator[Context]:
    """A context with Kafka (or more) and Spark, for one bench."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        stack = Stack(load(project=folder, profile="local"))
        store = JarStore()
        store.ensure(["spark"], Silent())
        try:
            if services:
                stack.up(services, Silent())
            spark = open_session(name, store.paths("spark"), realtime=realtime, options=options, classes=store.classes)
            yield Context(spark, load(project=folder, profile="local"))
            spark.stop()
        finally:
            stack.down(Silent(), remove_data=True)


def caught_up(pipeline: ps.Pipeline, context: Context) -> tuple[float, Running]:
    """Run a pipeline until all that is there is read: how long it took, and what it has done."""
    plan = compile_pipeline(pipeline, context)
    own = replace(context.settings, project=context.settings.project / pipeline.name)
    began = time.perf_counter()
    running = start(plan, replace(context, settings=own), until_caught_up=True)
    running.wait()
    running.close()
    return time.perf_counter() - began, running
