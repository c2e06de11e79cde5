"""The shop: customers and products in PostgreSQL; orders, payments, impressions and clicks into Kafka."""

from __future__ import annotations

import heapq
import itertools
import json
import threading
import time
from contextlib import ExitStack, suppress
from decimal import Decimal
from random import Random
from typing import TYPE_CHECKING, Any

import psycopg
from clock import SPEED, Clock
from events import ORDER, PAYMENT, Event, Events

from penstock.broker import Producer, Topics
from penstock.errors import PenstockError
from penstock.registry.producer import SchemaProducer
from penstock.registry.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.settings import Settings

TOPICS = ("orders", "payments", "impressions", "clicks")
ORDERS, IMPRESSIONS = 25, 40  # a second
CUSTOMERS, PRODUCTS = 200, 50
REGULARS = 20  # the first of them order most, and stay: else a third of the orders could be nobody's for a while
_TABLES = """
CREATE SCHEMA IF NOT EXISTS shop;
CREATE SCHEMA IF NOT EXISTS reports;
CREATE TABLE IF NOT EXISTS shop.customers (customer_id bigint PRIMARY KEY, name text, tier text, city text);
CREATE TABLE IF NOT EXISTS shop.products
    (product_id bigint PRIMARY KEY, title text, category text, price numeric(10, 2));
"""
_NAMES = (
    "Ada",
    "Alan",
    "Barbara",
    "Dennis",
    "Edsger",
    "Frances",
    "Grace",
    "John",
    "Katherine",
    "Leslie",
    "Radia",
    "Tim",
)
_CITIES = ("Berlin", "Lagos", "Lima", "Oslo", "Osaka", "Porto")
_TIERS = ("bronze", "silver", "gold")
_CATEGORIES = ("book", "chair", "kettle", "lamp", "violin")


class Shop:
    """Sells and changes until it is told to stop; what PostgreSQL or Kafka can't take for a while is tried again."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.clock = Clock(settings.home / "shop.json")
        self._random = Random()
        self._events = Events(self.clock)
        self._waiting: list[tuple[float, int, Event]] = []
        self._numbers = itertools.count()
        self._customers: list[int] = []
        self._prices: dict[int, Decimal] = {}
        self.failed: PenstockError | None = None
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=one, name=one.__name__, daemon=True) for one in (self._sell, self._manage)
        ]

    def prepare(self) -> None:
        """Tables with their first rows, topics."""
        with psycopg.connect(self._settings.postgres.url) as connection:
            connection.execute(_TABLES)
            if not self._known(connection):
                self._found(connection)
        topics = Topics(self._settings.kafka)
        for name in {*TOPICS} - set(topics.names()):
            topics.create(name, partitions=2)

    def open(self) -> None:
        """Let it happen."""
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Let nothing more happen; what was sold is in Kafka on return."""
        self._over.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(60)

    def _found(self, connection: psycopg.Connection[Any]) -> None:
        for number in range(1, CUSTOMERS + 1):
            self._welcome(connection, number)
        for number in range(1, PRODUCTS + 1):
            category = self._random.choice(_CATEGORIES)
            price = Decimal(self._random.randint(200, 30_000)) / 100
            row = (number, f"{category} no. {number}", category, price)
            connection.execute("INSERT INTO shop.products VALUES (%s, %s, %s, %s)", row)
        self._known(connection)

    def _sell(self) -> None:
        try:
            self._sell_on()
        except PenstockError as error:
            self.failed = error

    def _sell_on(self) -> None:
        with ExitStack() as opened:
            send = self._senders(opened)
            began, made = time.monotonic(), [0, 0]
            while not self._over.wait(0.05):
                passed = time.monotonic() - began
                for at, (rate, make) in enumerate(((ORDERS, self._ordered), (IMPRESSIONS, self._shown))):
                    for _ in range(int(passed * rate) - made[at]):
                        make(passed)
                        made[at] += 1
                while self._waiting and self._waiting[0][0] <= passed:
                    event = heapq.heappop(self._waiting)[2]
                    send[event.topic if isinstance(event.row, dict) else "raw"](event)

    def _ordered(self, passed: float) -> None:
        for event in self._events.order(self._customers, self._prices):
            self._wait(passed, event)

    def _shown(self, passed: float) -> None:
        for event in self._events.impression(self._customers):
            self._wait(passed, event)

    def _wait(self, passed: float, event: Event) -> None:
        heapq.heappush(self._waiting, (passed + event.minutes * 60 / SPEED, next(self._numbers), event))

    def _senders(self, opened: ExitStack) -> dict[str, Callable[[Event], None]]:
        def registered(topic: str, schema: dict[str, Any]) -> Callable[[Event], None]:
            producer = SchemaProducer(self._settings, topic, Schema("AVRO", json.dumps(schema)))
            opened.enter_context(producer)
            return lambda event: producer.send(event.row, event.key)  # type: ignore[arg-type]

        raw = opened.enter_context(Producer(self._settings.kafka))
        return {
            "orders": registered("orders", ORDER),
            "payments": registered("payments", PAYMENT),
            "raw": lambda event: raw.send(event.topic, event.row, event.key),
        }

    def _manage(self) -> None:
        """A few changes of the tables every second, each in a transaction of its own."""
        while not self._over.wait(0.5):
            with suppress(psycopg.Error), psycopg.connect(self._settings.postgres.url, connect_timeout=5) as connection:
                while not self._over.wait(1.0):
                    self._change(connection)
                    connection.commit()
                    self._known(connection)
                    connection.commit()

    def _change(self, connection: psycopg.Connection[Any]) -> None:
        chance, customer = self._random, self._random.choice(self._customers)
        done, leaving = chance.random(), self._customers[REGULARS:]
        if done < 0.5:
            row = (chance.choice(_TIERS), customer)
            connection.execute("UPDATE shop.customers SET tier = %s WHERE customer_id = %s", row)
        elif done < 0.7:
            product = chance.choice(list(self._prices))
            connection.execute("UPDATE shop.products SET price = price * 1.01 WHERE product_id = %s", (product,))
        elif done < 0.85 or not leaving:
            self._welcome(connection, self.clock.number())
        else:
            connection.execute("DELETE FROM shop.customers WHERE customer_id = %s", (chance.choice(leaving),))

    def _welcome(self, connection: psycopg.Connection[Any], number: int) -> None:
        name, tier, city = (self._random.choice(each) for each in (_NAMES, _TIERS, _CITIES))
        connection.execute("INSERT INTO shop.customers VALUES (%s, %s, %s, %s)", (number, name, tier, city))

    def _known(self, connection: psycopg.Connection[Any]) -> bool:
        """Learn who and what there is."""
        found = connection.execute("SELECT customer_id FROM shop.customers ORDER BY customer_id").fetchall()
        self._customers = [number for (number,) in found]
        self._prices = dict(connection.execute("SELECT product_id, price FROM shop.products").fetchall())
        return bool(found)
