"""`make demo`: the orders platform, running for real; Ctrl-C stops it, the next start goes on from there.

`MINUTES=3` ends by itself and audits: every derived system must equal the source. `CHAOS=1` kills a random part every
20 seconds.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import httpx
import psycopg
from audit import Audit
from keeper import SERVICES, Driver, Keeper
from shop import Shop
from view import View
from watch import Watch

from penstock.cdc import Captures
from penstock.cdc.capture import find_capture
from penstock.cli.render import show, show_error, table, working
from penstock.errors import PenstockError
from penstock.local import processes
from penstock.local.stack import Stack
from penstock.settings import load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from audit import Check

HERE = Path(__file__).parent
EVERY = "5 seconds"
KILL_SECONDS = 20.0
AUDIT_SECONDS = 300.0


def main() -> int:
    """Run the demo; services that ran before it still run after it."""
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--minutes", type=float, help="end after so long, and audit")
    words.add_argument("--chaos", action="store_true", help=f"kill a random part every {KILL_SECONDS:.0f} seconds")
    given = words.parse_args()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    settings = load(HERE, profile="local")
    stack = Stack(settings)
    ran_before = any(one.pids for one in stack.status())
    code, result = 0, None
    try:
        with working() as progress:
            stack.up((), progress)
        result = Demo(stack, chaos=given.chaos).run(given.minutes)
    except KeyboardInterrupt:
        show("")
    except PenstockError as error:
        show_error(error)
        code = error.exit_code
    finally:
        if not ran_before:
            with undisturbed(), working() as progress:
                stack.down(progress)
            show("All services are stopped; the next `make demo` goes on with what is in examples/orders/.penstock.")
    if result is not None:
        show(f"RESULT {json.dumps(result)}")
        return 0 if result["audit"] == "pass" else 1
    return code


class Demo:
    """The shop, the pipeline over it, and who looks after them."""

    def __init__(self, stack: Stack, *, chaos: bool) -> None:
        self._stack = stack
        self._settings = settings = load(HERE, profile="local")  # with the ports that were chosen
        self._chaos = chaos
        self._began = time.monotonic()
        self._shop = Shop(settings)
        self._driver = Driver(HERE / "orders.py", stack, EVERY)
        self._watch = Watch(settings)
        self._view = View(self._title, self._watch, stack.status)
        self._keeper = Keeper(stack, self._driver, self._view.tell)
        self._random = Random()
        self._kills = 0
        self._arrived = False
        self._newest_order: int | None = None

    def run(self, minutes: float | None) -> dict[str, Any] | None:
        """Let it run for so long, then audit; without a time until Ctrl-C."""
        deadline = None if minutes is None else self._began + minutes * 60
        try:
            self._begin()
            with self._view:
                self._go_on(lambda: deadline is not None and time.monotonic() > deadline)
                if deadline is None:
                    return None
                self._shop.close()
                self._view.tell("the shop is closed; the pipeline catches up")
                checks = self._audited()
            return self._told(checks)
        finally:
            with undisturbed():
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

    def _go_on(self, over: Callable[[], bool]) -> None:
        next_kill = time.monotonic() + KILL_SECONDS
        while not over():
            self._look()
            if self._chaos and time.monotonic() > next_kill:
                self._kill()
                next_kill = time.monotonic() + KILL_SECONDS
            time.sleep(1.0)

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
        while True:
            self._look()
            if self._watch.caught_up():
                with suppress(PenstockError, psycopg.Error, httpx.HTTPError, OSError):
                    audit = Audit(self._settings)
                    checks = list(audit.checks())
                if checks and all(one.equal for one in checks):
                    return checks
            if time.monotonic() > deadline:
                return checks
            time.sleep(2.0)

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
        said += ["a minute passes in a second", *([f"{self._kills} kills"] if self._chaos else [])]
        return f"The orders platform · {' · '.join(said)}\n"


_NEWEST = """
SELECT order_id, coalesce(name, 'a customer who is gone'), coalesce(tier, '-'), title, amount, currency
FROM reports.orders ORDER BY order_id DESC LIMIT 1
"""


@contextmanager
def undisturbed() -> Iterator[None]:
    """A second Ctrl-C does not leave anything behind: stopping ends by itself."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


if __name__ == "__main__":
    sys.exit(main())
