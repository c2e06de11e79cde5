"""What happens in the shop: rows out of order, some late, some twice, some broken, as they come in real life."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from random import Random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from clock import Clock

_MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}
_TIME = {"type": "long", "logicalType": "timestamp-millis"}
ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "order_id", "type": "long"},
        {"name": "customer_id", "type": "long"},
        {"name": "product_id", "type": "long"},
        {"name": "quantity", "type": "int"},
        {"name": "amount", "type": _MONEY},
        {"name": "currency", "type": "string"},
        {"name": "ordered_at", "type": _TIME},
    ],
}
PAYMENT: dict[str, Any] = {
    "type": "record",
    "name": "Payment",
    "fields": [
        {"name": "payment_id", "type": "long"},
        {"name": "order_id", "type": ["null", "long"], "default": None},
        {"name": "card", "type": ["null", "string"], "default": None},
        {"name": "amount", "type": _MONEY},
        {"name": "state", "type": "string"},
        {"name": "paid_at", "type": _TIME},
    ],
}
BROKEN, TWICE, LATE, FAILED = 0.01, 0.01, 0.01, 0.02  # shares of rows
STOLEN = 0.004
_ADS = ("spring", "summer", "autumn", "winter")


@dataclass(frozen=True)
class Event:
    """A row, or bytes that are none, for a topic, after so many of the shop's minutes."""

    topic: str
    key: str
    row: dict[str, Any] | bytes
    minutes: float = 0.0


class Events:
    """Orders with their payments, impressions with their clicks."""

    def __init__(self, clock: Clock, seed: int | None = None) -> None:
        self._clock = clock
        self._random = Random(seed)

    def order(self, customers: list[int], prices: dict[int, Decimal]) -> Iterator[Event]:
        """An order, perhaps twice, and what is paid for it; now and then a stolen card is used."""
        chance, number = self._random, self._clock.number()
        # A few customers order often, most of them rarely.
        customer = customers[int(chance.paretovariate(0.5)) % len(customers)]
        product, quantity = chance.choice(list(prices)), chance.randint(1, 4)
        amount = prices[product] * quantity
        row = {
            "order_id": number,
            "customer_id": customer,
            "product_id": product,
            "quantity": quantity,
            "amount": amount,
            "currency": chance.choice(("EUR", "USD")),
            "ordered_at": self._moment(),
        }
        bad: tuple[dict[str, Any] | bytes, ...] = (
            row | {"amount": Decimal("-1.00")},
            row | {"currency": "XXX"},
            b"no Avro at all",
            b"\0\0\0\xff\xff" + bytes(8),  # of a schema that nobody registered
        )
        yield from self._sent("orders", str(customer), row, bad)
        state = "failed" if chance.random() < FAILED else "paid"
        yield from self._payment(number, f"card-{customer}", amount, state, self._moment())
        if chance.random() < STOLEN:
            yield from self._stolen(f"card-{customer}")

    def impression(self, customers: list[int]) -> Iterator[Event]:
        """An advertisement that someone sees, and in one of five cases clicks, mostly within half an hour."""
        chance, number = self._random, self._clock.number()
        shown = self._moment()
        row = {"ad": chance.choice(_ADS), "customer_id": chance.choice(customers), "shown_at": shown.isoformat()}
        yield from self._sent("impressions", str(number), _json(row | {"impression_id": number}), (b'{"ad": 7',))
        if chance.random() < 0.2:
            passed = timedelta(minutes=min(chance.expovariate(1 / 12), 45.0))
            click = {"impression_id": number, "clicked_at": (shown + passed).isoformat()}
            minutes = passed / timedelta(minutes=1)
            yield from self._sent("clicks", str(number), _json(click), (b"[]",), after=minutes)

    def _payment(
        self, order: int | None, card: str, amount: Decimal, state: str, at: datetime, *, after: float = 0.0
    ) -> Iterator[Event]:
        row = {
            "payment_id": self._clock.number(),
            "order_id": order,
            "card": card,
            "amount": amount,
            "state": state,
            "paid_at": at,
        }
        bad = (row | {"amount": Decimal("0.00")}, row | {"card": None}, b"\0")
        yield from self._sent("payments", card, row, bad, after=after)

    def _stolen(self, card: str) -> Iterator[Event]:
        """A thief tries a cent, then takes all; or fails again and again."""
        begun = self._moment()
        if self._random.random() < 0.5:
            soon = timedelta(seconds=self._random.uniform(5, 80))  # not always within the minute
            yield from self._payment(None, card, Decimal("0.01"), "paid", begun)
            much = Decimal(self._random.randint(10_001, 20_000))
            yield from self._payment(None, card, much, "paid", begun + soon, after=soon / timedelta(minutes=1))
            return
        for number in range(3):
            later = timedelta(minutes=number * self._random.uniform(0.2, 3))
            amount = Decimal(self._random.randint(100, 900))
            yield from self._payment(None, card, amount, "failed", begun + later, after=later / timedelta(minutes=1))

    def _sent(
        self,
        topic: str,
        key: str,
        row: dict[str, Any] | bytes,
        bad: tuple[dict[str, Any] | bytes, ...],
        *,
        after: float = 0.0,
    ) -> Iterator[Event]:
        chance = self._random
        if chance.random() < BROKEN:
            yield Event(topic, key, chance.choice(bad), after)
            return
        late = chance.uniform(3, 20) if chance.random() < LATE else 0.0
        yield Event(topic, key, row, after + late)
        if chance.random() < TWICE:
            yield Event(topic, key, row, after + late + chance.uniform(0, 1.5))

    def _moment(self) -> datetime:
        """Now, or up to a minute ago; in the milliseconds that Avro has."""
        moment = self._clock.now() - timedelta(seconds=self._random.uniform(0, 60))
        return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def _json(row: dict[str, Any]) -> bytes:
    return json.dumps(row).encode()
