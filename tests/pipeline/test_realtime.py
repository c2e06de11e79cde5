"""Real-time mode on a real broker: rows come out at once, bad ones are dead letters all the same."""

from __future__ import annotations

import time
import uuid
from functools import partial
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

import penstock as ps
from penstock.broker import Producer, Topics, read
from penstock.pipeline.compile import compile_pipeline
from penstock.pipeline.run import start
from tests.conftest import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.connectors.base import Context
    from penstock.settings import Kafka


@pytest.mark.parametrize("windowed", [False, True], ids=["stateless", "windowed"])
def test_rows_do_not_wait_for_their_batch(
    context: Context, kafka: Kafka, topic: Callable[..., str], windowed: bool
) -> None:
    source, out = topic("orders", partitions=2), topic("out")
    made = ps.Pipeline(f"quick-{uuid.uuid4().hex[:6]}")
    made.source("orders", ps.Kafka(source, format=ps.Json("id LONG, at TIMESTAMP")), time=ps.EventTime("at"))

    @made.flow(emit="changes", expect={"known": ("id > 0", "warn")} if windowed else {"known": "id > 0"})
    def quick(orders: DataFrame) -> DataFrame:
        return orders.groupBy(F.window("at", "1 minute")).agg(F.max("id").alias("id")) if windowed else orders

    made.sink(quick, ps.Kafka(out), latency="realtime")
    running = start(compile_pipeline(made, context), context, every="10 seconds")
    seen = {}

    def is_out(number: int) -> bool:
        return any(one.json()["id"] == number for one in read(kafka, out))

    try:
        with Producer(kafka) as producer:
            for number in range(1, 4):
                producer.send(source, {"id": number, "at": "2026-01-01T00:00:00Z"}, str(number))
                producer.send(source, "no json" if number == 2 else {"id": number, "at": "2026-01-01T00:00:00Z"})
                producer.flush()
                begun = time.monotonic()
                wait_until(partial(is_out, number), 60, "it comes out")
                seen[number] = time.monotonic() - begun
        dead = f"{made.name}-dead-letters"
        known = lambda: dead in Topics(kafka).names() and list(read(kafka, dead))  # noqa: E731
        wait_until(known, 60, "the batch ends, the dead letter is out")
    finally:
        running.stop()
    assert seen[3] < 5  # the batch lasts ten seconds
    (letter,) = read(kafka, dead)
    assert letter.json()["rule"] == "decode"
