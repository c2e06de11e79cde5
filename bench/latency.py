"""How long a row takes from Kafka to Kafka at 100 rows a second, in real-time mode and in micro-batches.

Each row carries the time at which it was sent; the reader of the topic that comes out looks at its clock. A window's
row carries the time of the newest row in it. The rows around the end of a real-time batch are reported apart: once per
batch all of them wait.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).parents[1])  # else platform.py beside this file stands for Python's own of that name

import argparse
import json
import statistics
import threading
import time
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer
from pyspark.sql import functions as F  # noqa: N812

import penstock as ps
from bench.harness import working
from penstock.broker import Producer, Topics
from penstock.pipeline.compile import compile_pipeline
from penstock.pipeline.run import Running, start

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.connectors.base import Context

PER_SECOND = 100
WARM_SECONDS = 40
EVERY = {"realtime": "30 seconds", "micro-batch": "0 seconds"}  # several boundaries while it is measured
SCHEMA = "bidder LONG, price DOUBLE, sent DOUBLE, at TIMESTAMP"
# A row is of a boundary if it was sent this long before or after the moment in which a batch's end was reported.
BEFORE, AFTER = 1.5, 1.0


def pipeline(name: str, latency: str, *, windowed: bool) -> ps.Pipeline:
    """Bids converted, or the highest of each bidder in ten seconds."""
    made = ps.Pipeline(name)
    bids = ps.Kafka(f"{name}-in", format=ps.Json(SCHEMA), start="latest")
    made.source("bids", bids, time=ps.EventTime("at", delay="10 seconds") if windowed else None)

    def converted(bids: DataFrame) -> DataFrame:
        return bids.filter("price > 0").withColumn("price", F.round(F.col("price") * 0.908, 2)).select("sent", "price")

    def highest(bids: DataFrame) -> DataFrame:
        groups = bids.groupBy(F.window("at", "10 seconds"), "bidder")
        return groups.agg(F.max("price").alias("price"), F.max("sent").alias("sent"))

    flow = made.flow(name="out", emit="changes" if windowed else "final")(highest if windowed else converted)
    made.sink(flow, ps.Kafka(f"{name}-out"), latency=latency)
    return made


def send(context: Context, topic: str, stop: threading.Event) -> None:
    """Send rows at a steady pace."""
    with Producer(context.settings.kafka, options={"linger.ms": "0"}) as producer:
        begun, number = time.perf_counter(), 0
        while not stop.is_set():
            now = time.time()
            at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now * 1000) % 1000:03}Z"
            producer.send(topic, {"bidder": number % 50, "price": 1.0 + number % 97, "sent": now, "at": at})
            number += 1
            stop.wait(max(0.0, begun + number / PER_SECOND - time.perf_counter()))


def measure(context: Context, name: str, latency: str, seconds: int, *, windowed: bool) -> dict[str, float]:
    """Run one pipeline, look at what comes out of it."""
    topics = Topics(context.settings.kafka)
    for end in ("in", "out"):
        topics.create(f"{name}-{end}", partitions=2)
    plan = compile_pipeline(pipeline(name, latency, windowed=windowed), context)
    running = start(plan, context, every=EVERY[latency])
    stop = threading.Event()
    sender = threading.Thread(target=send, args=(context, f"{name}-in", stop), daemon=True)
    sender.start()
    found, ends = listen(context, f"{name}-out", running, seconds)
    stop.set()
    sender.join()
    running.stop()
    return figures(name, found, ends)


def listen(
    context: Context, topic: str, running: Running, seconds: int
) -> tuple[list[tuple[float, float]], list[float]]:
    """When each row was sent and how long it took, once warm; and when the batches ended meanwhile."""
    named = {"bootstrap.servers": context.settings.kafka.bootstrap, "group.id": topic, "auto.offset.reset": "latest"}
    client = Consumer({**named, "fetch.wait.max.ms": "500"})
    client.subscribe([topic])
    found: list[tuple[float, float]] = []
    ends: list[float] = []
    last: Any = None
    warm = time.time() + WARM_SECONDS
    while time.time() < warm + seconds:
        message = client.poll(0.05)
        now = time.time()
        batch = next((one["batch"] for one in running.latest.values()), None)
        if batch != last:
            ends.append(now)
            last = batch
        if message is not None and message.error() is None and now > warm:
            sent = json.loads(message.value() or b"{}")["sent"]
            found.append((sent, (now - sent) * 1000))
    client.close()
    return found, ends


def figures(name: str, found: list[tuple[float, float]], ends: list[float]) -> dict[str, float]:
    """Percentiles away from the boundaries, and the longest wait at one."""
    at_end = [took for sent, took in found if any(-BEFORE < sent - end < AFTER for end in ends)]
    between = [took for sent, took in found if not any(-BEFORE < sent - end < AFTER for end in ends)]
    every = [took for _, took in found]
    steady = between if len(between) > len(found) / 4 else every  # micro-batches end all the time
    cuts = statistics.quantiles(steady, n=100)
    made = {
        "rows": len(found),
        "p50_ms": round(cuts[49], 1),
        "p99_ms": round(cuts[98], 1),
        "all_p99_ms": round(statistics.quantiles(every, n=100)[98], 1),
        "boundary_ms": round(max(at_end, default=0.0), 1),
    }
    print(name, json.dumps(made), flush=True)
    return made


def main() -> None:
    """Measure both kinds in both modes, end with what real-time mode promises."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--seconds", type=int, default=100, help="how long each is measured, once warm")
    seconds: int = words.parse_args().seconds
    with working("latency", realtime=True) as context:
        runs = {
            f"{kind}-{latency}": measure(context, f"{kind}-{latency}", latency, seconds, windowed=kind == "windowed")
            for latency in ("realtime", "micro-batch")
            for kind in ("stateless", "windowed")
        }
    result = {
        "stateless_p99_ms": runs["stateless-realtime"]["p99_ms"],
        "windowed_p99_ms": runs["windowed-realtime"]["p99_ms"],
        "stateless_boundary_ms": runs["stateless-realtime"]["boundary_ms"],
        "windowed_boundary_ms": runs["windowed-realtime"]["boundary_ms"],
        "stateless_micro_batch_p99_ms": runs["stateless-micro-batch"]["p99_ms"],
        "windowed_micro_batch_p99_ms": runs["windowed-micro-batch"]["p99_ms"],
    }
    print("RESULT", json.dumps(result))


if __name__ == "__main__":
    main()
