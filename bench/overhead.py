"""What a pipeline costs over the same query written by hand in PySpark with the same settings.

Both read the same topic to its end in one Spark session, in turns; the ratio is of the medians.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).parents[1])  # else platform.py beside this file stands for Python's own of that name

import json
import random
import statistics
import time
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

import penstock as ps
from bench.harness import caught_up, working
from penstock.broker import Producer, Topics
from penstock.connectors.kafka import reading_options, writing_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.connectors.base import Context

ROWS = 1_000_000
TURNS = 5
SCHEMA = "bidder LONG, auction LONG, price DOUBLE, channel STRING, at TIMESTAMP"


def produce(context: Context) -> None:
    """Fill the topic that all turns read."""
    Topics(context.settings.kafka).create("bids", partitions=4)
    Topics(context.settings.kafka).create("euros", partitions=4)
    chance = random.Random(1)
    with Producer(context.settings.kafka) as producer:
        for number in range(ROWS):
            bid = {
                "bidder": chance.randrange(4000),
                "auction": number,
                "price": round(chance.random() * 1000, 2),
                "channel": "web",
                "at": f"2026-01-01T00:{number // 60000 % 60:02}:{number // 1000 % 60:02}.{number % 1000:03}Z",
            }
            producer.send("bids", bid, str(bid["bidder"]))


def converted(bids: DataFrame) -> DataFrame:
    """The query: a price in another currency."""
    return bids.filter("price > 1").withColumn("price", F.round(F.col("price") * 0.908, 2))


def by_hand(context: Context, name: str) -> float:
    """The query as a person writes it."""
    reader = context.spark.readStream.format("kafka").options(**reading_options(context))
    raw = reader.option("subscribe", "bids").option("startingOffsets", "earliest").load()
    bids = raw.select(F.from_json(F.col("value").cast("string"), SCHEMA).alias("bid")).select("bid.*")
    out = converted(bids).select(
        F.col("bidder").cast("string").alias("key"),
        F.to_json(F.struct("bidder", "auction", "price", "channel", "at")).alias("value"),
    )
    writer = out.writeStream.format("kafka").options(**writing_options(context)).option("topic", "euros")
    began = time.perf_counter()
    writer.option("checkpointLocation", str(context.settings.project / name)).trigger(
        availableNow=True
    ).start().awaitTermination()
    return time.perf_counter() - began


def by_pipeline(context: Context, name: str) -> float:
    """The same as a pipeline."""
    bids = ps.Pipeline(name)
    bids.source("bids", ps.Kafka("bids", format=ps.Json(SCHEMA)))
    bids.flow(name="converted")(converted)
    bids.sink("converted", ps.Kafka("euros", key="bidder"), guarantee="at-least-once")  # as by hand
    return caught_up(bids, context)[0]


def main() -> None:
    """Take turns, print each, end with the ratio of throughputs (1 is no overhead)."""
    with working("overhead") as context:
        produce(context)
        hand, ours = [], []
        for turn in range(TURNS + 1):
            one = by_hand(context, f"hand-{turn}")
            other = by_pipeline(context, f"ours-{turn}")
            print(f"turn {turn}: by hand {ROWS / one:,.0f} rows/s, pipeline {ROWS / other:,.0f} rows/s", flush=True)
            if turn:  # the first turn warms up
                hand.append(one)
                ours.append(other)
    print("RESULT", json.dumps({"ratio": round(statistics.median(hand) / statistics.median(ours), 3)}))


if __name__ == "__main__":
    main()
