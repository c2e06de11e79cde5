"""Orders as a shop makes them: a few customers order often, most rarely, and now and then a row is broken."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

CUSTOMERS = 200
CURRENCIES = ("EUR", "USD")


def orders(seed: int | None = None, *, broken: float = 0.02) -> Iterator[tuple[str, str]]:
    """Keys and values without end: orders in JSON up to three seconds out of order, a share of them broken."""
    random = Random(seed)
    number = 0
    while True:
        number += 1
        customer = int(random.paretovariate(1.1)) % CUSTOMERS + 1
        created = datetime.now(UTC) - timedelta(seconds=random.random() * 3)
        order = {
            "order_id": number,
            "customer_id": customer,
            "amount": round(random.lognormvariate(3.5, 1.0), 2),
            "currency": random.choice(CURRENCIES),
            "created_at": created.isoformat(timespec="milliseconds"),
        }
        if random.random() < broken:
            order |= random.choice(({"amount": -1.0}, {"amount": "much"}, {"currency": "XXX"}))
        yield str(customer), json.dumps(order)
