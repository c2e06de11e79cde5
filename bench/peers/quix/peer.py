"""The queries on Quix Streams, in one process: its way to use more is to start it again in the same consumer group.

Left out are q5, q7 and q11. A window closes by the largest time of its key, or of its partition, in the repartition
topic, to which all partitions of the source write, and does not wait for the slowest of them: the first last row that
comes closes windows whose rows another partition still holds. And where none comes the windows stay open.
"""

from __future__ import annotations

import csv
import sys
import time
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path[0] = str(Path(__file__).parents[3])

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from quixstreams import Application

from bench.peers.lines import serve

if TYPE_CHECKING:
    from collections.abc import Callable

    from quixstreams import State
    from quixstreams.dataframe import StreamingDataFrame

Row = dict[str, Any]
Job = dict[str, Any]
DELIVERY = {
    "linger.ms": 20,
    "batch.size": 512 << 10,
    "compression.type": "lz4",
    "queue.buffering.max.kbytes": 256 << 10,
}
FETCHES = {"fetch.message.max.bytes": 8 << 20, "fetch.max.bytes": 64 << 20, "queued.max.messages.kbytes": 128 << 10}


def taken(*columns: str) -> Callable[[Row], Row]:
    """Some columns of a row."""
    return lambda row: {name: row[name] for name in columns}


def q0(bids: StreamingDataFrame, _: Job) -> StreamingDataFrame:
    """All as it came."""
    return bids.apply(taken("auction", "bidder", "price", "dateTime", "extra"))


def q1(bids: StreamingDataFrame, _: Job) -> StreamingDataFrame:
    """Prices in another currency."""
    return bids.apply(
        lambda bid: {
            "auction": bid["auction"],
            "bidder": bid["bidder"],
            "price": 0.908 * bid["price"],
            "dateTime": bid["dateTime"],
            "extra": bid["extra"],
        }
    )


def q2(bids: StreamingDataFrame, _: Job) -> StreamingDataFrame:
    """Some auctions."""
    return bids.filter(lambda bid: bid["auction"] % 123 == 0).apply(taken("auction", "price"))


def q8(people: StreamingDataFrame, auctions: StreamingDataFrame) -> StreamingDataFrame:
    """Who came and sold in the same ten seconds; join_interval would miss an auction that is read before its seller."""
    comers = people.apply(taken("id", "name", "dateTime")).group_by("id")
    sellers = auctions.apply(taken("seller", "dateTime")).group_by("seller")
    return comers.concat(sellers).apply(_met, stateful=True).filter(lambda one: one is not None)


def _met(row: Row, state: State) -> Row | None:
    start = int(datetime.fromisoformat(row["dateTime"]).timestamp()) // 10 * 10_000
    side, known = "sold" if "seller" in row else "came", state.get(str(start), {})
    if side in known:
        return None
    state.set(str(start), known := known | {side: row})
    return {**taken("id", "name")(known["came"]), "starttime": start} if len(known) == 2 else None


def q13(bids: StreamingDataFrame, job: Job) -> StreamingDataFrame:
    """With a value of the side table."""
    with Path(job["side"]).open(newline="") as file:
        values = {int(key): value for key, value in csv.reader(file)}
    return bids.apply(
        lambda bid: {
            "auction": bid["auction"],
            "bidder": bid["bidder"],
            "price": bid["price"],
            "dateTime": bid["dateTime"],
            "value": values[bid["auction"] % 10_000],
        }
    )


def q14(bids: StreamingDataFrame, _: Job) -> StreamingDataFrame:
    """Some calculations on dear bids."""
    return bids.filter(lambda bid: 1_000_000 < 0.908 * bid["price"] < 50_000_000).apply(
        lambda bid: {
            "auction": bid["auction"],
            "bidder": bid["bidder"],
            "price": 0.908 * bid["price"],
            "bidTimeType": _part_of_day(datetime.fromisoformat(bid["dateTime"]).hour),
            "dateTime": bid["dateTime"],
            "extra": bid["extra"],
            "c_counts": bid["extra"].count("c"),
        }
    )


def _part_of_day(hour: int) -> str:
    if 8 <= hour <= 18:
        return "dayTime"
    return "nightTime" if hour <= 6 or hour >= 20 else "otherTime"


def q17(bids: StreamingDataFrame, _: Job) -> StreamingDataFrame:
    """An auction's figures of the day, anew with each bid."""
    return bids.apply(taken("auction", "price", "dateTime")).group_by("auction").apply(_counted, stateful=True)


def _counted(bid: Row, state: State) -> Row:
    price, day = bid["price"], bid["dateTime"][:10]
    total, rank1, rank2, rank3, least, most, value = state.get(day) or (0, 0, 0, 0, price, price, 0)
    if price < 10_000:
        rank1 += 1
    elif price < 1_000_000:
        rank2 += 1
    else:
        rank3 += 1
    total, least, most, value = total + 1, min(least, price), max(most, price), value + price
    state.set(day, (total, rank1, rank2, rank3, least, most, value))
    return {
        "auction": bid["auction"],
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


def q18(bids: StreamingDataFrame, _: Job) -> StreamingDataFrame:
    """The last bid of each bidder on each auction."""
    return bids.group_by(lambda bid: f"{bid['bidder']}/{bid['auction']}", name="pair").filter(_newer, stateful=True)


def _newer(bid: Row, state: State) -> bool:
    at = bid["dateTime"]
    if at <= state.get("at", ""):
        return False
    state.set("at", at)
    return True


def q22(bids: StreamingDataFrame, _: Job) -> StreamingDataFrame:
    """Parts of the address."""

    def parts(bid: Row) -> Row:
        _, _, _, dir1, dir2, dir3, *_ = bid["url"].split("/", 6)
        made = {name: bid[name] for name in ("auction", "bidder", "price", "channel")}
        return made | {"dir1": dir1, "dir2": dir2, "dir3": dir3}

    return bids.apply(parts)


OF_BIDS = {"q0": q0, "q1": q1, "q2": q2, "q13": q13, "q14": q14, "q17": q17, "q18": q18, "q22": q22}
GROUPED = {"q8", "q17", "q18"}  # their rows pass through a repartition topic and are counted twice


def run(bootstrap: str, job: Job) -> float:
    """The seconds of one application until it has met all rows; afterwards its topics and its group go."""
    began = time.perf_counter()
    if job["format"] != "json":
        raise ValueError("only JSON")
    group = f"quix-{job['sink']}-{time.time_ns()}"
    left = _held(bootstrap, job["sources"].values()) * (2 if job["query"] in GROUPED else 1)

    def met(_topic: str, _partition: int, _offset: int) -> None:
        nonlocal left
        left -= 1
        if not left:
            application.stop()

    application = Application(
        bootstrap,
        consumer_group=group,
        auto_offset_reset="earliest",
        commit_interval=10.0,
        consumer_extra_config=FETCHES,
        producer_extra_config=DELIVERY,
        state_dir=Path(job["folder"]) / "state",
        on_message_processed=met,
        consumer_poll_timeout=0.05,  # two streams at once are read in batches that wait so long for more rows
        loglevel="WARNING",
    )
    tables = {name: application.dataframe(application.topic(topic)) for name, topic in job["sources"].items()}
    if job["query"] == "q8":
        answer = q8(tables["person"], tables["auction"])
    else:
        answer = OF_BIDS[job["query"]](tables["bid"], job)
    answer.to_topic(application.topic(job["sink"], key_serializer="json" if job["query"] in GROUPED else "bytes"))
    application.run()
    took = time.perf_counter() - began
    _forget(bootstrap, group)
    return took


def _held(bootstrap: str, topics: Any) -> int:
    """How many rows the topics hold."""
    client = Consumer({"bootstrap.servers": bootstrap, "group.id": "quix-ends"})
    try:
        parts = [
            TopicPartition(topic, part)
            for topic in topics
            for part in client.list_topics(topic, timeout=10).topics[topic].partitions
        ]
        ends = [client.get_watermark_offsets(part, timeout=10) for part in parts]
        return sum(high - low for low, high in ends)
    finally:
        client.close()


def _forget(bootstrap: str, group: str) -> None:
    client = AdminClient({"bootstrap.servers": bootstrap})
    if topics := [name for name in client.list_topics(timeout=10).topics if group in name]:
        for done in client.delete_topics(topics).values():
            done.result()
    for done in client.delete_consumer_groups([group]).values():
        done.result()


if __name__ == "__main__":
    serve(version("quixstreams"), ["q8", *OF_BIDS], lambda job: run(sys.argv[1], job))
