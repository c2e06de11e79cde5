"""Events a second through a keyed process and through a pattern, over 4,000 keys, in batches of 500,000 rows.

The keyed process is the fraud detector of the docs; of the pattern's rows one in twenty meets a condition.
The first two batches of each warm up. With PENSTOCK_FLINK, the path of a Python that has apache-flink, the same events
go through PyFlink's keyed process and MATCH_RECOGNIZE too.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).parents[1])  # else platform.py beside this file stands for Python's own of that name

import json
import os
import statistics
import subprocess
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812

import penstock as ps
from bench.harness import caught_up, working

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.connectors.base import Context
    from penstock.pipeline.keyed.process import Now

KEYS = 4000
BATCH = 500_000
BATCHES = 6
FLINK_SHORT, FLINK_LONG = 50_000, 350_000
SCHEMA = "card LONG, amount DOUBLE, at TIMESTAMP"


class Fraud:
    """A small payment, then one above 10,000 within a minute."""

    small = ps.ValueState("BOOLEAN")

    def on_event(self, payments: dict[str, Any], now: Now) -> None:
        """Look at a payment."""
        if payments["amount"] > 10_000 and self.small.get():
            now.emit(payments)
        if self.small.get():
            self.small.clear()
            now.cancel()
        if payments["amount"] < 1:
            self.small.set(True)
            now.timer("1 minute")

    def on_timer(self, name: str, now: Now) -> None:
        """Forget the small payment."""
        self.small.clear()


def events(ids: DataFrame) -> DataFrame:
    """Payments, a millisecond apart."""
    spread = F.pmod(F.hash("id"), F.lit(100_000)) / 100_000.0
    amount = F.when(spread < 0.025, spread * 40).when(spread > 0.975, spread * 20_000).otherwise(spread * 1000 + 1)
    return ids.select(
        F.pmod(F.xxhash64("id"), F.lit(KEYS)).alias("card"),
        amount.alias("amount"),
        F.timestamp_millis(F.col("id") + F.lit(1_767_225_600_000)).alias("at"),
    )


def write(context: Context, folder: str) -> None:
    """The events, one file for each batch."""
    for number in range(BATCHES):
        ids = context.spark.range(number * BATCH, (number + 1) * BATCH, numPartitions=1)
        events(ids).write.mode("append").parquet(folder)


def write_for_flink(context: Context, folder: Path) -> None:
    """Few events, and more; two files each, of which both readers take one, in the order of time."""
    for name, count in (("short", FLINK_SHORT), ("long", FLINK_LONG)):
        for part in range(2):
            ids = context.spark.range(part, count, 2, numPartitions=1)
            rows = events(ids).withColumn("at", F.date_format("at", "yyyy-MM-dd HH:mm:ss.SSS"))
            rows.write.mode("append").csv(str(folder / name))


def on_flink(python: str, folder: Path) -> dict[str, float]:
    """The rates of PyFlink."""
    words = [python, str(Path(__file__).with_name("state_flink.py")), f"{folder}/short", f"{folder}/long"]
    said = subprocess.run([*words, str(FLINK_LONG - FLINK_SHORT)], check=True, stdout=subprocess.PIPE, text=True).stdout
    found: dict[str, float] = json.loads(said.splitlines()[-1])
    return found


def pipeline(name: str, folder: str) -> ps.Pipeline:
    """A pipeline that reads the files, one a batch."""
    made = ps.Pipeline(name)
    files = ps.Files(folder, kind="parquet", schema=SCHEMA, files_per_batch=1)
    made.source("payments", files, time=ps.EventTime("at", delay="5 seconds"))
    return made


def rate(context: Context, made: ps.Pipeline) -> float:
    """The rows a second of the batches after those that warm up."""
    _, running = caught_up(made, context)
    (query,) = running.plan.queries
    records = running.state.progress(query.name)
    full = [one for one in records if one["rows"] == BATCH][2:]
    for one in full:
        print(made.name, one["batch"], one["duration_ms"]["triggerExecution"], "ms", flush=True)
    return BATCH / float(statistics.median(one["duration_ms"]["triggerExecution"] for one in full)) * 1000


def main() -> None:
    """Both, one after the other."""
    with working("state", services=()) as context:
        folder = str(context.settings.project / "payments")
        write(context, folder)
        keyed = pipeline("keyed", folder)
        keyed.sink(keyed.keyed(by="card", returns=SCHEMA, name="fraud")(Fraud), ps.Memory("fraud"))
        keyed_rate = rate(context, keyed)
        found = pipeline("pattern", folder)
        steps = ps.pattern("small", "amount < 1").followed_by("large", "amount > 10000").within("1 minute").skip("past")

        @found.flow
        def alerts(payments: DataFrame) -> DataFrame:
            return ps.matches(payments, steps, by="card")

        found.sink(alerts, ps.Memory("alerts"))
        told: dict[str, float] = {
            "keyed_events_per_s": round(keyed_rate),
            "pattern_events_per_s": round(rate(context, found)),
        }
        if python := os.environ.get("PENSTOCK_FLINK"):
            write_for_flink(context, context.settings.project / "flink")
            context.spark.stop()
            told |= on_flink(python, context.settings.project / "flink")
    print("RESULT", json.dumps(told))


if __name__ == "__main__":
    main()
