"""Polling records one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.conftest import wait_until

if TYPE_CHECKING:
    from penstock.broker import Consumer
    from penstock.broker.record import Record


def polled(consumer: Consumer, count: int) -> list[Record]:
    """Poll so many records."""
    taken: list[Record] = []

    def enough() -> bool:
        taken.extend(filter(None, [consumer.poll(0.2)]))
        return len(taken) >= count

    wait_until(enough, 30, "records")
    return taken
