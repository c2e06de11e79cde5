"""Fill Kafka with Nexmark's events: `python generate.py --bids 2000000 --format avro`.

One topic for each table, nexmark-bid-json and so on; the last row of each partition is of July and closes all
windows before it. With --live rows are sent at a pace, and their time is the time at which they are sent.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from encode import as_avro, as_json, avro_schema
from nexmark import TABLES, Shape, end_of, rows

from penstock.broker import Producer, Topics
from penstock.registry.client import Registry
from penstock.registry.schema import Schema
from penstock.registry.wire import header
from penstock.settings import load

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.settings import Settings

__all__ = ["fill", "topic_of"]

CHUNK = 40_000


def topic_of(table: str, form: str) -> str:
    """The topic of a table in a format."""
    return f"nexmark-{table}-{form}"


def fill(
    settings: Settings,
    table: str,
    form: str,
    count: int,
    shape: Shape,
    partitions: int = 4,
    sides: int = 2,
    topic: str | None = None,
) -> float:
    """Make the topic and send so many rows by some processes side by side; the seconds that it took."""
    topic = topic or topic_of(table, form)
    Topics(settings.kafka).create(topic, partitions=partitions)
    frame = _frame(settings, table, topic) if form == "avro" else b""
    began = time.perf_counter()
    work = multiprocessing.get_context("spawn")
    others = [
        work.Process(
            target=_send,
            args=(settings.project, table, topic, frame, count, shape, partitions, range(side, partitions, sides)),
        )
        for side in range(sides)
    ]
    for one in others:
        one.start()
    for one in others:
        one.join()
    if any(one.exitcode for one in others):
        raise SystemExit(f"not all rows of {topic} were sent")
    return time.perf_counter() - began


def _frame(settings: Settings, table: str, topic: str) -> bytes:
    """Register the schema."""
    schema = avro_schema(rows(table, 0, 1, Shape()), table.title())
    with Registry(settings.registry) as registry:
        return header(registry.register(f"{topic}-value", Schema("AVRO", json.dumps(schema))))


def _send(
    project: Path, table: str, topic: str, frame: bytes, count: int, shape: Shape, partitions: int, ours: range
) -> None:
    """The rows of some partitions, in the order of their time."""
    settings = load(project=project)
    encode = _encoder(frame)
    with Producer(settings.kafka, options={"queue.buffering.max.kbytes": 256 << 10}) as producer:
        for first in range(0, count, CHUNK * partitions):
            for part in ours:
                some = rows(table, first + part, min(first + CHUNK * partitions, count), shape, partitions)
                producer.send_many(topic, None, encode(some).to_pylist(), partition=part)
        for part in ours:
            producer.send_many(topic, None, encode(end_of(table, shape)).to_pylist(), partition=part)


def _encoder(frame: bytes) -> Callable[[pa.Table], pa.BinaryArray]:
    return (lambda some: as_avro(some, frame)) if frame else as_json


def live(
    settings: Settings, table: str, form: str, count: int, shape: Shape, per_second: int, partitions: int = 4
) -> None:
    """Send rows at a pace, with the time at which they are sent."""
    topic = topic_of(table, form)
    Topics(settings.kafka).ensure(topic)
    encode = _encoder(_frame(settings, table, topic) if form == "avro" else b"")
    with Producer(settings.kafka, options={"linger.ms": 0}) as producer:
        began, sent = time.time(), 0
        while sent < count:
            due = min(count, int((time.time() - began) * per_second))
            if due > sent:
                some = rows(table, sent, due, shape)
                now = pa.array([int(time.time() * 1000)] * len(some)).cast(some.schema.field("dateTime").type)
                some = some.set_column(some.column_names.index("dateTime"), "dateTime", now)
                for at, value in enumerate(encode(some).to_pylist(), sent):
                    producer.send(topic, value, partition=at % partitions)
                sent = due
            time.sleep(0.001)


def main() -> None:
    """Fill the topics."""
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--format", choices=("json", "avro"), default="json")
    for table in TABLES:
        words.add_argument(f"--{table}s", type=int, default=0, help=f"how many rows of {table}")
    words.add_argument("--partitions", type=int, default=4)
    words.add_argument("--seed", type=int, default=1)
    words.add_argument("--people", type=int, default=Shape.people, help="how many bid at a time")
    words.add_argument("--disorder", type=int, default=1, help="rows are mixed up within groups of so many")
    words.add_argument("--live", type=int, help="rows a second")
    given = words.parse_args()
    settings = load(project=Path.cwd())
    shape = replace(Shape(), seed=given.seed, people=given.people, disorder=given.disorder)
    for table in TABLES:
        count = getattr(given, f"{table}s")
        if not count:
            continue
        if given.live:
            live(settings, table, given.format, count, shape, given.live, given.partitions)
        else:
            took = fill(settings, table, given.format, count, shape, given.partitions)
            print(f"{topic_of(table, given.format)}: {count:,} rows in {took:.1f} s, {count / took:,.0f} a second")


if __name__ == "__main__":
    main()
