"""`make demo`: all services, generated orders, a pipeline on Spark, what comes out of it; Ctrl-C stops it all."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from generate import orders

from penstock.broker import LATEST, Producer, Topics, read
from penstock.cli.live import Recent, watch
from penstock.cli.pipelines import open_context
from penstock.cli.render import show, show_error, table, working
from penstock.errors import PenstockError
from penstock.local.stack import Stack
from penstock.pipeline.compile import compile_graph, declared
from penstock.pipeline.load import load_pipeline
from penstock.pipeline.run import start
from penstock.settings import load

if TYPE_CHECKING:
    from penstock.settings import Kafka, Settings

PIPELINE = Path(__file__).with_name("orders.py")
PER_SECOND = 20


def main() -> int:
    """Run the demo; what ran before it still runs after it."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--metrics", type=int, default=0, help="stop after so many metrics (default: at Ctrl-C)")
    wanted: int = words.parse_args().metrics
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    stack = Stack(load(profile="local"))
    ran_before = any(one.pids for one in stack.status())
    try:
        with working() as progress:
            found = stack.up((), progress)
        rows = [(one.name, one.state, one.address, f"{one.memory_bytes >> 20} MiB") for one in found]
        table(("SERVICE", "STATE", "ADDRESS", "MEMORY"), rows, {"up": "green"})
        flow(load(profile="local"), wanted)
    except KeyboardInterrupt:
        show("")
    except PenstockError as error:
        show_error(error)
        return error.exit_code
    finally:
        if not ran_before:
            with working() as progress:
                stack.down(progress)
            show("All services are stopped; their data stays in .penstock/ (penstock down --wipe removes it).")
    return 0


def flow(settings: Settings, wanted: int) -> None:
    """Send orders, run the pipeline over them, show what comes out of it."""
    topics = Topics(settings.kafka)
    dead_letters = "orders-dead-letters"
    for name in {"orders", "order-metrics", dead_letters} - set(topics.names()):
        topics.create(name, partitions=1 if name == dead_letters else 2)
    graph = declared(load_pipeline(PIPELINE))
    context = open_context(graph, settings)
    plan = compile_graph(graph, context)
    show(f"\n{plan.as_text()}\n")
    running = start(plan, context)
    stop = threading.Event()
    recent = Recent()
    enough = threading.Event()
    helpers = [
        threading.Thread(target=send, args=(settings.kafka, stop), daemon=True),
        threading.Thread(target=show_dead, args=(settings.kafka, plan.dead_letters, recent), daemon=True),
        threading.Thread(target=show_metrics, args=(settings.kafka, recent, wanted, enough), daemon=True),
    ]
    show(f"{PER_SECOND} orders a second go in; a window's metrics come out 5 seconds after its end. Ctrl-C stops.\n")
    try:
        for helper in helpers:
            helper.start()
        watch(running, quiet=False, recent=recent, enough=enough)
    finally:
        stop.set()
        helpers[0].join(5)
        running.stop()
        context.spark.stop()


def show_metrics(kafka: Kafka, recent: Recent, wanted: int, enough: threading.Event) -> None:
    """Show what comes out, until it is as much as was wanted."""
    for seen, record in enumerate(read(kafka, "order-metrics", LATEST, live=True), 1):
        row = record.json()
        line = f"{row['orders']:>3} orders {row['spent']:>10.2f}"
        recent.tell(f"{row['since']}  customer {row['customer_id']:>3}  {line}")
        if seen == wanted:
            enough.set()
            return


def send(kafka: Kafka, stop: threading.Event) -> None:
    """Send orders until we are told to stop."""
    with Producer(kafka) as producer:
        for key, order in orders():
            producer.send("orders", order, key)
            if stop.wait(1 / PER_SECOND):
                return


def show_dead(kafka: Kafka, topic: str, recent: Recent) -> None:
    """Show dead letters as they come."""
    for record in read(kafka, topic, LATEST, live=True):
        letter = record.json()
        recent.tell(f"dead letter  {letter['stage']}: {letter['rule']}  {letter['value']}")


if __name__ == "__main__":
    sys.exit(main())
