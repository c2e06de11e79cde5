"""Does every derived system equal the source? All of it computed once more, in plain Python, row for row.

The source is what lies in the topics `orders`, `payments`, `impressions` and `clicks` and in the shop's own tables.
Each row of a topic must be where it belongs: in the derived systems, or a dead letter, with its cause, once.
"""

from __future__ import annotations

import io
import json
from collections import Counter, defaultdict
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
HOUR, STEP = timedelta(hours=1), timedelta(minutes=5)
CURRENCIES = ("EUR", "USD")


@dataclass(frozen=True)
class Row:
    """A row of a topic, or None where the bytes are none."""

    place: Place
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
        valid = _kept(orders, lambda row: row["amount"] > 0 and row["currency"] in CURRENCIES)
        paid = _kept(payments, lambda row: row["amount"] > 0 and row["card"] is not None)
        bad = [one.place for rows, good in ((orders, valid), (payments, paid)) for one in _without(rows, good)]
        bad += [one.place for rows in (shown, clicks) for one in rows if one.value is None]
        yield _compared("dead letters", Counter(bad), Counter(self._bad()))
        yield from self._orders(valid)
        yield self._metrics(valid)
        paid_rows = {
            (one["payment_id"], one["card"], one["amount"], one["state"], one["paid_at"]) for one in _values(paid)
        }
        columns = ("payment_id", "card", "amount", "state", "paid_at")
        yield _compared("Iceberg lake.payments", Counter(paid_rows), Counter(self._lake("lake.payments", columns)))
        yield self._fraud(paid)
        yield self._failing(paid)
        yield self._clicked(shown, clicks)
        for name, key in (("customers", "customer_id"), ("products", "product_id")):
            yield self._mirrored(name, key)

    def _orders(self, valid: list[Row]) -> Iterator[Check]:
        """The orders with their customer and product, who are at least ones that there were."""
        names = ("order_id", "customer_id", "product_id", "quantity", "amount", "currency", "ordered_at")
        expected = Counter({tuple(one[name] for name in names) for one in _values(valid)})
        who = self._versions("shop.shop.customers", "customer_id", ("name", "tier"))
        what = self._versions("shop.shop.products", "product_id", ("title", "category"))

        def checked(row: dict[str, Any]) -> tuple[Any, ...]:
            known = (row["name"], row["tier"]) in who[row["customer_id"]]
            known = known and (row["title"], row["category"]) in what[row["product_id"]]
            return tuple(row[name] for name in names) if known else (row["order_id"], "nobody's row")

        wanted = (*names, "name", "tier", "title", "category")
        found = self._reported(wanted)
        yield _compared("PostgreSQL reports.orders", expected, Counter(map(checked, found)))
        found = [dict(zip(wanted, row, strict=True)) for row in self._lake("lake.orders", wanted)]
        yield _compared("Iceberg lake.orders", expected, Counter(map(checked, found)))
        searched = Counter(
            (row["order_id"], f"{row['amount']:.2f}", row["currency"]) for row in self._documents("orders")
        )
        simple = Counter({(one["order_id"], str(one["amount"]), one["currency"]) for one in _values(valid)})
        yield _compared("OpenSearch orders", simple, searched)

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
                    expected[one["payment_id"]] += 1
        found = Counter(one["payment_id"] for one in self._messages("fraud-alerts"))
        return _compared("Kafka fraud-alerts", expected, found)

    def _failing(self, paid: list[Row]) -> Check:
        expected: Counter[Hashable] = Counter()
        for rows in self._by_card(paid, "failing_cards").values():
            failed = [one for one in rows if one["state"] == "failed"]
            at = 0
            while at + 3 <= len(failed):
                three = failed[at : at + 3]
                soon = three[2]["paid_at"] - three[0]["paid_at"] < timedelta(minutes=5)
                expected[tuple(one["payment_id"] for one in three)] += soon
                at += 3 if soon else 1
        found = Counter(tuple(one["payments"]) for one in self._messages("failing-cards"))
        return _compared("Kafka failing-cards", +expected, found)

    def _clicked(self, shown: list[Row], clicks: list[Row]) -> Check:
        late = self._late("clicked")
        seen = defaultdict(list)
        for one in shown:
            if one.value is not None and one.place not in late:
                seen[one.value["impression_id"]].append(one.value)
        expected: Counter[Hashable] = Counter()
        for one in clicks:
            if one.value is None or one.place in late:
                continue
            for each in seen[one.value["impression_id"]]:
                if timedelta() <= one.value["clicked_at"] - each["shown_at"] <= timedelta(minutes=30):
                    expected[(each["impression_id"], each["ad"], each["shown_at"], one.value["clicked_at"])] += 1
        found = self._lake("lake.clicked", ("impression_id", "ad", "shown_at", "clicked_at"))
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

    def _bad(self) -> list[Place]:
        return [_place(one) for one in self._letters if one["rule"] != "late"]

    def _late(self, stage: str) -> set[Place]:
        return {_place(one) for one in self._letters if one["rule"] == "late" and one["stage"] == stage}

    def _rows(self, topic: str, decode: Callable[[bytes], dict[str, Any] | None]) -> list[Row]:
        return [
            Row((one.topic, one.partition, one.offset), decode(one.value or b""))
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
        httpx.post(f"{base}/_refresh", timeout=60)
        while True:
            asked: dict[str, Any] = {"size": 5_000, "sort": [{"order_id": "asc"}]} | (
                {"search_after": after} if after else {}
            )
            hits = httpx.post(f"{base}/_search", json=asked, timeout=60).json()["hits"]["hits"]
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


def _kept(rows: list[Row], rule: Callable[[dict[str, Any]], bool]) -> list[Row]:
    return [one for one in rows if one.value is not None and rule(one.value)]


def _without(rows: list[Row], others: list[Row]) -> list[Row]:
    known = {one.place for one in others}
    return [one for one in rows if one.place not in known]


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
