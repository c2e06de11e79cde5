"""The live view: what it shows of each query, on a wide terminal and on a narrow one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from penstock.cli.live import _drawn


def record(latest: int) -> dict[str, Any]:
    source = {"begin": {"orders": {"0": 0}}, "end": {"orders": {"0": 50}}, "latest": {"orders": {"0": latest}}}
    return {
        "batch": 7,
        "rows_per_second": 1234.5,
        "watermark": "2026-11-15T12:00:05.000Z",
        "state_rows": 40,
        "duration_ms": {"triggerExecution": 812},
        "sources": [source],
    }


@pytest.mark.parametrize("width", [80, 120])
def test_each_query_has_its_line(width: int) -> None:
    names = ("orders", "order_metrics", "not_yet")
    running: Any = SimpleNamespace(
        plan=SimpleNamespace(name="shop", queries=[SimpleNamespace(name=name) for name in names]),
        latest={"orders": record(latest=90), "order_metrics": record(latest=50)},
        totals=lambda: {key: {"rows": 12345, "late": 2, "dead": 3} for key in names},
    )
    console = Console(width=width, record=True, file=None, quiet=False)
    with console.capture() as captured:
        console.print(_drawn(running, {"orders": 200}, width))
    title, head, orders, metrics, not_yet = captured.get().splitlines()
    assert title.strip() == "pipeline shop"
    assert ("BATCH" in head) == (width == 120)
    assert orders.split()[:5] == ["orders", "1,234", "40", "━━━━━━━━──", "80%"]
    assert metrics.split()[4:8] == ["100%", "12:00:05", "2", "3"]
    assert not_yet.split() == ["not_yet", "starting"]
