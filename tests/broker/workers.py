"""Programs that tests start and kill; each says on stdout where it is, one word a line."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from penstock.broker import Consumer, TransactionalProducer
from penstock.settings import Kafka

_STAYS_MEMBER = {"group.instance.id": "worker"}  # comes back after a kill without the group waiting for its death


def append(kafka: Kafka, source: str, group: str, target: str, *flags: str) -> None:
    """Write every record to a file, safely, before the next one is asked for."""
    options = _STAYS_MEMBER if "static" in flags else {"session.timeout.ms": 6000}
    with Path(target).open("ab", buffering=0) as file, Consumer(kafka, group, [source], options=options) as consumer:
        for record in consumer:
            if f"stuck:{(record.value or b'').decode()}" in flags:
                say("stuck")
                time.sleep(60)
            file.write((record.value or b"") + b"\n")
            os.fsync(file.fileno())
            time.sleep(0.001)  # a disk in memory is too fast for a commit to fall due
            say("done")


def copy(kafka: Kafka, source: str, group: str, target: str) -> None:
    """Copy a topic, a few records a transaction, with the offsets in it."""
    consumer = Consumer(kafka, group, [source], commit=False, options=_STAYS_MEMBER)
    producer = TransactionalProducer(kafka, group)
    while True:
        with producer.transaction(consumer=consumer):
            say("begun")
            for _ in range(10):
                if record := consumer.poll(0.1):
                    producer.send(target, record.value, record.key, partition=record.partition)
                    consumer.done(record)
            producer.flush()
            say("flushed")
        say("committed")


def say(word: str) -> None:
    print(word, flush=True)


if __name__ == "__main__":
    {"append": append, "copy": copy}[sys.argv[1]](Kafka(bootstrap=sys.argv[2]), *sys.argv[3:])
