"""What `late="keep"` costs: nothing where no row is late; and what it costs where one in a hundred is.

The same windows over the same topic, kept and dropped in turns in one Spark session; a ratio of 1 is no cost.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).parents[1])  # else platform.py beside this file stands for Python's own of that name

import json
import random
import statistics
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

import penstock as ps
from bench.harness import caught_up, working
from penstock.broker import Producer, Topics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.connectors.base import Context

ROWS = 600_000
TURNS = 4


def produce(context: Context, topic: str, late: float) -> None:
    """A thousand rows a second of event time, some of them five minutes late."""
    Topics(context.settings.kafka).create(topic, partitions=4)
    chance = random.Random(1)
    with Producer(context.settings.kafka) as producer:
        for number in range(ROWS):
            second = number // 1000 - (300 if chance.random() < late and number > ROWS // 2 else 0)
            at = f"2026-01-01T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}.{number % 1000:03}Z"
            # In turns, so that the partitions are in step: else rows would be late by the order in which they are read.
            producer.send(topic, {"bidder": number % 4000, "price": 1.0, "at": at}, partition=number % 4)


def windows(context: Context, name: str, topic: str, late: str) -> float:
    """Count per bidder in windows of ten seconds; how long until all is read and every late row is out."""
    made = ps.Pipeline(name)
    bids = ps.Kafka(topic, format=ps.Json("bidder LONG, price DOUBLE, at TIMESTAMP"), rows_per_batch=100_000)
    made.source("bids", bids, time=ps.EventTime("at", delay="10 seconds", late=late))

    @made.flow
    def counts(bids: DataFrame) -> DataFrame:
        return bids.groupBy(F.window("at", "10 seconds"), "bidder").count()

    made.sink(counts, ps.Kafka("counts"))
    took, running = caught_up(made, context)
    (totals,) = running.totals().values()
    assert bool(totals["late"]) == (topic != "in-time"), totals
    return took


def ratio(context: Context, topic: str) -> float:
    """The throughput of keeping over that of dropping."""
    kept, dropped = [], []
    for turn in range(TURNS + 1):
        took = {
            late: windows(context, f"{topic}-{late}-{turn}", topic, late)
            for late in (("keep", "drop") if turn % 2 else ("drop", "keep"))
        }
        one, other = took["keep"], took["drop"]
        print(f"{topic}, turn {turn}: keep {ROWS / one:,.0f} rows/s, drop {ROWS / other:,.0f} rows/s", flush=True)
        if turn:  # the first turn warms up
            kept.append(one)
            dropped.append(other)
    return round(statistics.median(dropped) / statistics.median(kept), 3)


def main() -> None:
    """Take turns, end with the ratios."""
    with working("late") as context:
        Topics(context.settings.kafka).create("counts", partitions=4)
        for topic, late in (("in-time", 0.0), ("one-in-a-hundred", 0.01)):
            produce(context, topic, late)
        found = {topic: ratio(context, topic) for topic in ("in-time", "one-in-a-hundred")}
    print("RESULT", json.dumps({"none_late": found["in-time"], "one_percent_late": found["one-in-a-hundred"]}))


if __name__ == "__main__":
    main()
