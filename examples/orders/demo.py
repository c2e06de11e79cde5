"""`make demo`: all services, a topic of orders, generated rows going in and seen coming out; Ctrl-C stops it all."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

from generate import orders

from penstock.broker import LATEST, Producer, Topics, read
from penstock.cli.render import show, show_error, table, working
from penstock.errors import PenstockError
from penstock.local.stack import Stack
from penstock.settings import load

if TYPE_CHECKING:
    from penstock.settings import Kafka

TOPIC = "orders"
PER_SECOND = 5


def main() -> int:
    """Run the demo; what ran before it still runs after it."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--orders", type=int, default=0, help="stop after so many orders (default: at Ctrl-C)")
    wanted: int = words.parse_args().orders
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    stack = Stack(load(profile="local"))
    ran_before = any(one.pids for one in stack.status())
    try:
        with working() as progress:
            found = stack.up((), progress)
        rows = [(one.name, one.state, one.address, f"{one.memory_bytes >> 20} MiB") for one in found]
        table(("SERVICE", "STATE", "ADDRESS", "MEMORY"), rows, {"up": "green"})
        flow(load(profile="local").kafka, wanted)
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


def flow(kafka: Kafka, wanted: int) -> None:
    """Produce orders and show them as they come out of Kafka."""
    topics = Topics(kafka)
    if TOPIC not in topics.names():
        topics.create(TOPIC, partitions=4)
    show(f"\n{PER_SECOND} orders a second go into the topic {TOPIC!r}; this is what comes out. Ctrl-C stops.\n")
    incoming = read(kafka, TOPIC, LATEST, live=True)
    stop = threading.Event()
    sender = threading.Thread(target=send, args=(kafka, wanted, stop), daemon=True)
    sender.start()
    try:
        for seen, record in enumerate(incoming, 1):
            order: dict[str, Any] = record.json()
            key = (record.key or b"").decode()
            show(
                f"partition {record.partition} offset {record.offset:>5}  customer {key:>3}  "
                f"{order['amount']:>9.2f} {order['currency']}"
            )
            if seen == wanted:
                return
    finally:
        stop.set()
        sender.join(5)


def send(kafka: Kafka, wanted: int, stop: threading.Event) -> None:
    """Send orders until there are enough or we are told to stop."""
    with Producer(kafka) as producer:
        for order in orders():
            producer.send(TOPIC, order, key=str(order["customer_id"]))
            if stop.wait(1 / PER_SECOND) or order["order_id"] == wanted:
                return


if __name__ == "__main__":
    sys.exit(main())
