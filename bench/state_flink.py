"""The two jobs of bench/state.py on PyFlink, by an interpreter that has it (PENSTOCK_FLINK).

The rate is that of the rows between a short and a long run, so that neither start nor warming up counts.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).parents[1])  # else platform.py beside this file stands for Python's own of that name

import json
import os
import sysconfig
import time
from typing import TYPE_CHECKING, Any

from pyflink.common import Types
from pyflink.common.configuration import Configuration
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import ValueStateDescriptor
from pyflink.table import StreamTableEnvironment

if TYPE_CHECKING:
    from pyflink.datastream.functions import RuntimeContext

COLUMNS = "card BIGINT, amount DOUBLE, `at` TIMESTAMP(3), WATERMARK FOR `at` AS `at` - INTERVAL '5' SECOND"
PATTERN = """
INSERT INTO nothing SELECT * FROM payments MATCH_RECOGNIZE (
  PARTITION BY card ORDER BY `at` MEASURES A.amount AS first_amount, B.amount AS last_amount
  ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW PATTERN (A X*? B) WITHIN INTERVAL '1' MINUTE
  DEFINE A AS amount < 1, B AS amount > 10000)
"""


class Fraud(KeyedProcessFunction):  # type: ignore[misc]
    """A small payment, then one above 10,000 within a minute."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open the state."""
        self.small = runtime_context.get_state(ValueStateDescriptor("small", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        """Look at a payment."""
        timer = self.small.value()
        if timer is not None:
            if value[1] > 10_000:
                yield value[0]
            self.small.clear()
            ctx.timer_service().delete_event_time_timer(timer)
        if value[1] < 1:
            at = ctx.timestamp() + 60_000
            self.small.update(at)
            ctx.timer_service().register_event_time_timer(at)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        """Forget the small payment."""
        self.small.clear()
        yield from ()


def environment(folder: str, mode: str) -> tuple[StreamExecutionEnvironment, StreamTableEnvironment]:
    """Two slots, and the events as a table."""
    settings = Configuration()
    settings.set_string("python.execution-mode", mode)
    settings.set_string("python.executable", sys.executable)
    streams = StreamExecutionEnvironment.get_execution_environment(settings)
    streams.set_parallelism(2)
    tables = StreamTableEnvironment.create(streams)
    where = f"'connector' = 'filesystem', 'path' = '{folder}', 'format' = 'csv'"
    tables.execute_sql(f"CREATE TABLE payments ({COLUMNS}) WITH ({where})")
    tables.execute_sql(
        "CREATE TABLE nothing (card BIGINT, first_amount DOUBLE, last_amount DOUBLE) WITH ('connector' = 'blackhole')"
    )
    return streams, tables


def keyed(folder: str, mode: str) -> float:
    """Seconds of the keyed process."""
    streams, tables = environment(folder, mode)
    rows = tables.to_data_stream(tables.from_path("payments"))
    found = rows.key_by(lambda row: row[0], key_type=Types.LONG()).process(Fraud(), output_type=Types.LONG())
    found.filter(lambda card: False).print()
    began = time.perf_counter()
    streams.execute("keyed")
    return time.perf_counter() - began


def pattern(folder: str, mode: str) -> float:
    """Seconds of the pattern."""
    _, tables = environment(folder, mode)
    began = time.perf_counter()
    tables.execute_sql(PATTERN).wait()
    return time.perf_counter() - began


if __name__ == "__main__":
    os.environ["PYTHONPATH"] = sysconfig.get_path("purelib")  # for the interpreter inside Flink's JVM
    _, short, long, rows = sys.argv
    told: dict[str, float] = {}
    for name, job, mode in (
        ("keyed", keyed, "process"),
        ("keyed_thread", keyed, "thread"),
        ("pattern", pattern, "process"),
    ):
        took = job(long, mode) - job(short, mode)
        told[f"flink_{name}_events_per_s"] = round(int(rows) / took)
        print(name, round(took, 1), "s", flush=True, file=sys.stderr)
    print(json.dumps(told))
