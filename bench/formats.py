"""How fast Spark decodes Avro with a registry, beside JSON of the same rows; and what ten schemas in one topic cost.

All topics have the same rows; each turn reads every topic to its end in one Spark session; the ratios are of medians.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).parents[1])  # else platform.py beside this file stands for Python's own of that name

import io
import json
import random
import statistics
import time
from typing import TYPE_CHECKING, Any

import fastavro

import penstock as ps
from bench.harness import working
from penstock.broker import Producer, Topics
from penstock.registry.client import Registry
from penstock.registry.schema import Schema
from penstock.registry.wire import header

if TYPE_CHECKING:
    from penstock.connectors.base import Context

ROWS = 600_000
TURNS = 5
IDS = 10
COLUMNS = "bidder LONG, auction LONG, price DOUBLE, channel STRING, url STRING, at TIMESTAMP"
FIELDS: list[dict[str, Any]] = [
    {"name": "bidder", "type": "long"},
    {"name": "auction", "type": "long"},
    {"name": "price", "type": "double"},
    {"name": "channel", "type": "string"},
    {"name": "url", "type": "string"},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
]
FIRST = 1_767_225_600_000_000


def version(number: int) -> dict[str, Any]:
    """A schema with so many optional fields more."""
    more = [{"name": f"extra_{one}", "type": ["null", "string"], "default": None} for one in range(number)]
    return {"type": "record", "name": "bench.Bid", "fields": [*FIELDS, *more]}


def produce(context: Context) -> None:
    """The same rows into three topics: JSON, Avro of one schema, Avro of ten."""
    topics = Topics(context.settings.kafka)
    for name in ("json", "one", "ten"):
        topics.create(name, partitions=4)
    with Registry(context.settings.registry) as registry:
        headers = {
            name: [
                header(registry.register(f"{name}-value", Schema("AVRO", json.dumps(version(number)))))
                for number in range(count)
            ]
            for name, count in (("one", 1), ("ten", IDS))
        }
    parsed = fastavro.parse_schema(version(0))
    chance = random.Random(1)
    with Producer(context.settings.kafka) as producer:
        for number in range(ROWS):
            bid = {
                "bidder": chance.randrange(4000),
                "auction": number,
                "price": round(chance.random() * 1000, 2),
                "channel": "web",
                "url": f"https://shop.example/item/{number}",
            }
            at = f"2026-01-01T00:{number // 60000 % 60:02}:{number // 1000 % 60:02}.{number % 1000:03}Z"
            producer.send("json", {**bid, "at": at}, partition=number % 4)
            out = io.BytesIO()
            fastavro.schemaless_writer(out, parsed, {**bid, "at": FIRST + number * 1000})
            producer.send("one", headers["one"][0] + out.getvalue(), partition=number % 4)
            kind = number % IDS  # a null of an optional field is one zero byte
            producer.send("ten", headers["ten"][kind] + out.getvalue() + bytes(kind), partition=number % 4)


def read(context: Context, source: ps.Kafka, name: str) -> float:
    """Decode a topic to its end, every column of it."""
    rows = source.stream(context)
    query = rows.writeStream.format("noop").option("checkpointLocation", str(context.settings.project / name))
    began = time.perf_counter()
    query.trigger(availableNow=True).start().awaitTermination()
    return time.perf_counter() - began


def main() -> None:
    """Take turns, print each, end with the ratios."""
    reader = json.dumps(version(0))
    with working("formats", services=("kafka", "registry")) as context:
        produce(context)
        sources = {
            "json": ps.Kafka("json", format=ps.Json(COLUMNS)),
            "one": ps.Kafka("one", format=ps.Avro(reader)),
            "ten": ps.Kafka("ten", format=ps.Avro(reader)),
        }
        taken: dict[str, list[float]] = {name: [] for name in sources}
        for turn in range(TURNS + 1):
            rates = {}
            for name, source in sources.items():
                seconds = read(context, source, f"{name}-{turn}")
                rates[name] = ROWS / seconds
                if turn:  # the first turn warms up
                    taken[name].append(seconds)
            told = ", ".join(f"{name} {rate:,.0f} rows/s" for name, rate in rates.items())
            print(f"turn {turn}: {told}", flush=True)
    middle = {name: statistics.median(seconds) for name, seconds in taken.items()}
    result = {
        "avro_over_json": round(middle["json"] / middle["one"], 3),
        "ten_ids_cost": round(middle["ten"] / middle["one"] - 1, 3),
    }
    print("RESULT", json.dumps(result))


if __name__ == "__main__":
    main()
