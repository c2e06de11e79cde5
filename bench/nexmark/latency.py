"""How long a row takes from Kafka to Kafka while rows come at a steady pace.

A row carries the microsecond at which it was sent, of a clock that all processes share and nobody sets; whoever reads
the answer looks at it. What real-time mode stops for at the end of its batches is in all figures, and told apart: the
longest wait around each of these ends.
"""

from __future__ import annotations

import json
import multiprocessing
import statistics
import tempfile
import time
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, TopicPartition

from bench.stolen import Stolen
from penstock.broker import Producer, Topics
from penstock.settings import load

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from multiprocessing.synchronize import Event
    from pathlib import Path

    from bench.nexmark.engines import Engine
    from penstock.settings import Settings

__all__ = ["Latency", "Turn", "figures", "latency", "reader", "running"]

PARTITIONS = 2
BIDDERS = 1000
_PAUSE_MS = 40.0  # waits above this belong to a pause
_APART_SECONDS = 5.0  # two pauses are further apart than this


@dataclass(frozen=True)
class Turn:
    """When each row was sent, in seconds, how long it took, in milliseconds; the share of the time that was stolen."""

    waits: list[tuple[float, float]]
    stolen: float


@dataclass(frozen=True)
class Latency:
    """Milliseconds: medians of the turns, but the longest wait of a thousand is that of all rows together."""

    rows: int
    p50: float
    p99: float
    p999: float
    pauses: tuple[float, ...]
    stolen: float


def latency(engine: Engine, settings: Settings, kind: str, rate: int, seconds: float, warm: float, **more: Any) -> Turn:
    """Let an engine run a live query for some seconds, after some that warm it up."""
    with running(engine, settings, kind, rate, **more) as sink, Stolen() as stolen:
        found = listen(settings, sink, warm, seconds)
    return Turn(found, stolen.share)


@contextmanager
def running(engine: Engine, settings: Settings, kind: str, rate: int, **more: Any) -> Iterator[str]:
    """A live query, and rows that come at a steady pace; the topic of its answers.

    The topics stay: with those of an earlier query gone, rows of the next in the same session wait 200 ms now and then.
    """
    name = f"live-{kind}-{uuid.uuid4().hex[:8]}"
    for end in ("in", "out"):
        Topics(settings.kafka).create(f"{name}-{end}", partitions=PARTITIONS)
    work = multiprocessing.get_context("spawn")  # a thread of ours would take turns with whoever reads the clock
    over = work.Event()
    # What keeps state may write to its checkpoint for a moment after it was stopped.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        request = {"live": kind, "sources": {"bid": f"{name}-in"}, "sink": f"{name}-out", "format": "json"}
        engine.say({**request, "folder": folder, "registry": None, **more})
        sender = work.Process(target=send, args=(settings.project, f"{name}-in", rate, over), daemon=True)
        sender.start()
        try:
            yield f"{name}-out"
        finally:
            over.set()
            sender.join()
            engine.say({"stop": True})


def send(project: Path, topic: str, rate: int, over: Event) -> None:
    """Bids at a steady pace, each with the time at which it is sent."""
    settings = load(project=project, profile="local")
    with Producer(settings.kafka, options={"linger.ms": "0", "acks": "1", "enable.idempotence": "false"}) as producer:
        began, sent = time.perf_counter(), 0
        while not over.is_set():
            now, micros = time.time(), int(time.monotonic() * 1e6)
            at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now * 1000) % 1000:03}Z"
            due = int((time.perf_counter() - began) * rate)
            for number in range(sent, due):
                text = f'{{"bidder":{number % BIDDERS},"price":{micros},"dateTime":"{at}"}}'
                producer.send(topic, text, partition=number % PARTITIONS)
            sent = max(sent, due)
            time.sleep(0.001)


def listen(settings: Settings, topic: str, warm: float, seconds: float) -> list[tuple[float, float]]:
    """When each row was sent, in seconds, and how long it took, in milliseconds."""
    client = reader(settings, topic)
    came: list[tuple[float, bytes]] = []
    begin = time.monotonic() + warm
    while time.monotonic() < begin + seconds:
        message = client.poll(0.1)
        if message is not None and message.error() is None:
            came.append((time.monotonic(), message.value() or b""))
    client.close()
    every = ((at, json.loads(value)["price"] / 1e6) for at, value in came)
    return [(sent, (at - sent) * 1000) for at, sent in every if sent > begin]


def reader(settings: Settings, topic: str) -> Consumer:
    """Of a topic from its beginning."""
    named = {"bootstrap.servers": settings.kafka.bootstrap, "group.id": topic}
    client = Consumer({**named, "fetch.wait.max.ms": "500", "enable.auto.commit": False})
    client.assign([TopicPartition(topic, part, 0) for part in range(PARTITIONS)])
    return client


def figures(turns: Sequence[Turn]) -> Latency:
    """Percentiles, the longest wait of each pause, the share of the time that the machine did not have."""
    every = [sorted(took for _, took in turn.waits) for turn in turns]
    p50, p99 = (statistics.median(_at(share, waits) for waits in every) for share in (0.5, 0.99))
    together = sorted(chain.from_iterable(every))
    pauses = tuple(round(took, 1) for turn in turns for took in _pauses(turn.waits))
    stolen = round(statistics.mean(turn.stolen for turn in turns), 3)
    return Latency(len(together), round(p50, 1), round(p99, 1), round(_at(0.999, together), 1), pauses, stolen)


def _at(share: float, waits: list[float]) -> float:
    return waits[min(len(waits) - 1, int(len(waits) * share))]


def _pauses(found: list[tuple[float, float]]) -> list[float]:
    """The longest wait of each."""
    pauses: list[tuple[float, float]] = []
    for sent, took in sorted(found):
        if took < _PAUSE_MS:
            continue
        if pauses and sent - pauses[-1][0] < _APART_SECONDS:
            pauses[-1] = (sent, max(took, pauses[-1][1]))
        else:
            pauses.append((sent, took))
    return [took for _, took in pauses]
