"""The queries on Bytewax, by two workers in one process.

KafkaSink waits for the broker after each batch, so that batches are larger than those of the source by default.
"""

from __future__ import annotations

import csv
import sys
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path[0] = str(Path(__file__).parents[3])

import bytewax.operators as op
import bytewax.operators.windowing as win
import orjson
from bytewax.connectors.kafka import KafkaSink, KafkaSinkMessage, KafkaSource
from bytewax.dataflow import Dataflow
from bytewax.operators import StatefulBatchLogic
from bytewax.recovery import RecoveryConfig, init_db_dir
from bytewax.run import cli_main

from bench.peers.lines import serve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from bytewax.connectors.kafka import KafkaSourceMessage
    from bytewax.dataflow import Stream
    from bytewax.operators import KeyedStream

Row = dict[str, Any]
Job = dict[str, Any]
BATCH = 5000
WORKERS = 2
DELIVERY = {"linger.ms": 20, "batch.size": 512 << 10, "compression.type": "lz4", "enable.idempotence": True}
FETCHES = {"fetch.message.max.bytes": 8 << 20, "fetch.max.bytes": 64 << 20, "queued.max.messages.kbytes": 128 << 10}

ALIGNED = datetime(2026, 1, 1, tzinfo=UTC)
TEN = timedelta(seconds=10)
SLIDE = timedelta(seconds=2)
# The clock of a key is its newest row, of whatever partition, and partitions are read at their own pace: with four
# seconds rows of the slower ones would be left out. So windows wait for the end of the sources, which closes them all.
WAIT = timedelta(days=3650)


def taken(*columns: str) -> Callable[[Row], Row]:
    """Some columns of a row."""
    return lambda row: {name: row[name] for name in columns}


def made(rows: Stream[Any], make: Callable[[Row], Row | None]) -> Stream[Any]:
    """A message of each row that is made from another."""

    def batch(messages: list[KafkaSourceMessage[Any, Any]]) -> Iterable[KafkaSinkMessage[Any, Any]]:
        answers = [make(orjson.loads(one.value)) for one in messages]
        return [KafkaSinkMessage(None, orjson.dumps(one)) for one in answers if one is not None]

    return op.flat_map_batch("made", rows, batch)


def keyed(step: str, rows: Stream[Any], key: Callable[[Row], Any], value: Callable[[Row], Any]) -> KeyedStream[Any]:
    """Rows by a key, as little of them as the query needs."""

    def batch(messages: list[KafkaSourceMessage[Any, Any]]) -> Iterable[tuple[str, Any]]:
        read = [orjson.loads(one.value) for one in messages]
        return [(str(key(one)), value(one)) for one in read]

    return op.flat_map_batch(step, rows, batch)


def written(answers: KeyedStream[Any], make: Callable[[Any], Row] = lambda row: row) -> Stream[Any]:
    """Messages of the rows that are made of a keyed step's values."""
    return op.map("written", answers, lambda one: _message(one[0], make(one[1])))


def _message(key: str, row: Row) -> KafkaSinkMessage[Any, Any]:
    return KafkaSinkMessage(key.encode(), orjson.dumps(row))


def at(row: Row) -> datetime:
    """The time of a row."""
    return datetime.fromisoformat(row["dateTime"])


def clock(time_of: Callable[[Any], datetime]) -> win.EventClock[Any]:
    """Event time, of which no alarm is to be set: these days are past."""
    return win.EventClock(time_of, wait_for_system_duration=WAIT, to_system_utc=lambda _: None)


def q0(bids: Stream[Any], _: Job) -> Stream[Any]:
    """All as it came."""
    return made(bids, taken("auction", "bidder", "price", "dateTime", "extra"))


def q1(bids: Stream[Any], _: Job) -> Stream[Any]:
    """Prices in another currency."""
    return made(
        bids,
        lambda bid: {
            "auction": bid["auction"],
            "bidder": bid["bidder"],
            "price": 0.908 * bid["price"],
            "dateTime": bid["dateTime"],
            "extra": bid["extra"],
        },
    )


def q2(bids: Stream[Any], _: Job) -> Stream[Any]:
    """Some auctions."""
    some = taken("auction", "price")
    return made(bids, lambda bid: some(bid) if bid["auction"] % 123 == 0 else None)


def q5(bids: Stream[Any], _: Job) -> Stream[Any]:
    """The auctions with the most bids of ten seconds, every two seconds."""
    counts = win.fold_window(
        "counts",
        keyed("bids", bids, lambda bid: bid["auction"], at),
        clock(lambda time: time),
        win.SlidingWindower(length=TEN, offset=SLIDE, align_to=ALIGNED),
        builder=int,
        folder=lambda count, _: count + 1,
        merger=int.__add__,
        ordered=False,
    )
    most = win.fold_window(
        "most",
        op.map("windows", counts.down, lambda one: (str(one[1][0]), (one[1][1], one[0], one[1][0]))),
        clock(lambda one: ALIGNED + SLIDE * one[2]),
        win.TumblingWindower(length=SLIDE, align_to=ALIGNED),
        builder=list,
        folder=_more,
        merger=list.__add__,
        ordered=False,
    )
    return written(op.flat_map_value("each", most.down, lambda one: one[1]), _hot)


def _more(best: list[Any], one: tuple[Any, ...]) -> list[Any]:
    """The first of a tuple decides."""
    if best and one[0] < best[0][0]:
        return best
    return [*best, one] if best and one[0] == best[0][0] else [one]


def _hot(one: tuple[int, str, int]) -> Row:
    count, auction, window = one
    start = ALIGNED + SLIDE * window
    return {"auction": int(auction), "num": count, "starttime": start, "endtime": start + TEN}


def q7(bids: Stream[Any], _: Job) -> Stream[Any]:
    """The highest bids of ten seconds."""
    bid = taken("auction", "price", "bidder", "dateTime", "extra")
    highest = win.fold_window(
        "highest",
        keyed("bids", bids, lambda _: "all", lambda row: (row["price"], at(row), bid(row))),
        clock(lambda one: one[1]),
        win.TumblingWindower(length=TEN, align_to=ALIGNED),
        builder=list,
        folder=_more,
        merger=list.__add__,
        ordered=False,
    )
    return written(op.flat_map_value("each", highest.down, lambda one: one[1]), lambda one: one[2])


def q8(people: Stream[Any], auctions: Stream[Any]) -> Stream[Any]:
    """Who came and sold in the same ten seconds."""
    met = win.join_window(
        "met",
        clock(lambda one: one[0]),
        win.TumblingWindower(length=TEN, align_to=ALIGNED),
        keyed("people", people, lambda person: person["id"], lambda person: (at(person), person["name"])),
        keyed("sellers", auctions, lambda auction: auction["seller"], lambda auction: (at(auction),)),
        insert_mode="first",
        emit_mode="final",
        ordered=False,
    )
    both = op.filter_value("both", met.down, lambda one: None not in one[1])
    return op.map("written", both, _comer)


def _comer(one: tuple[str, Any]) -> KafkaSinkMessage[Any, Any]:
    key, (window, (person, _)) = one
    return _message(key, {"id": int(key), "name": person[1], "starttime": ALIGNED + TEN * window})


def q11(bids: Stream[Any], _: Job) -> Stream[Any]:
    """How often each bidder bid until ten seconds without."""
    sessions = win.fold_window(
        "sessions",
        keyed("bids", bids, lambda bid: bid["bidder"], lambda bid: (at(bid), bid["bidder"])),
        clock(lambda one: one[0]),
        win.SessionWindower(gap=TEN),
        builder=lambda: None,
        folder=lambda known, one: _joined(known, (1, one[0], one[0], one[1])),
        merger=_joined,
        ordered=False,
    )
    return written(op.map_value("each", sessions.down, lambda one: one[1]), _session)


Session = tuple[int, datetime, datetime, int]


def _joined(one: Session | None, other: Session) -> Session:
    return (one[0] + other[0], min(one[1], other[1]), max(one[2], other[2]), one[3]) if one else other


def _session(one: Session) -> Row:
    count, first, last, bidder = one
    return {"bidder": bidder, "bid_count": count, "starttime": first, "endtime": last + TEN}


def q13(bids: Stream[Any], job: Job) -> Stream[Any]:
    """With a value of the side table."""
    with Path(job["side"]).open(newline="") as file:
        values = {int(key): value for key, value in csv.reader(file)}
    return made(
        bids,
        lambda bid: {
            "auction": bid["auction"],
            "bidder": bid["bidder"],
            "price": bid["price"],
            "dateTime": bid["dateTime"],
            "value": values[bid["auction"] % 10_000],
        },
    )


def q14(bids: Stream[Any], _: Job) -> Stream[Any]:
    """Some calculations on dear bids."""

    def calculated(bid: Row) -> Row | None:
        if not 1_000_000 < (price := 0.908 * bid["price"]) < 50_000_000:
            return None
        return {
            "auction": bid["auction"],
            "bidder": bid["bidder"],
            "price": price,
            "bidTimeType": _part_of_day(at(bid).hour),
            "dateTime": bid["dateTime"],
            "extra": bid["extra"],
            "c_counts": bid["extra"].count("c"),
        }

    return made(bids, calculated)


def _part_of_day(hour: int) -> str:
    if 8 <= hour <= 18:
        return "dayTime"
    return "nightTime" if hour <= 6 or hour >= 20 else "otherTime"


class Figures(StatefulBatchLogic[Any, Row, dict[str, Any]]):
    """An auction's figures, day by day."""

    def __init__(self, known: dict[str, Any] | None) -> None:
        self.days = known or {}

    def on_batch(self, values: list[Any]) -> tuple[Iterable[Row], bool]:
        """One row of each day that the batch met."""
        for _, day, price in values:
            total, rank1, rank2, rank3, least, most, value = self.days.get(day, (0, 0, 0, 0, price, price, 0))
            self.days[day] = (
                total + 1,
                rank1 + (price < 10_000),
                rank2 + (10_000 <= price < 1_000_000),
                rank3 + (price >= 1_000_000),
                min(least, price),
                max(most, price),
                value + price,
            )
        auction = values[0][0]
        return [self._row(auction, day) for day in dict.fromkeys(one[1] for one in values)], StatefulBatchLogic.RETAIN

    def _row(self, auction: int, day: str) -> Row:
        total, rank1, rank2, rank3, least, most, value = self.days[day]
        return {
            "auction": auction,
            "day": day,
            "total_bids": total,
            "rank1_bids": rank1,
            "rank2_bids": rank2,
            "rank3_bids": rank3,
            "min_price": least,
            "max_price": most,
            "avg_price": value / total,
            "sum_price": value,
        }

    def snapshot(self) -> dict[str, Any]:
        """Tuples do not change, so that a shallow copy is enough."""
        return self.days.copy()


def q17(bids: Stream[Any], _: Job) -> Stream[Any]:
    """An auction's figures of the day, anew with each batch."""
    prices = keyed(
        "bids", bids, lambda bid: bid["auction"], lambda bid: (bid["auction"], bid["dateTime"][:10], bid["price"])
    )
    return written(op.stateful_batch("figures", prices, Figures))


class Latest(StatefulBatchLogic[Row, Row, str]):
    """The newest row of a key; its state is only the time."""

    def __init__(self, known: str | None) -> None:
        self.at = known or ""

    def on_batch(self, values: list[Row]) -> tuple[Iterable[Row], bool]:
        """The newest of the batch, if no newer one was met before."""
        newest = max(values, key=lambda row: row["dateTime"])
        if newest["dateTime"] <= self.at:
            return [], StatefulBatchLogic.RETAIN
        self.at = newest["dateTime"]
        return [newest], StatefulBatchLogic.RETAIN

    def snapshot(self) -> str:
        """A text does not change."""
        return self.at


def q18(bids: Stream[Any], _: Job) -> Stream[Any]:
    """The last bid of each bidder on each auction."""
    pairs = keyed("bids", bids, lambda bid: f"{bid['bidder']}/{bid['auction']}", lambda bid: bid)
    return written(op.stateful_batch("latest", pairs, Latest))


def q22(bids: Stream[Any], _: Job) -> Stream[Any]:
    """Parts of the address."""

    def parts(bid: Row) -> Row:
        _, _, _, dir1, dir2, dir3, *_ = bid["url"].split("/", 6)
        return {
            "auction": bid["auction"],
            "bidder": bid["bidder"],
            "price": bid["price"],
            "channel": bid["channel"],
            "dir1": dir1,
            "dir2": dir2,
            "dir3": dir3,
        }

    return made(bids, parts)


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


def flow_of(bootstrap: str, job: Job) -> Dataflow:
    """From the sources, which end where the topics do, to the sink."""
    flow = Dataflow(job["query"])
    tables = {
        name: op.input(name, flow, KafkaSource([bootstrap], [topic], tail=False, add_config=FETCHES, batch_size=BATCH))
        for name, topic in job["sources"].items()
    }
    if job["query"] == "q8":
        answer = q8(tables["person"], tables["auction"])
    else:
        answer = OF_BIDS[job["query"]](tables["bid"], job)
    op.output("sink", answer, KafkaSink([bootstrap], job["sink"], add_config=DELIVERY))
    return flow


def run(bootstrap: str, job: Job) -> None:
    """One dataflow with a recovery store."""
    if job["format"] != "json":
        raise ValueError("only JSON")
    init_db_dir(Path(job["folder"]), WORKERS)
    cli_main(
        flow_of(bootstrap, job),
        workers_per_process=WORKERS,
        epoch_interval=timedelta(seconds=10),
        recovery_config=RecoveryConfig(job["folder"]),
    )


if __name__ == "__main__":
    serve(version("bytewax"), [*OF_BIDS, "q8"], lambda job: run(sys.argv[1], job))
