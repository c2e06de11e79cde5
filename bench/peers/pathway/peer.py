"""The queries on Pathway, by two threads.

Persistence keeps the rows that were read; to keep the state of operators needs a licence.
"""

from __future__ import annotations

import csv
import json
import os
import sys
import time
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path[0] = str(Path(__file__).parents[3])
os.environ["PATHWAY_THREADS"] = "2"

import pathway as pw
from pathway.internals.parse_graph import G

from bench.peers.lines import serve

Job = dict[str, Any]
DELIVERY = {"linger.ms": "20", "batch.size": str(512 << 10), "compression.type": "lz4"}
FETCHES = {
    "auto.offset.reset": "earliest",
    "fetch.message.max.bytes": str(8 << 20),
    "fetch.max.bytes": str(64 << 20),
    "queued.max.messages.kbytes": str(128 << 10),
}
TEN = timedelta(seconds=10)
SLIDE = timedelta(seconds=2)
FORM = "%Y-%m-%dT%H:%M:%S.%fZ"


class Bid(pw.Schema):
    """A bid."""

    auction: int
    bidder: int
    price: int
    channel: str
    url: str
    dateTime: str  # noqa: N815
    extra: str


class Person(pw.Schema):
    """A person, as much as a query needs; no column may have the name id."""

    number: int
    name: str
    dateTime: str  # noqa: N815


class Auction(pw.Schema):
    """An auction, as much as a query needs."""

    seller: int
    dateTime: str  # noqa: N815


class Side(pw.Schema):
    """A row of the side table."""

    key: int
    value: str


# Tables change: in more than one batch these would write rows and take them back later, and a window that waits instead
# drops rows of a slower partition, since its time is the largest of all. So all rows up to the end are one batch.
AT_ONCE = {"q5", "q7", "q11", "q17", "q18"}
SCHEMAS = {"bid": Bid, "person": Person, "auction": Auction}
PATHS = {"person": {"number": "/id"}}


def q0(bids: pw.Table, _: Job) -> pw.Table:
    """All as it came."""
    return bids[["auction", "bidder", "price", "dateTime", "extra"]]


def q1(bids: pw.Table, _: Job) -> pw.Table:
    """Prices in another currency."""
    return q0(bids, _).with_columns(price=0.908 * pw.this.price)


def q2(bids: pw.Table, _: Job) -> pw.Table:
    """Some auctions."""
    return bids.filter(pw.this.auction % 123 == 0)[["auction", "price"]]


def q5(bids: pw.Table, _: Job) -> pw.Table:
    """The auctions with the most bids of ten seconds, every two seconds."""
    times = bids.select(pw.this.auction, at=pw.this.dateTime.dt.strptime(FORM))
    counts = times.windowby(
        times.at, window=pw.temporal.sliding(hop=SLIDE, duration=TEN), instance=times.auction
    ).reduce(
        auction=pw.this._pw_instance,
        starttime=pw.this._pw_window_start,
        endtime=pw.this._pw_window_end,
        num=pw.reducers.count(),
    )
    most = counts.groupby(counts.starttime).reduce(counts.starttime, num=pw.reducers.max(counts.num))
    return counts.join(most, counts.starttime == most.starttime, counts.num == most.num).select(*pw.left)


def q7(bids: pw.Table, _: Job) -> pw.Table:
    """The highest bids of ten seconds."""
    timed = bids.with_columns(start=pw.this.dateTime.dt.strptime(FORM).dt.floor(TEN))
    highest = timed.groupby(timed.start).reduce(timed.start, price=pw.reducers.max(timed.price))
    both = timed.join(highest, timed.start == highest.start, timed.price == highest.price)
    return both.select(*[timed[name] for name in ("auction", "price", "bidder", "dateTime", "extra")])


def q8(people: pw.Table, auctions: pw.Table) -> pw.Table:
    """Who came and sold in the same ten seconds, as text, because of the column's name."""
    comers = people.select(pw.this.number, pw.this.name, at=pw.this.dateTime.dt.strptime(FORM))
    sellers = auctions.select(pw.this.seller, at=pw.this.dateTime.dt.strptime(FORM))
    met = pw.temporal.window_join(
        comers, sellers, comers.at, sellers.at, pw.temporal.tumbling(TEN), comers.number == sellers.seller
    ).select(comers.number, comers.name, start=pw.this._pw_window_start)
    once = met.groupby(*met).reduce(*met)
    return once.select(text=_comer(once.number, once.name, once.start.dt.strftime("%Y-%m-%dT%H:%M:%S")))


@pw.udf(deterministic=True)
def _comer(number: int, name: str, start: str) -> str:
    return json.dumps({"id": number, "name": name, "starttime": start})


def q11(bids: pw.Table, _: Job) -> pw.Table:
    """How often each bidder bid until ten seconds without."""
    times = bids.select(pw.this.bidder, at=pw.this.dateTime.dt.strptime(FORM))
    within = pw.temporal.session(max_gap=TEN + timedelta(milliseconds=1))  # a gap must be less than that
    sessions = times.windowby(times.at, window=within, instance=times.bidder)
    return sessions.reduce(
        bidder=pw.this._pw_instance,
        bid_count=pw.reducers.count(),
        starttime=pw.reducers.min(pw.this.at),
        endtime=pw.reducers.max(pw.this.at) + TEN,
    )


def q13(bids: pw.Table, job: Job) -> pw.Table:
    """With a value of the side table."""
    with Path(job["side"]).open(newline="") as file:  # which has no header, as io.csv needs one
        side = pw.debug.table_from_rows(Side, [(int(key), value) for key, value in csv.reader(file)])
    keyed = bids.with_columns(key=pw.this.auction % 10_000)
    return keyed.join(side, keyed.key == side.key).select(
        keyed.auction, keyed.bidder, keyed.price, keyed.dateTime, side.value
    )


def q14(bids: pw.Table, _: Job) -> pw.Table:
    """Some calculations on dear bids."""
    dear = q1(bids, _).filter((pw.this.price > 1_000_000) & (pw.this.price < 50_000_000))
    hour = dear.dateTime.dt.strptime(FORM).dt.hour()
    night = pw.if_else((hour <= 6) | (hour >= 20), "nightTime", "otherTime")
    return dear.with_columns(
        bidTimeType=pw.if_else((hour >= 8) & (hour <= 18), "dayTime", night),
        c_counts=pw.this.extra.str.count("c"),
    )


def q17(bids: pw.Table, _: Job) -> pw.Table:
    """An auction's figures of the day."""
    price = pw.this.price
    ranked = bids.select(
        pw.this.auction,
        price,
        day=pw.this.dateTime.str.slice(0, 10),
        rank1=pw.cast(int, price < 10_000),
        rank2=pw.cast(int, (price >= 10_000) & (price < 1_000_000)),
        rank3=pw.cast(int, price >= 1_000_000),
    )
    return ranked.groupby(pw.this.auction, pw.this.day).reduce(
        pw.this.auction,
        pw.this.day,
        total_bids=pw.reducers.count(),
        rank1_bids=pw.reducers.sum(pw.this.rank1),
        rank2_bids=pw.reducers.sum(pw.this.rank2),
        rank3_bids=pw.reducers.sum(pw.this.rank3),
        min_price=pw.reducers.min(price),
        max_price=pw.reducers.max(price),
        avg_price=pw.reducers.avg(price),
        sum_price=pw.reducers.sum(price),
    )


def q18(bids: pw.Table, _: Job) -> pw.Table:
    """The last bid of each bidder on each auction."""
    last = bids.groupby(bids.bidder, bids.auction).reduce(row=pw.reducers.argmax(bids.dateTime))
    return last.select(*bids.ix(last.row, context=last))


def q22(bids: pw.Table, _: Job) -> pw.Table:
    """Parts of the address."""
    parts = bids.select(pw.this.auction, pw.this.bidder, pw.this.price, pw.this.channel, parts=_parts(pw.this.url))
    return parts.select(
        *parts.without(parts.parts), dir1=pw.this.parts[0], dir2=pw.this.parts[1], dir3=pw.this.parts[2]
    )


@pw.udf(deterministic=True)
def _parts(url: str) -> tuple[str, str, str]:
    _, _, _, dir1, dir2, dir3, *_ = url.split("/", 6)
    return dir1, dir2, dir3


OF_BIDS = {
    "q0": q0,
    "q1": q1,
    "q2": q2,
    "q5": q5,
    "q7": q7,
    "q11": q11,
    "q13": q13,
    "q14": q14,
    "q17": q17,
    "q18": q18,
    "q22": q22,
}


def run(bootstrap: str, job: Job) -> None:
    """One graph, from the sources to the sink."""
    if job["format"] != "json":
        raise ValueError("only JSON")
    G.clear()
    brokers = {"bootstrap.servers": bootstrap}
    group = {"group.id": f"pathway-{job['sink']}-{time.time_ns()}"}
    tables = {
        name: pw.io.kafka.read(
            brokers | group | FETCHES,
            topic,
            schema=SCHEMAS[name],
            format="json",
            mode="static",
            autocommit_duration_ms=None if job["query"] in AT_ONCE else 1500,
            json_field_paths=PATHS.get(name),
            name=name,
        )
        for name, topic in job["sources"].items()
    }
    if job["query"] == "q8":
        answer = q8(tables["person"], tables["auction"])
    else:
        answer = OF_BIDS[job["query"]](tables["bid"], job)
    form = "plaintext" if job["query"] == "q8" else "json"
    pw.io.kafka.write(answer, brokers | DELIVERY, job["sink"], format=form)
    kept = pw.persistence.Config(pw.persistence.Backend.filesystem(job["folder"]), snapshot_interval_ms=10_000)
    pw.run(monitoring_level=pw.MonitoringLevel.NONE, persistence_config=kept)


if __name__ == "__main__":
    serve(version("pathway"), [*OF_BIDS, "q8"], lambda job: run(sys.argv[1], job))
