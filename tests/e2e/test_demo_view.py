"""The live view of the demo, drawn from records as a pipeline writes them."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

EXAMPLE = Path(__file__).parents[2] / "examples" / "orders"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "state" / "orders" / "order_metrics"
    made.mkdir(parents=True)
    plan = {"sources": {"orders": "kafka:orders"}, "sinks": ["kafka:order-metrics"]}
    (made / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
    return made


def batch(number: int, end: int) -> str:
    record = {
        "batch": number,
        "time": time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(time.time() - 60 * (2 - number))),
        "rows": 50,
        "late": 2,
        "dead": {"orders": {"dead": 1}, "valid_orders": {"positive amount": 3}},
        "watermark": "2026-10-17T12:35:20.533Z",
        "state_rows": 1234,
        "duration_ms": {"triggerExecution": 2800},
        "sources": [{"end": {"orders": {"0": end}}}],
    }
    return json.dumps(record) + "\n"


@pytest.mark.parametrize(("width", "height"), [(80, 40), (100, 24), (150, 60)])
def test_everything_that_happens_is_on_the_screen(
    folder: Path, width: int, height: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(EXAMPLE)
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("LINES", str(height))
    import watch
    from view import View

    ends = {"0": 70}
    monkeypatch.setattr(watch, "Topics", lambda _: SimpleNamespace(end_offsets=lambda *_, **__: ends))
    settings: Any = SimpleNamespace(home=folder.parents[2], kafka=None)
    seen = watch.Watch(settings)
    progress = folder / "progress.jsonl"
    progress.write_text(batch(0, 70) + batch(1, 70)[:40], encoding="utf-8")  # the second is just being written
    seen.look()
    assert seen.caught_up()
    assert seen.queries["order_metrics"].rate() == 0.0  # that was a minute ago
    for number in range(7):  # as many queries as the platform has
        shutil.copytree(folder, folder.with_name(f"query_{number}"), ignore=shutil.ignore_patterns("*.jsonl"))
    progress.write_text(batch(0, 70) + batch(1, 70), encoding="utf-8")
    ends["0"] = 90
    seen.look()
    assert not seen.caught_up()
    services: Any = [SimpleNamespace(name="kafka", state="up", memory_bytes=300 << 20)]
    view = View(lambda: "The orders platform", seen, lambda: services)
    for number in range(20):
        view.tell(f"order {number}: Ada buys a violin")
    console = Console(width=width, height=height, record=True)
    with console.capture() as captured:
        console.print(view._drawn())
    assert len(captured.get().splitlines()) <= height
    shown = " ".join(captured.get().split())
    for said in ("order_metrics", "20", "10-17 12:35", "positive amount 6", "not decoded 2", "late 4", "kafka up"):
        assert said in shown
    for said in (
        "Kafka order-metrics",
        "order 19: Ada buys",
        "query.py",
        "search.py",
        "fraud-alerts",
        "dead-letters",
        "orders/running)",
    ):
        assert said in shown
