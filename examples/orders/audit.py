"""Does every derived system equal the source? All of it computed once more, in plain Python, row for row.

The source is what lies in the topics `orders`, `payments`, `impressions` and `clicks` and in the shop's own tables.
Each row of a topic must be where it belongs: in the derived systems, or a dead letter, with its cause, once. Which rows
came too late hangs on how the pipeline's batches fell: it is taken at its word where a row was more than the declared
delay behind others that came before it, and nowhere else.
"""

from __future__ import annotations

import io
import json
from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import fastavro
import httpx
import psycopg
from events import ORDER, PAYMENT
from psycopg.rows import dict_row
from psycopg.sql import SQL, Composed, Identifier

from penstock.broker import Topics, read
from penstock.connectors.iceberg_writer import open_catalog
from penstock.pipeline.state import PipelineState

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence

    from penstock.settings import Settings

Place = tuple[str, int, int]  # topic, partition, offset
TIMES = {"orders": "ordered_at", "payments": "paid_at", "impressions": "shown_at", "clicks": "clicked_at"}
HOUR, STEP = timedelta(hours=1), timedelta(minutes=5)
DELAY = timedelta(minutes=2)  # of the sources of orders.py
AT_ONCE = timedelta(seconds=2)  # within which rows of several partitions may come in any order
RULES: dict[str, dict[str, Callable[[dict[str, Any]], bool]]] = {
    "orders": {
        "positive amount": lambda row: row["amount"] > 0,
        "known currency": lambda row: row["currency"] in ("EUR", "USD"),
    },
    "payments": {"positive amount": lambda row: row["amount"] > 0, "a card": lambda row: row["card"] is not None},
}
STRANGERS = 0.05  # the share of orders, at most, whose customer is not there yet or no more


@dataclass(frozen=True)
class Row:
    """A row of a topic, or None where the bytes are none."""

    place: Place
    came: datetime
    value: dict[str, Any] | None


@dataclass
class Check:
    """What one derived system should have and has."""

    system: str
    expected: int
    missing: int = 0
    extra: int = 0
    examples: list[str] = field(default_factory=list)

    @property
    def equal(self) -> bool:
        """Whether it has exactly that."""
        return not self.missing and not self.extra


class Audit:
    """One look at everything."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._state = PipelineState(settings.home, "orders")
        self._letters = self._read_letters()

    def checks(self) -> Iterator[Check]:
        """Every derived system, compared row for row."""
        orders = self._rows("orders", _avro(ORDER))
        payments = self._rows("payments", _avro(PAYMENT))
        shown = self._rows("impressions", _json_with("shown_at"))
        clicks = self._rows("clicks", _json_with("clicked_at"))
        bad = [
            (one.place, cause) for rows in (orders, payments, shown, clicks) for one in rows if (cause := _cause(one))
        ]
        found = [(_place(one), one["rule"]) for one in self._letters if one["rule"] != "late"]
        yield _compared("dead letters", Counter(bad), Counter(found))
        yield self._late_rows(orders, payments, shown, clicks)
        valid, paid = ([one for one in rows if not _cause(one)] for rows in (orders, payments))
        yield from self._orders(valid)
        yield self._metrics(valid)
        columns = tuple(one["name"] for one in PAYMENT["fields"])
        once = Counter({tuple(one[name] for name in columns) for one in _values(paid)})
        yield _compared("Iceberg lake.payments", once, Counter(self._lake("lake.payments", columns)))
        yield self._fraud(paid)
        yield self._failing(paid)
        yield self._clicked(shown, clicks)
        for name, key in (("customers", "customer_id"), ("products", "product_id")):
            yield self._mirrored(name, key)

    def _late_rows(self, *topics: list[Row]) -> Check:
        """Once for each flow that they missed, and only rows that were behind those which came before them."""
        able = {place for rows in topics for place in _behind(rows)}
        found = Counter((_place(one), one["stage"]) for one in self._letters if one["rule"] == "late")
        return _compared("late rows", Counter(one for one in found if one[0] in able), found)

    def _orders(self, valid: list[Row]) -> Iterator[Check]:
        """The orders with their customer and product, in a version that there was; hardly any of them without."""
        names = tuple(one["name"] for one in ORDER["fields"])
        expected = Counter({tuple(one[name] for name in names) for one in _values(valid)})
        who = self._versions("shop.shop.customers", "customer_id", ("name", "tier"))
        what = self._versions("shop.shop.products", "product_id", ("title", "category"))

        def compared(system: str, rows: list[dict[str, Any]]) -> Check:
            strangers = sum(None in (row.get("name"), row.get("title")) for row in rows) > STRANGERS * len(rows)

            def checked(row: dict[str, Any]) -> tuple[Any, ...]:
                customer, product = (row.get("name"), row.get("tier")), (row.get("title"), row.get("category"))
                known = customer in who[row["customer_id"]] and product in what[row["product_id"]]
                if not known or (strangers and None in customer + product):
                    return (row["order_id"], "nobody's row")
                return tuple(row[name] for name in names)

            return _compared(system, expected, Counter(map(checked, rows)))

        wanted = (*names, "name", "tier", "title", "category")
        yield compared("PostgreSQL reports.orders", self._reported(wanted))
        in_lake = [dict(zip(wanted, row, strict=True)) for row in self._lake("lake.orders", wanted)]
        yield compared("Iceberg lake.orders", in_lake)
        searched = [
            row | {"amount": Decimal(f"{row['amount']:.2f}"), "ordered_at": _time(row["ordered_at"])}
            for row in self._documents("orders")
        ]
        yield compared("OpenSearch orders", searched)

    def _metrics(self, valid: list[Row]) -> Check:
        """Windows that are over; each order once, unless every copy of it came too late."""
        over, on_time = self._watermark("order_metrics"), self._on_time(valid, "order_metrics")
        orders = {one["order_id"]: one for one in _values(on_time)}
        totals: dict[tuple[datetime, int], list[Any]] = defaultdict(lambda: [0, 0])
        for one in orders.values():
            start = _floor(one["ordered_at"])
            while start > one["ordered_at"] - HOUR:
                total = totals[(start, one["customer_id"])]
                total[0] += 1
                total[1] += one["amount"]
                start -= STEP
        expected = Counter(
            (start, customer, count, spent)
            for (start, customer), (count, spent) in totals.items()
            if start + HOUR <= over
        )
        found = Counter(
            (_time(one["window"]["start"]), one["customer_id"], one["orders"], _exact(one["spent"]))
            for one in self._messages("order-metrics")
        )
        return _compared("Kafka order-metrics", expected, found)

    def _fraud(self, paid: list[Row]) -> Check:
        expected: Counter[Hashable] = Counter()
        for rows in self._by_card(paid, "fraud").values():
            small: datetime | None = None
            for one in rows:
                if one["amount"] < 1:
                    small = one["paid_at"]
                elif one["amount"] > 10_000 and small and one["paid_at"] - small < timedelta(minutes=1):
                    expected[(one["card"], one["payment_id"], one["amount"], one["paid_at"])] += 1
        found = Counter(
            (one["card"], one["payment_id"], _exact(one["amount"]), _time(one["paid_at"]))
            for one in self._messages("fraud-alerts")
        )
        return _compared("Kafka fraud-alerts", expected, found)

    def _failing(self, paid: list[Row]) -> Check:
        expected: Counter[Hashable] = Counter()
        for rows in self._by_card(paid, "failing_cards").values():
            failed = [one for one in rows if one["state"] == "failed"]
            at = 0
            while at + 3 <= len(failed):
                three = failed[at : at + 3]
                soon = three[2]["paid_at"] - three[0]["paid_at"] < timedelta(minutes=5)
                payments = tuple(one["payment_id"] for one in three)
                expected[(three[0]["card"], payments, three[0]["paid_at"], three[2]["paid_at"])] += soon
                at += 3 if soon else 1
        found = Counter(
            (one["card"], tuple(one["payments"]), _time(one["start"]), _time(one["end"]))
            for one in self._messages("failing-cards")
        )
        return _compared("Kafka failing-cards", +expected, found)

    def _clicked(self, shown: list[Row], clicks: list[Row]) -> Check:
        late = self._late("clicked")
        seen = defaultdict(list)
        for one in shown:
            if one.value is not None and one.place not in late:
                seen[one.value["impression_id"]].append(one.value)
        columns = ("impression_id", "ad", "customer_id", "shown_at")
        expected: Counter[Hashable] = Counter()
        for one in clicks:
            if one.value is None or one.place in late:
                continue
            for each in seen[one.value["impression_id"]]:
                if timedelta() <= one.value["clicked_at"] - each["shown_at"] <= timedelta(minutes=30):
                    expected[(*(each[name] for name in columns), one.value["clicked_at"])] += 1
        found = self._lake("lake.clicked", (*columns, "clicked_at"))
        return _compared("Iceberg lake.clicked", expected, Counter(found))

    def _mirrored(self, name: str, key: str) -> Check:
        with psycopg.connect(self._settings.postgres.url) as connection:
            cursor = connection.execute(SQL("SELECT * FROM shop.{}").format(Identifier(name)))
            columns = tuple(one.name for one in cursor.description or ())
            expected = Counter(cursor.fetchall())
        return _compared(f"Iceberg lake.{name}", expected, Counter(self._lake(f"lake.{name}", columns)))

    def _by_card(self, paid: list[Row], stage: str) -> dict[str, list[dict[str, Any]]]:
        """What the flow has seen of each card, in the order of time; a payment that came twice counts twice."""
        over = self._watermark(stage)
        cards = defaultdict(list)
        for one in self._on_time(paid, stage):
            if one.value is not None and one.value["paid_at"] <= over:
                cards[one.value["card"]].append((one.value["paid_at"], one.place, one.value))
        return {card: [value for _, _, value in sorted(rows, key=lambda row: row[:2])] for card, rows in cards.items()}

    def _on_time(self, rows: list[Row], stage: str) -> list[Row]:
        late = self._late(stage)
        return [one for one in rows if one.place not in late]

    def _watermark(self, query: str) -> datetime:
        """Up to when the query has given out all."""
        told = [one["watermark"] for one in self._state.progress(query)[-1:]]
        return _time(told[0]) if told else datetime.fromtimestamp(0, UTC)

    def _read_letters(self) -> list[dict[str, Any]]:
        kafka = self._settings.kafka
        if "orders-dead-letters" not in Topics(kafka).names():
            return []
        return [record.json() for record in read(kafka, "orders-dead-letters")]

    def _late(self, stage: str) -> set[Place]:
        return {_place(one) for one in self._letters if one["rule"] == "late" and one["stage"] == stage}

    def _rows(self, topic: str, decode: Callable[[bytes], dict[str, Any] | None]) -> list[Row]:
        return [
            Row(
                (one.topic, one.partition, one.offset),
                datetime.fromtimestamp(one.timestamp / 1000, UTC),
                decode(one.value or b""),
            )
            for one in read(self._settings.kafka, topic)
        ]

    def _messages(self, topic: str) -> list[dict[str, Any]]:
        kafka = self._settings.kafka
        return [one.json() for one in read(kafka, topic)] if topic in Topics(kafka).names() else []

    def _versions(self, topic: str, key: str, names: tuple[str, ...]) -> dict[int, set[tuple[Any, ...]]]:
        """Every version that a row of a captured table has had; none, before and after it was there."""
        found: dict[int, set[tuple[Any, ...]]] = defaultdict(lambda: {(None,) * len(names)})
        for record in read(self._settings.kafka, topic):
            after = (record.json() or {}).get("after") if record.value else None
            if after:
                found[after[key]].add(tuple(after[name] for name in names))
        return found

    def _reported(self, columns: Sequence[str]) -> list[dict[str, Any]]:
        with psycopg.connect(self._settings.postgres.url, row_factory=dict_row) as connection:
            return connection.execute(SQL("SELECT {} FROM reports.orders").format(_names(columns))).fetchall()

    def _lake(self, name: str, columns: Sequence[str]) -> list[tuple[Any, ...]]:
        table = open_catalog(self._settings.lake).load_table(name)
        return [tuple(row.values()) for row in table.scan().to_arrow().select(list(columns)).to_pylist()]

    def _documents(self, index: str) -> Iterator[dict[str, Any]]:
        base, after = f"{self._settings.opensearch.url}/{index}", None
        httpx.post(f"{base}/_refresh", timeout=60).raise_for_status()
        while True:
            asked: dict[str, Any] = {"size": 5_000, "sort": [{"order_id": "asc"}]} | (
                {"search_after": after} if after else {}
            )
            answer = httpx.post(f"{base}/_search", json=asked, timeout=60).raise_for_status()
            hits = answer.json()["hits"]["hits"]
            if not hits:
                return
            yield from (hit["_source"] for hit in hits)
            after = hits[-1]["sort"]


def _compared(system: str, expected: Counter[Any], found: Counter[Any]) -> Check:
    missing, extra = expected - found, found - expected
    some = [f"missing {one}" for one in list(missing)[:3]] + [f"too much {one}" for one in list(extra)[:3]]
    return Check(system, expected.total(), missing.total(), extra.total(), some)


def _avro(schema: dict[str, Any]) -> Callable[[bytes], dict[str, Any] | None]:
    parsed = fastavro.parse_schema(schema)

    def decode(value: bytes) -> dict[str, Any] | None:
        if len(value) < 5 or value[0] or value[1:4] != b"\0\0\0":  # no id, or one that nobody has given out
            return None
        row = fastavro.schemaless_reader(io.BytesIO(value[5:]), parsed)
        assert isinstance(row, dict)
        return row

    return decode


def _json_with(time: str) -> Callable[[bytes], dict[str, Any] | None]:
    def decode(value: bytes) -> dict[str, Any] | None:
        try:
            row = json.loads(value)
        except ValueError:
            return None
        return row | {time: _time(row[time])} if isinstance(row, dict) else None

    return decode


def _cause(row: Row) -> str | None:
    """Why a row can't be used."""
    if row.value is None:
        return "decode"
    return next((rule for rule, holds in RULES.get(row.place[0], {}).items() if not holds(row.value)), None)


def _behind(rows: list[Row]) -> Iterator[Place]:
    """Rows that are further behind the newest of those which came before them than is waited for."""
    newest = datetime.fromtimestamp(0, UTC)
    before = deque(sorted((one for one in rows if one.value is not None), key=lambda one: one.came))
    for one in list(before):
        while before and before[0].came <= one.came + AT_ONCE:
            newest = max(newest, _event_time(before.popleft()))
        if _event_time(one) < newest - DELAY:
            yield one.place


def _event_time(row: Row) -> datetime:
    assert row.value is not None
    moment = row.value[TIMES[row.place[0]]]
    assert isinstance(moment, datetime)
    return moment


def _values(rows: list[Row]) -> Iterator[dict[str, Any]]:
    return (one.value for one in rows if one.value is not None)


def _place(letter: dict[str, Any]) -> Place:
    return letter["topic"], letter["partition"], letter["offset"]


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone(UTC)


def _floor(moment: datetime) -> datetime:
    return moment - timedelta(seconds=moment.timestamp() % STEP.total_seconds())


def _exact(number: float) -> Decimal:
    return Decimal(str(number))


def _names(columns: Sequence[str]) -> Composed:
    return SQL(", ").join(map(Identifier, columns))
