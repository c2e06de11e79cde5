"""Orders as a shop makes them: a few customers order often, most rarely."""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

CUSTOMERS = 200
CURRENCIES = ("EUR", "USD")


def orders(seed: int | None = None) -> Iterator[dict[str, Any]]:
    """Orders without end, the same ones for the same seed but for their time."""
    random = Random(seed)
    number = 0
    while True:
        number += 1
        yield {
            "order_id": number,
            "customer_id": int(random.paretovariate(1.1)) % CUSTOMERS + 1,
            "amount": round(random.lognormvariate(3.5, 1.0), 2),
            "currency": random.choice(CURRENCIES),
            "created_at": datetime.now(UTC).isoformat(timespec="milliseconds"),
        }
