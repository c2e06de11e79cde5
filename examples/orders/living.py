"""The orders platform, living: what starts it, looks at it, kills parts of it, and audits it at the end."""

from __future__ import annotations

import signal
import time
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Any

import httpx
import psycopg
from audit import Audit
from keeper import SERVICES, Driver, Keeper
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from shop import Shop
from view import View
from watch import Watch

from penstock.cdc import Captures
from penstock.cdc.capture import find_capture
from penstock.cli.render import show, table, working
from penstock.errors import PenstockError
from penstock.local import processes
from penstock.settings import load

if TYPE_CHECKING:
    import threading

    from audit import Check

    from penstock.local.stack import Stack

EVERY = "5 seconds"
KILL_SECONDS = 20.0
AUDIT_SECONDS = 300.0
_BEING_HEALED = (PenstockError, psycopg.Error, httpx.HTTPError, OSError, NoSuchTableError, NoSuchNamespaceError)
_NEWEST = """
SELECT order_id, coalesce(name, 'a customer who is gone'), coalesce(tier, '-'), title, amount, currency
FROM reports.orders ORDER BY order_id DESC LIMIT 1
"""


class Platform:
    """The shop, the pipeline over it, and who looks after them; `asked` says that it shall end."""

    def __init__(self, stack: Stack, asked: threading.Event, *, chaos: bool) -> None:
        self._stack = stack
        self._settings = settings = load(stack.settings.project, profile="local")  # with the ports that were chosen
        self._asked = asked
        self._chaos = chaos
        self._began = time.monotonic()
        self._shop = Shop(settings)
        self._driver = Driver(settings.project / "orders.py", stack, EVERY)
        self._watch = Watch(settings)
        self._view = View(self._title, self._watch, stack.status)
        self._keeper = Keeper(stack, self._driver, self._view.tell)
        self._random = Random()
        self._kills = 0
        self._arrived = False
        self._newest_order: int | None = None

    def run(self, minutes: float | None) -> dict[str, Any] | None:
        """Let it run for so long, then audit; without a time until it is asked to end."""
        deadline = None if minutes is None else self._began + minutes * 60
        try:
            self._begin()
            with self._view:
                self._go_on(deadline)
                if self._asked.is_set():
                    return None
                self._shop.close()
                self._view.tell("the shop is closed; the pipeline catches up")
                checks = self._audited()
            return None if self._asked.is_set() else self._told(checks)
        finally:
            show("Stopping: the pipeline after its batch, then the services.")
            self._shop.close()
            self._keeper.stop()
            self._driver.stop()

    def _begin(self) -> None:
        with working() as progress:
            progress.update("shop", 0, 1, "opening")
            self._shop.prepare()
            self._shop.open()
            progress.update("shop", 1, 1, "open")
            progress.update("capture", 0, 1, "starting")
            with Captures(self._settings) as captures:
                captures.create(find_capture(self._settings, "shop"))
            progress.update("capture", 1, 1, "up")
        self._newest_order = (self._newest() or (None,))[0]
        self._keeper.start()
        show(f"The pipeline starts; what it says is in {self._driver.log}.\n")

    def _go_on(self, deadline: float | None) -> None:
        next_kill = time.monotonic() + KILL_SECONDS
        while not self._asked.wait(1.0) and (deadline is None or time.monotonic() < deadline):
            self._look()
            if self._chaos and time.monotonic() > next_kill:
                self._kill()
                next_kill = time.monotonic() + KILL_SECONDS

    def _look(self) -> None:
        for failed in (self._keeper.failed, self._shop.failed):
            if failed is not None:
                raise failed
        self._watch.look()
        self._tell_of_orders()
        self._view.draw()

    def _tell_of_orders(self) -> None:
        """Tell of the newest order that has arrived, and of the first one how long it took."""
        found = self._newest()
        if found is not None and found[0] != self._newest_order:
            took = "" if self._arrived else f"{time.monotonic() - self._began:.0f} s after the services were up: "
            self._arrived, self._newest_order = True, found[0]
            self._view.tell(
                f"{took}order {found[0]}: {found[1]} ({found[2]}) buys {found[3]} for {found[4]} {found[5]}"
            )

    def _newest(self) -> tuple[Any, ...] | None:
        with suppress(psycopg.Error), psycopg.connect(self._settings.postgres.url, connect_timeout=2) as connection:
            known = connection.execute("SELECT to_regclass('reports.orders')").fetchone()
            if known and known[0]:
                return connection.execute(_NEWEST).fetchone()
        return None

    def _kill(self) -> None:
        alive = processes.find(self._stack.home.folder)
        there = [*(name for name in SERVICES if name in alive), *(["pipeline"] if self._driver.pid else [])]
        if not there:
            return
        name = self._random.choice(there)
        self._kills += 1
        self._view.tell(f"chaos: kill -9 {name}")
        if name == "pipeline":
            self._driver.kill()
        else:
            alive[name].signal(signal.SIGKILL)

    def _audited(self) -> list[Check]:
        """Compare until all is equal, or it has had time enough."""
        deadline = time.monotonic() + AUDIT_SECONDS
        checks: list[Check] = []
        while not self._asked.wait(2.0) and time.monotonic() < deadline:
            self._look()
            if not self._watch.caught_up():
                continue
            with suppress(*_BEING_HEALED):
                checks = list(Audit(self._settings).checks())
            if checks and all(one.equal for one in checks):
                break
        return checks

    def _told(self, checks: list[Check]) -> dict[str, Any]:
        rows = [
            (one.system, one.expected, one.missing, one.extra, "equal" if one.equal else "differs") for one in checks
        ]
        table(("DERIVED SYSTEM", "ROWS", "MISSING", "EXTRA", "AUDIT"), rows, {"equal": "green", "differs": "red"})
        for one in checks:
            for each in one.examples:
                show(f"  {one.system}: {each}")
        passed = bool(checks) and all(one.equal for one in checks)
        result: dict[str, Any] = {"audit": "pass" if passed else "fail"}
        result |= {one.system: one.expected for one in checks}
        return result | {"kills": self._kills, "healed": self._keeper.healed}

    def _title(self) -> str:
        passed = int(time.monotonic() - self._began)
        said = [f"{passed // 60}:{passed % 60:02}", f"in the shop it is {self._shop.clock.now():%Y-%m-%d %H:%M}"]
        said += ["a minute passes in a second"] if self._shop.clock.fast else []
        said += [f"{self._kills} kills"] if self._chaos else []
        return f"The orders platform · {' · '.join(said)}"
