"""What the queries must answer: the answer in a topic, and the same by DuckDB from the events themselves, as checksums.

A checksum is a count of rows and a sum over the rows' hashes, so that the order does not matter. Windows and times of
July, whose rows only close the windows before them, do not count.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["QUERIES", "Answer", "answer_in", "checksum", "expected"]

# What a row of each answer has; TIMES are instants, FLOATS are compared to the third decimal.
COLUMNS = {
    "q0": "auction bidder price dateTime extra",
    "q1": "auction bidder price dateTime extra",
    "q2": "auction price",
    "q5": "auction num starttime endtime",
    "q7": "auction price bidder dateTime extra",
    "q8": "id name starttime",
    "q11": "bidder bid_count starttime endtime",
    "q13": "auction bidder price dateTime value",
    "q14": "auction bidder price bidTimeType dateTime extra c_counts",
    "q17": "auction day total_bids rank1_bids rank2_bids rank3_bids min_price max_price avg_price sum_price",
    "q18": "auction bidder price channel url dateTime extra",
    "q22": "auction bidder price channel dir1 dir2 dir3",
    "keys": "bidder bids highest",
    "hops": "bids highest starttime endtime",
}
QUERIES = [query for query in COLUMNS if query.startswith("q")]  # Nexmark's; the others show how cost grows
KEYS = {"q17": ("auction", "day"), "q18": ("bidder", "auction"), "keys": ("bidder",)}  # the last row of a key counts
TIMES = {"dateTime", "starttime", "endtime"}
FLOATS = {("q1", "price"), ("q14", "price"), ("q17", "avg_price")}
END = 1_782_864_000_000

SQL = {
    "q0": "SELECT auction, bidder, price, dateTime, extra FROM bid",
    "q1": "SELECT auction, bidder, 0.908::DOUBLE * price AS price, dateTime, extra FROM bid",
    "q2": "SELECT auction, price FROM bid WHERE auction % 123 = 0",
    "q5": """
        WITH counts AS (
          SELECT auction, to_timestamp((epoch_ms(dateTime) // 2000 - slide) * 2) AS starttime, count(*) AS num
          FROM bid, range(5) AS slides(slide) GROUP BY ALL)
        SELECT auction, num, starttime, starttime + INTERVAL 10 SECOND AS endtime FROM counts
        QUALIFY num = max(num) OVER (PARTITION BY starttime)""",
    "q7": """
        SELECT auction, price, bidder, dateTime, extra FROM bid
        QUALIFY price = max(price) OVER (PARTITION BY epoch_ms(dateTime) // 10000)""",
    "q8": """
        SELECT DISTINCT person.id, name, to_timestamp(epoch_ms(person.dateTime) // 10000 * 10) AS starttime FROM person
        JOIN auction ON seller = person.id
          AND epoch_ms(person.dateTime) // 10000 = epoch_ms(auction.dateTime) // 10000""",
    "q11": """
        WITH marked AS (
          SELECT bidder, dateTime, coalesce(
            dateTime > lag(dateTime) OVER (PARTITION BY bidder ORDER BY dateTime) + INTERVAL 10 SECOND, true) AS begins
          FROM bid),
        numbered AS (
          SELECT *, sum(begins::INT) OVER (PARTITION BY bidder ORDER BY dateTime ROWS UNBOUNDED PRECEDING) AS session
          FROM marked)
        SELECT bidder, count(*) AS bid_count, min(dateTime) AS starttime, max(dateTime) + INTERVAL 10 SECOND AS endtime
        FROM numbered GROUP BY bidder, session""",
    "q13": """
        SELECT auction, bidder, price, dateTime, 'value-' || (auction % 10000) AS value FROM bid""",
    "q14": """
        SELECT auction, bidder, 0.908::DOUBLE * price AS price,
          CASE WHEN hour(dateTime) BETWEEN 8 AND 18 THEN 'dayTime'
               WHEN hour(dateTime) <= 6 OR hour(dateTime) >= 20 THEN 'nightTime' ELSE 'otherTime' END AS bidTimeType,
          dateTime, extra, length(extra) - length(replace(extra, 'c', '')) AS c_counts
        FROM bid WHERE 0.908::DOUBLE * price > 1000000 AND 0.908::DOUBLE * price < 50000000""",
    "q17": """
        SELECT auction, strftime(dateTime, '%Y-%m-%d') AS day, count(*) AS total_bids,
          count(*) FILTER (price < 10000) AS rank1_bids,
          count(*) FILTER (price >= 10000 AND price < 1000000) AS rank2_bids,
          count(*) FILTER (price >= 1000000) AS rank3_bids,
          min(price) AS min_price, max(price) AS max_price, avg(price) AS avg_price, sum(price)::BIGINT AS sum_price
        FROM bid GROUP BY auction, day""",
    "q18": """
        SELECT * FROM bid QUALIFY row_number() OVER (PARTITION BY bidder, auction ORDER BY dateTime DESC) = 1""",
    "q22": """
        SELECT auction, bidder, price, channel, split_part(url, '/', 4) AS dir1, split_part(url, '/', 5) AS dir2,
          split_part(url, '/', 6) AS dir3 FROM bid""",
    "keys": """
        SELECT bidder, count(*) AS bids, max(price) AS highest FROM bid WHERE dateTime < '2026-07-01'
        GROUP BY bidder""",
    "hops": """
        SELECT count(*) AS bids, max(price) AS highest,
          to_timestamp((epoch_ms(dateTime) // {every_ms} - hop) * {every_ms} / 1000) AS starttime,
          starttime + INTERVAL 10 SECOND AS endtime
        FROM bid, range(10000 // {every_ms}) AS hops(hop) GROUP BY starttime""",
}


@dataclass(frozen=True)
class Answer:
    """How many rows, and the sum of their hashes."""

    rows: int
    sum: str


def checksum(query: str, rows: Iterable[dict[str, Any]]) -> Answer:
    """Of the rows of an answer, whose times are instants in milliseconds or text."""
    columns = COLUMNS[query].split()
    keys = KEYS.get(query)
    latest: dict[Any, str] = {}
    count, total = 0, 0
    for row in rows:
        times = {name: _instant(row[name]) for name in TIMES.intersection(columns)}
        key = tuple(row[name] for name in keys) if keys else ()
        if any(one >= END for one in times.values()) or str(row.get("day", "")) >= "2026-07":
            latest.pop(key, None)  # it took the place of a row that counted
            continue
        text = "|".join(_shown(query, name, times.get(name, row[name])) for name in columns)
        if keys:
            latest[key] = text
        else:
            count, total = count + 1, total + _hash(text)
    for text in latest.values():
        count, total = count + 1, total + _hash(text)
    return Answer(count, f"{total % (1 << 64):016x}")


def answer_in(query: str, bootstrap: str, topic: str) -> Answer:
    """The answer that a topic holds, as a reader of what is committed sees it."""
    return checksum(query, (json.loads(value) for value in _values(bootstrap, topic) if value))


def expected(query: str, tables: dict[str, Any], every_ms: int | None = None) -> Answer:
    """The answer by DuckDB, from Arrow tables of the events."""
    import duckdb

    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        for name, rows in tables.items():
            database.register(name, rows)
        found = database.execute(SQL[query].replace("{every_ms}", str(every_ms)))
        names = [one[0] for one in found.description]

        def rows() -> Iterator[dict[str, Any]]:
            while some := found.fetchmany(50_000):
                for one in some:
                    yield dict(zip(names, one, strict=True))

        return checksum(query, rows())


def _values(bootstrap: str, topic: str) -> Iterator[bytes]:
    options = {"bootstrap.servers": bootstrap, "group.id": "answers", "isolation.level": "read_committed"}
    client = Consumer({**options, "enable.auto.commit": False, "enable.partition.eof": True, "fetch.wait.max.ms": 20})
    parts = client.list_topics(topic, timeout=10).topics[topic].partitions
    client.assign([TopicPartition(topic, part, 0) for part in parts])
    left = len(parts)
    while left:
        for message in client.consume(20_000, 1.0):
            if message.error() is not None:
                left -= 1  # the end of a partition
            else:
                yield message.value() or b""
    client.close()


def _instant(value: Any) -> int:
    if isinstance(value, int):
        return value
    at = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)


def _shown(query: str, name: str, value: Any) -> str:
    return f"{float(value):.3f}" if (query, name) in FLOATS else str(value)


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())
