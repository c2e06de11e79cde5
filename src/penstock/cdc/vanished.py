"""Rows that went while nobody captured: before a new snapshot, their keys are told of as deleted.

The connector is stopped meanwhile, so whatever comes back with the snapshot or after it comes later in the topic.
"""

from __future__ import annotations

import base64
import json
import time
from datetime import UTC, date, datetime
from datetime import time as clock
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from penstock.broker.producer import Producer
from penstock.broker.replay import fold

if TYPE_CHECKING:
    from penstock.broker.record import Record
    from penstock.cdc.capture import Capture, Table
    from penstock.cdc.columns import Column
    from penstock.cdc.database import SourceDatabase
    from penstock.settings import Settings

__all__ = ["tell_of_vanished"]


def tell_of_vanished(capture: Capture, database: SourceDatabase, settings: Settings) -> int:
    """Write a delete for every row that the topics have and the database has not; return how many."""
    return sum(_of_table(capture, table, database, settings) for table in capture.tables)


def _of_table(capture: Capture, table: Table, database: SourceDatabase, settings: Settings) -> int:
    topic = capture.topic(table)
    keys = [one for one in database.columns(table) if one.key]
    there = {tuple(map(_written, keys, row)) for row in database.keys(table, keys)}
    now = time.time_ns() // 1000
    source = {**database.position(), "ts_us": now}
    gone = 0
    with Producer(settings.kafka) as producer:
        for key, record in fold(settings.kafka, topic).items():
            named = json.loads(key)
            if not _is_there(record) or tuple(named.get(one.name) for one in keys) in there:
                continue
            told = {"before": named, "after": None, "source": source, "op": "d", "ts_us": now}
            producer.send(topic, told, key)
            producer.send(topic, None, key)
            gone += 1
    return gone


def _is_there(record: Record) -> bool:
    return record.value is not None and record.json()["op"] != "d"


def _written(column: Column, value: Any) -> Any:
    """A value of a key as Debezium writes it."""
    if column.written == "days" and isinstance(value, date):
        return (value - date(1970, 1, 1)).days
    if isinstance(value, datetime):
        if column.written == "microseconds":
            return round((value.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1_000_000)
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    if isinstance(value, clock):
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, bool | int | float | str):
        return value
    return str(value) if not isinstance(value, Decimal) else format(value, "f")
