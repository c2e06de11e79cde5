"""Processes that several tests use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import penstock as ps

if TYPE_CHECKING:
    from penstock.pipeline.keyed.process import Now

PAYMENT = "card STRING, amount DOUBLE, at TIMESTAMP"


class Fraud:
    """A small payment, then one above 10,000 within a minute."""

    small = ps.ValueState("BOOLEAN")

    def on_event(self, payments: dict[str, Any], now: Now) -> None:
        if self.small.get() and payments["amount"] > 10_000:
            now.emit(payments)
        self.small.clear()
        now.cancel()
        if payments["amount"] < 1:
            self.small.set(True)
            now.timer("1 minute")

    def on_timer(self, name: str, now: Now) -> None:
        self.small.clear()


class Limits:
    """Begins with a limit for each card, and tells of payments above it."""

    limit = ps.ValueState("DOUBLE", ttl="1 hour")

    def on_initial(self, limits: dict[str, Any], now: Now) -> None:
        self.limit.set(limits["limit"])

    def on_event(self, payments: dict[str, Any], now: Now) -> None:
        if payments["amount"] > self.limit.get(100.0):
            now.emit(payments)
        self.limit.set(self.limit.get(100.0))


class Careless(Fraud):
    """Raises in the middle of its work."""

    def on_event(self, payments: dict[str, Any], now: Now) -> None:
        super().on_event(payments, now)
        if payments["amount"] == 13:
            now.emit(payments)
            now.timer("1 second", "other")
            self.small.set(True)
            raise ValueError("unlucky")


class Counted:
    """The same as Fraud, but remembers how many small payments there were."""

    version = 2
    count = ps.ValueState("INT", ttl="1 hour")

    def migrate(self, states: dict[str, Any], version: int) -> dict[str, Any]:
        return {"count": 1} if states.get("small") else {}

    def on_event(self, payments: dict[str, Any], now: Now) -> None:
        if self.count.get() and payments["amount"] > 10_000:
            now.emit({**payments, "amount": float(self.count.get())})
        if payments["amount"] < 1:
            self.count.set(self.count.get(0) + 1)

    def on_timer(self, name: str, now: Now) -> None:
        self.count.clear()


class Everything:
    """Uses all kinds of state, timers that set timers, and two outputs; its answer depends on every order."""

    last = ps.ListState("DOUBLE", ttl="20 seconds")
    seen = ps.MapState("STRING", "LONG")
    total = ps.ValueState("DOUBLE", ttl="5 seconds")

    def on_event(self, payments: dict[str, Any], now: Now) -> None:
        amount = payments["amount"]
        self.last.append(amount)
        self.total.set(self.total.get(0.0) * 2 + amount)
        self.seen[str(int(amount) % 3)] = self.seen.get(str(int(amount) % 3), 0) + 1
        now.emit({"card": now.key, "amount": self.total.get(), "at": now.time})
        now.timer("3 seconds", str(int(amount) % 3))

    def on_timer(self, name: str, now: Now) -> None:
        told = f"{name} {len(self.last)} {self.seen.get(name)} {self.total.get()}"
        now.emit({"card": now.key, "told": told, "at": now.time}, to="rung")
        if self.seen.get(name, 0) > 1:
            self.seen[name] = self.seen[name] - 1
            now.timer("4 seconds", name)
        elif name in self.seen:
            del self.seen[name]
