"""The same answer whatever the batches and the order within the delay: against a computation in plain Python."""

from __future__ import annotations

import json
import random
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.testing import PAUSE, Trial
from tests.pipeline.keyed.processes import PAYMENT, Everything
from tests.pipeline.keyed.test_on_spark import pipeline, row
from tests.pipeline.keyed.test_process import BEGIN, FAR, given_out, payment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.testing.marks import Mark

DELAY = 10
KEYS = st.lists(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 5)), max_size=12), min_size=20, max_size=60)


class Oracle:
    """What `Everything` gives for the rows of one card: no batches, no watermark, no text; all rows are there."""

    def __init__(self) -> None:
        self.out: list[tuple[str, Any, float]] = []
        self.last: list[float] = []
        self.seen: dict[str, int] = {}
        self.total = 0.0
        self.written = -1000.0  # when `last` and `total` were
        self.timers: dict[str, float] = {}

    def given(self, rows: list[tuple[int, int]]) -> list[tuple[str, Any, float]]:
        """All rows, then all timers that are left."""
        for second, amount in sorted(rows, key=lambda one: (one[0], float(one[1]))):
            self._ring(second)
            self._event(second, float(amount))
        self._ring(10**9)
        return self.out

    def _event(self, now: float, amount: float) -> None:
        self.last = [*(self.last if now - self.written < 20 else []), amount]
        self.total = (self.total if now - self.written < 5 else 0.0) * 2 + amount
        self.written = now
        name = str(int(amount) % 3)
        self.seen[name] = self.seen.get(name, 0) + 1
        self.out.append(("", self.total, now))
        self.timers[name] = now + 3

    def _ring(self, before: float) -> None:
        while due := sorted((at, name) for name, at in self.timers.items() if at < before):
            now, name = due[0]
            del self.timers[name]
            length = len(self.last) if now - self.written < 20 else 0
            total = self.total if now - self.written < 5 else None
            self.out.append(("rung", f"{name} {length} {self.seen.get(name)} {total}", now))
            if self.seen.get(name, 0) > 1:
                self.seen[name] -= 1
                self.timers[name] = now + 4
            else:
                self.seen.pop(name, None)


def wanted(cards: list[list[tuple[int, int]]]) -> list[tuple[str, str, Any, float]]:
    every = ((str(card), *one) for card, rows in enumerate(cards) for one in Oracle().given(rows))
    return sorted(((output, card, said, at) for card, output, said, at in every), key=str)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 5)), max_size=25))
def test_the_process_equals_plain_python(rows: list[tuple[int, int]]) -> None:
    found = given_out(Everything, [([payment(*one) for one in rows], FAR)])
    told = [(output, json.loads(text)) for output, text in found]
    shown = [
        (output, one.get("told", one.get("amount")), seconds(datetime.fromisoformat(one["at"]))) for output, one in told
    ]
    assert shown == Oracle().given(rows)


@settings(max_examples=2, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(KEYS, st.integers(0, 1 << 32))
def test_batches_of_spark_change_nothing(spark: SparkSession, cards: list[list[tuple[int, int]]], seed: int) -> None:
    chance = random.Random(seed)
    made = pipeline()
    outputs = {"rung": "card STRING, told STRING, at TIMESTAMP"}
    totals = made.keyed(by="card", returns=PAYMENT, outputs=outputs, name="totals")(Everything)
    made.sink(totals, ps.Kafka("totals"))
    made.sink("rung", ps.Kafka("rung"))
    every = [(second, amount, str(card)) for card, rows in enumerate(cards) for second, amount in rows]
    arrived = sorted(every, key=lambda one: one[0] + chance.random() * DELAY * 0.99)
    with Trial(made, spark) as trial:
        items: list[dict[str, Any] | Mark] = []
        for one in arrived:
            items += [row(*one), PAUSE] if chance.random() < 3 / (len(arrived) + 1) else [row(*one)]
        trial.given("payments", items)
        trial.end()
        found = [("", one["card"], one["amount"], seconds(one["at"])) for one in trial.rows("totals")]
        found += [("rung", one["card"], one["told"], seconds(one["at"])) for one in trial.rows("rung")]
    assert sorted(found, key=str) == wanted(cards)


def seconds(at: Any) -> float:
    return float((at - BEGIN) / timedelta(seconds=1))
