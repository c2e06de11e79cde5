"""Where the queries read and write: topics in JSON, or with NEXMARK_FORMAT=avro in Avro with a registry."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import penstock as ps

if TYPE_CHECKING:
    from penstock.pipeline.declare import Flow

__all__ = ["answer", "read"]

COLUMNS = {
    "person": "id LONG, name STRING, emailAddress STRING, creditCard STRING, city STRING, state STRING,"
    " dateTime TIMESTAMP, extra STRING",
    "auction": "id LONG, itemName STRING, description STRING, initialBid LONG, reserve LONG, dateTime TIMESTAMP,"
    " expires TIMESTAMP, seller LONG, category LONG, extra STRING",
    "bid": "auction LONG, bidder LONG, price LONG, channel STRING, url STRING, dateTime TIMESTAMP, extra STRING",
}


def read(pipeline: ps.Pipeline, *tables: str, timed: bool = False) -> None:
    """Declare tables as sources, whose rows may be four seconds out of order if their time matters."""
    form = os.environ.get("NEXMARK_FORMAT", "json")
    for name in tables:
        topic = os.environ.get(f"NEXMARK_{name.upper()}", f"nexmark-{name}-{form}")
        source = ps.Kafka(topic, format=ps.Avro() if form == "avro" else ps.Json(COLUMNS[name]))
        pipeline.source(name, source, time=ps.EventTime("dateTime", delay="4 seconds") if timed else None)


def answer(pipeline: ps.Pipeline, flow: Flow, key: str | None = None) -> None:
    """Write a flow to the topic of the query, delivered at least once as on the engines that we are compared to."""
    topic = os.environ.get("NEXMARK_ANSWER", pipeline.name)
    pipeline.sink(flow, ps.Kafka(topic, key=key), guarantee=os.environ.get("NEXMARK_GUARANTEE", "at-least-once"))
