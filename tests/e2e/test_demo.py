"""`make demo` as a newcomer sees it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.conftest import Project

DEMO = Path(__file__).parents[2] / "examples" / "orders" / "demo.py"


def test_the_demo_shows_metrics_and_ctrl_c_stops_everything(project: Project) -> None:
    demo = subprocess.Popen(
        [sys.executable, "-u", DEMO], cwd=project.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert demo.stdout is not None
    seen = []
    for line in demo.stdout:
        seen.append(line)
        if " orders " in line and "customer" in line:
            break
    demo.send_signal(signal.SIGINT)
    rest, said = demo.communicate(timeout=90)
    assert demo.returncode == 0, said
    assert "".join(seen).count(" up ") == 5
    assert "All services are stopped" in rest
    assert "kafka: up" in said
    assert project.processes() == {}
