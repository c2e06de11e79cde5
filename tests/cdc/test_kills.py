"""Connect is killed in the middle of a snapshot and of a transaction: no row is missing."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from penstock.broker import Topics, read
from penstock.local.progress import Silent
from tests.conftest import wait_until

if TYPE_CHECKING:
    from penstock.cdc import Captures
    from tests.cdc.conftest import Shop

_ROWS = 100_000


def killed_within(shop: Shop) -> None:
    """Kill Connect while rows arrive, and start it again."""
    topics, platform = Topics(shop.settings.kafka), shop.platform
    before = sum(topics.end_offsets(shop.topic()).values())
    wait_until(lambda: sum(topics.end_offsets(shop.topic()).values()) > before + 2000, 60, "rows arrive")
    os.kill(platform.processes()["connect"].pid, signal.SIGKILL)
    wait_until(lambda: "connect" not in platform.processes())
    assert len(keys(shop)) < before + _ROWS
    platform.stack.up(("connect",), Silent())


def keys(shop: Shop) -> set[bytes | None]:
    """The keys that a read_committed reader has seen."""
    return {one.key for one in read(shop.settings.kafka, shop.topic())}


def test_no_row_is_missing(shop: Shop, captures: Captures) -> None:
    shop.sql(f"INSERT INTO customers SELECT i, 'name ' || i, repeat('x', 50) FROM generate_series(1, {_ROWS}) i")
    captures.create(shop.capture)
    killed_within(shop)
    wait_until(lambda: len(keys(shop)) == _ROWS, 120, "the snapshot is whole")
    shop.sql(f"INSERT INTO customers SELECT -i, 'name ' || i, NULL FROM generate_series(1, {_ROWS}) i")
    killed_within(shop)
    wait_until(lambda: len(keys(shop)) == 2 * _ROWS, 120, "the transaction is whole")
