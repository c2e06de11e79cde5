"""`make demo` as a newcomer sees it, in a copy of the example."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from penstock.broker import Producer, read
from penstock.local.progress import Silent
from tests.conftest import Project, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

EXAMPLE = Path(__file__).parents[2] / "examples" / "orders"


class Demo:
    """One start of the demo, and what it has said."""

    def __init__(self, project: Project, *words: str) -> None:
        self._said = project.folder / "said.txt"
        self._out = self._said.open("wb")
        command = [sys.executable, "-u", str(project.folder / "demo.py"), *words]
        self.process = subprocess.Popen(command, cwd=project.folder, stdout=self._out, stderr=self._out)

    def said(self) -> str:
        return self._said.read_text(encoding="utf-8")

    def waits_for(self, text: str, seconds: float = 240.0) -> None:
        def there() -> bool:
            assert self.process.poll() is None, self.said()
            return text in self.said()

        wait_until(there, seconds, text)

    def end(self, seconds: float = 120.0) -> int:
        try:
            return self.process.wait(seconds)
        finally:
            self.process.kill()
            self._out.close()


@pytest.fixture
def orders(project: Project) -> Iterator[Project]:
    """A copy of the example: a project of its own."""
    shutil.copytree(EXAMPLE, project.folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".penstock", "__py*"))
    yield project
    assert _running(project) == []


def test_ctrl_c_while_the_services_start_leaves_nothing_behind(orders: Project) -> None:
    demo = Demo(orders)
    demo.waits_for("starting")
    demo.process.send_signal(signal.SIGINT)
    assert demo.end() == 0, demo.said()
    assert orders.processes() == {}


def test_without_an_audit_that_passes_the_code_is_not_0(orders: Project) -> None:
    demo = Demo(orders, "--minutes", "3")
    demo.waits_for("starting")
    demo.process.send_signal(signal.SIGINT)
    assert demo.end() == 1, demo.said()
    assert demo.said().splitlines()[-1] == 'RESULT {"audit": "stopped"}'


def test_the_demo_can_be_stopped_goes_on_and_every_system_equals_the_source(
    orders: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    demo = Demo(orders)
    demo.waits_for(" buys ")
    demo.process.send_signal(signal.SIGINT)
    demo.process.send_signal(signal.SIGINT)  # someone who is impatient
    assert demo.end() == 0, demo.said()
    assert "Traceback" not in demo.said()
    assert _running(orders) == []
    assert orders.processes() == {}
    again = Demo(orders, "--minutes", "0.5")
    assert again.end(500) == 0, again.said()
    word, _, told = again.said().strip().splitlines()[-1].partition(" ")
    result = json.loads(told)
    assert (word, result["audit"]) == ("RESULT", "pass")
    assert result["PostgreSQL reports.orders"] == result["OpenSearch orders"] > 1_000
    assert result["Kafka order-metrics"] > 0
    assert "Traceback" not in again.said()
    monkeypatch.syspath_prepend(orders.folder)
    assert _differing_after_damage(orders) == {
        "PostgreSQL reports.orders": (2, 1),
        "late rows": (0, 1),
        "Kafka order-metrics": (0, 1),
        "Iceberg lake.customers": (1, 0),
        "dead letters": (1, 0),
    }


def _differing_after_damage(project: Project) -> dict[str, tuple[int, int]]:
    """What the audit says is missing and too much, after somebody has meddled with the systems."""
    from audit import Audit

    project.stack.up((), Silent())
    settings = project.settings
    with Producer(settings.kafka) as producer:
        doubled = next(read(settings.kafka, "order-metrics"))
        producer.send("order-metrics", doubled.value, doubled.key)
        producer.send("orders", b"nobody has read this", "1")
        letters = (one for one in read(settings.kafka, "orders-dead-letters") if one.json()["rule"] == "decode")
        producer.send("orders-dead-letters", next(letters).json() | {"rule": "late"}, "1")
    with psycopg.connect(settings.postgres.url) as connection:
        connection.execute("DELETE FROM reports.orders WHERE order_id = (SELECT min(order_id) FROM reports.orders)")
        newest = "order_id = (SELECT max(order_id) FROM reports.orders)"
        connection.execute(f"UPDATE reports.orders SET tier = 'lead' WHERE {newest}")
        connection.execute("INSERT INTO shop.customers VALUES (0, 'nobody', 'gold', 'Rome')")
    found = {one.system: (one.missing, one.extra) for one in Audit(settings).checks() if not one.equal}
    project.stack.down(Silent())
    return found


def _running(project: Project) -> list[int]:
    """Processes that work in the project's folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if Path.readlink(path / "cwd").is_relative_to(project.folder):
                found.append(int(path.name))
        except OSError:
            continue
    return found
