"""Our own side of the bench: the pipelines of examples/nexmark, in one session with the settings that we ship."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples" / "nexmark"
sys.path[0] = str(ROOT)

from pyspark.sql import functions as F  # noqa: N812

import penstock as ps
from bench.peers.lines import serve
from penstock.connectors.base import Context
from penstock.local.jars import JarStore
from penstock.pipeline.compile import compile_pipeline
from penstock.pipeline.load import load_pipeline
from penstock.pipeline.run import Running, start
from penstock.pipeline.session import open_session
from penstock.settings import load

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

COLUMNS = "bidder LONG, price LONG, dateTime TIMESTAMP"


class Peer:
    """One session for all requests."""

    def __init__(self, bootstrap: str, *, realtime: bool) -> None:
        store = JarStore()
        self._spark = open_session("nexmark", store.paths("spark"), realtime=realtime, classes=store.classes)
        settings = load(project=EXAMPLES)
        self._settings = replace(settings, kafka=replace(settings.kafka, bootstrap=bootstrap))

    def run(self, request: dict[str, Any]) -> None:
        """One pipeline until it has caught up."""
        names = {f"NEXMARK_{table.upper()}": topic for table, topic in request["sources"].items()}
        os.environ |= {
            **names,
            "NEXMARK_ANSWER": request["sink"],
            "NEXMARK_FORMAT": request["format"],
            "NEXMARK_SIDE": request["side"],
            "NEXMARK_GUARANTEE": request.get("guarantee", "at-least-once"),
        }
        sys.modules.pop("topics", None)
        running = self._started(load_pipeline(EXAMPLES / f"{request['query']}.py"), request, until_caught_up=True)
        running.wait()
        running.close()
        if dead := sum(one["dead"] + one["late"] for one in running.totals().values()):
            raise RuntimeError(f"{dead} rows are dead or late")

    def begin(self, request: dict[str, Any]) -> Callable[[], None]:
        """A pipeline that goes on, in the latency that is asked for."""
        pipeline = ps.Pipeline(f"live-{request['live']}")
        source = ps.Kafka(request["sources"]["bid"], format=ps.Json(COLUMNS), start="latest")
        pipeline.source("bid", source, time=ps.EventTime("dateTime", delay="4 seconds"))
        flow = pipeline.flow(name="out", emit="changes")(LIVE[request["live"]])
        pipeline.sink(flow, ps.Kafka(request["sink"]), guarantee="at-least-once", latency=request["latency"])
        return self._started(pipeline, request, until_caught_up=False).stop

    def _started(self, pipeline: ps.Pipeline, request: dict[str, Any], *, until_caught_up: bool) -> Running:
        registry = replace(self._settings.registry, url=request["registry"] or self._settings.registry.url)
        settings = replace(self._settings, project=Path(request["folder"]), registry=registry)
        context = Context(self._spark, settings)
        return start(compile_pipeline(pipeline, context), context, until_caught_up=until_caught_up)


def stateless(bid: DataFrame) -> DataFrame:
    """Every bid."""
    return bid.filter("price > 0").select("bidder", "price")


def windowed(bid: DataFrame) -> DataFrame:
    """The highest of each bidder within ten seconds."""
    return bid.groupBy(F.window("dateTime", "10 seconds"), "bidder").agg(F.max("price").alias("price"))


LIVE = {"stateless": stateless, "windowed": windowed}


if __name__ == "__main__":
    found = sorted((one.stem for one in EXAMPLES.glob("q[0-9]*.py")), key=lambda name: int(name[1:]))
    peer = Peer(sys.argv[1], realtime="--realtime" in sys.argv)
    serve(ps.__version__, found, peer.run, peer.begin)
