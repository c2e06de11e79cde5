"""What exactly-once costs over Spark's own Kafka writer, at least once: for results of windows, and for a copy.

The same pipeline over the same topic with both guarantees, in turns in one Spark session; a ratio of 1 is no cost.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).parents[1])  # else platform.py beside this file stands for Python's own of that name

import argparse
import json
import statistics
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

import penstock as ps
from bench.harness import caught_up, working
from penstock.broker import Producer, Topics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.connectors.base import Context

SCHEMA = "bidder LONG, auction LONG, price DOUBLE, channel STRING, at TIMESTAMP"
GUARANTEES = ("exactly-once", "at-least-once")
_WARM = 2  # turns until the JVM has compiled what matters


def produce(context: Context, rows: int) -> None:
    """Bids of 4,000 bidders, a thousand a second of event time."""
    topics = Topics(context.settings.kafka)
    for name in ("bids", "out"):
        topics.create(name, partitions=4)
    with Producer(context.settings.kafka) as producer:
        for number in range(rows):
            second = number // 1000
            at = f"2026-01-01T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}.{number % 1000:03}Z"
            bid = {"bidder": number % 4000, "auction": number, "price": 1.5, "channel": "web", "at": at}
            producer.send("bids", bid, str(number % 4000), partition=number % 4)


def pipeline(name: str, kind: str, guarantee: str) -> ps.Pipeline:
    """A copy of every row, or how many bids each bidder made in a minute: one result of 15 bids."""
    made = ps.Pipeline(name)
    bids = ps.Kafka("bids", format=ps.Json(SCHEMA), rows_per_batch=500_000)
    made.source("bids", bids, time=ps.EventTime("at", delay="10 seconds"))

    def copy(bids: DataFrame) -> DataFrame:
        return bids.withColumn("price", F.round(F.col("price") * 0.908, 2))

    def aggregate(bids: DataFrame) -> DataFrame:
        return bids.groupBy(F.window("at", "1 minute"), "bidder").count()

    flow = made.flow(name="out")(copy if kind == "copy" else aggregate)
    made.sink(flow, ps.Kafka("out", key="bidder"), guarantee=guarantee)
    return made


def compare(context: Context, kind: str, rows: int, turns: int) -> tuple[float, float]:
    """The throughput of exactly-once over that of at-least-once, and the former in rows a second."""
    took: dict[str, list[float]] = {one: [] for one in GUARANTEES}
    for turn in range(-_WARM, turns):
        for guarantee in GUARANTEES if turn % 2 else reversed(GUARANTEES):
            seconds, _ = caught_up(pipeline(f"{kind}-{guarantee}-{turn + _WARM}", kind, guarantee), context)
            print(f"{kind}, turn {turn}, {guarantee}: {rows / seconds:,.0f} rows/s", flush=True)
            if turn >= 0:
                took[guarantee].append(seconds)
    median = {one: statistics.median(seconds) for one, seconds in took.items()}
    return median["at-least-once"] / median["exactly-once"], rows / median["exactly-once"]


def main() -> None:
    """Take turns, end with the ratios."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--rows", type=int, default=2_000_000)
    words.add_argument("--turns", type=int, default=5)
    given = words.parse_args()
    with working("exactly-once") as context:
        produce(context, given.rows)
        aggregate, _ = compare(context, "aggregate", given.rows, given.turns)
        copy, per_second = compare(context, "copy", given.rows, given.turns)
    result = {
        "aggregate_ratio": round(aggregate, 3),
        "copy_ratio": round(copy, 3),
        "copy_rows_per_s": round(per_second),
    }
    print("RESULT", json.dumps(result))


if __name__ == "__main__":
    main()
