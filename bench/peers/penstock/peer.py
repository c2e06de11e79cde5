"""Our own side of the bench: the pipelines of examples/nexmark, in one session with the settings that we ship."""

from __future__ import annotations

import json
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
from penstock.pipeline.compile import compile_pipeline, narrow
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

    def __init__(self, bootstrap: str, tried: dict[str, Any], *, realtime: bool) -> None:
        store = JarStore()
        self._reading, self._writing = tried.get("reading", {}), tried.get("writing", {})
        self._disk = tried.get("disk", False)
        self._spark = open_session(
            "nexmark", store.paths("spark"), realtime=realtime, classes=store.classes, options=tried.get("spark")
        )
        if tried.get("wide"):
            narrow.narrowed = lambda graph, ends, context: graph
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
        running = self._started(_pipeline(request), request, until_caught_up=True)
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
        return self._started(pipeline, request, every=request.get("every")).stop

    def _started(self, pipeline: ps.Pipeline, request: dict[str, Any], **more: Any) -> Running:
        self._try(pipeline)
        registry = replace(self._settings.registry, url=request["registry"] or self._settings.registry.url)
        settings = replace(self._settings, project=Path(request["folder"]), registry=registry)
        context = Context(self._spark, settings)
        return start(compile_pipeline(pipeline, context), context, **more)

    def _try(self, pipeline: ps.Pipeline) -> None:
        """Options of Kafka's clients, and where state is kept, that this process tries."""
        if self._disk:
            pipeline.state = "disk"
        if self._reading:
            pipeline.sources = [replace(one, connector=_with(one.connector, self._reading)) for one in pipeline.sources]
        if self._writing:
            pipeline.sinks = [replace(one, connector=_with(one.connector, self._writing)) for one in pipeline.sinks]


def _with(connector: Any, options: dict[str, str]) -> Any:
    return replace(connector, options=options) if isinstance(connector, ps.Kafka) else connector


def _pipeline(request: dict[str, Any]) -> ps.Pipeline:
    """Nexmark's own, or one that shows how cost grows."""
    if request["query"] not in SLOPES:
        return load_pipeline(EXAMPLES / f"{request['query']}.py")
    pipeline = ps.Pipeline(request["query"], state="memory")
    source = ps.Kafka(request["sources"]["bid"], format=ps.Json(COLUMNS))
    if request["query"] == "keys":
        pipeline.source("bid", source)
        flow = pipeline.flow(name="out", emit="changes", unbounded=True)(keys)
    else:
        pipeline.source("bid", source, time=ps.EventTime("dateTime", delay="4 seconds"))
        every = f"{request['every_ms']} milliseconds"
        flow = pipeline.flow(name="out")(lambda bid: hops(bid, every))
    pipeline.sink(flow, ps.Kafka(request["sink"]), guarantee="at-least-once")
    return pipeline


def keys(bid: DataFrame) -> DataFrame:
    """What each bidder has bid, at every change."""
    before_july = bid.filter("dateTime < '2026-07-01'")
    return before_july.groupBy("bidder").agg(F.count("*").alias("bids"), F.max("price").alias("highest"))


def hops(bid: DataFrame, every: str) -> DataFrame:
    """What was bid within ten seconds, again and again."""
    windows = bid.groupBy(F.window("dateTime", "10 seconds", every))
    found = windows.agg(F.count("*").alias("bids"), F.max("price").alias("highest"))
    return found.selectExpr("bids", "highest", "window.start AS starttime", "window.end AS endtime")


SLOPES = ("keys", "hops")


def stateless(bid: DataFrame) -> DataFrame:
    """Every bid."""
    return bid.filter("price > 0").select("bidder", "price")


def windowed(bid: DataFrame) -> DataFrame:
    """The highest of each bidder within ten seconds."""
    return bid.groupBy(F.window("dateTime", "10 seconds"), "bidder").agg(F.max("price").alias("price"))


LIVE = {"stateless": stateless, "windowed": windowed}


if __name__ == "__main__":
    found = sorted((one.stem for one in EXAMPLES.glob("q[0-9]*.py")), key=lambda name: int(name[1:]))
    given = next((one.partition("=")[2] for one in sys.argv if one.startswith("--try=")), "{}")
    peer = Peer(sys.argv[1], json.loads(given), realtime="--realtime" in sys.argv)
    serve(ps.__version__, found, peer.run, peer.begin)
