"""A million keys with a time to live: memory, size of the checkpoint, how long a new process takes to go on from it.

First a million keys come, then a process that has never seen them goes on with a few rows, then another million comes
later than the first ones live: the state must not grow.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).parents[1])  # else platform.py beside this file stands for Python's own of that name

import argparse
import json
import subprocess
import tempfile
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812

import penstock as ps
from bench.harness import caught_up, working
from bench.large_batch import Peak

if TYPE_CHECKING:
    from penstock.connectors.base import Context
    from penstock.pipeline.keyed.process import Now

BATCH = 250_000
SCHEMA = "card LONG, at TIMESTAMP"


class Counted:
    """How many payments a card had, forgotten an hour after the last one."""

    count = ps.ValueState("LONG", ttl="1 hour")

    def on_event(self, payments: dict[str, Any], now: Now) -> None:
        """Count a payment."""
        self.count.set(self.count.get(0) + 1)


def write(context: Context, folder: Path, first: int, last: int, minute: int) -> None:
    """One payment for each card, within ten minutes; one file for each batch."""
    for begin in range(first, last, BATCH):
        ids = context.spark.range(begin, min(begin + BATCH, last), numPartitions=1)
        millis = F.lit(1_767_225_600_000 + minute * 60_000) + (F.col("id") - first) * 600_000 / max(last - first, 1)
        rows = ids.select(F.col("id").alias("card"), F.timestamp_millis(millis.cast("long")).alias("at"))
        rows.coalesce(1).write.mode("append").parquet(str(folder / "payments"))


def phase(folder: Path, first: int, last: int, minute: int) -> dict[str, float]:
    """Some cards, in a process of its own that goes on from what the one before has left."""
    with working("keys", services=(), options={"spark.driver.memory": "2g"}) as context:
        write(context, folder, first, last, minute)
        made = ps.Pipeline("keys")
        files = ps.Files(str(folder / "payments"), kind="parquet", schema=SCHEMA, files_per_batch=1)
        made.source("payments", files, time=ps.EventTime("at", delay="5 seconds"))
        counted = made.keyed(by="card", returns=SCHEMA, ordered=False, name="counted")(Counted)
        made.sink(counted, ps.Files(str(folder / "counted"), kind="parquet"))
        began = time.perf_counter()
        with Peak() as peak:
            _, running = caught_up(made, replace(context, settings=replace(context.settings, project=folder)))
        (query,) = running.plan.queries
        checkpoint = running.state.checkpoint(query.name)
        last_record = running.state.progress(query.name)[-1]
        return {
            "seconds": round(time.perf_counter() - began, 1),
            "peak_mib": peak.bytes >> 20,
            "checkpoint_mib": sum(one.stat().st_size for one in checkpoint.rglob("*") if one.is_file()) >> 20,
            "state_rows": last_record["state_rows"],
        }


def told_by(folder: Path, *numbers: int) -> dict[str, float]:
    """A phase in a new process."""
    words = [sys.executable, __file__, "--folder", str(folder), "--phase", *map(str, numbers)]
    said = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1]
    print(*numbers, said, flush=True)
    found: dict[str, float] = json.loads(said)
    return found


def main() -> None:
    """All three, one after the other."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--keys", type=int, default=1_000_000)
    words.add_argument("--folder", type=Path)
    words.add_argument("--phase", type=int, nargs=3)
    given = words.parse_args()
    if given.phase:
        print(json.dumps(phase(given.folder, *given.phase)))
        return
    with tempfile.TemporaryDirectory() as place:
        folder, keys = Path(place), given.keys
        first = told_by(folder, 0, keys, 0)
        again = told_by(folder, 0, 1000, 12)
        later = told_by(folder, keys, 2 * keys, 300)
    told = {
        "keys": keys,
        "peak_mib": first["peak_mib"],
        "checkpoint_mib": first["checkpoint_mib"],
        "restore_s": again["seconds"],
        "state_rows": first["state_rows"],
        "state_rows_later": later["state_rows"],
        "peak_mib_later": later["peak_mib"],
    }
    print("RESULT", json.dumps(told))


if __name__ == "__main__":
    main()
