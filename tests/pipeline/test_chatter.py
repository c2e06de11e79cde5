"""What Spark says at every start is not shown; all else that it and its workers print is."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from penstock.pipeline.chatter import without_chatter
from tests.conftest import wait_until

if TYPE_CHECKING:
    from pathlib import Path

SAYS = """
import sys
for line in ("Starting Streaming TransformWithStateInPandas Python worker.", "", "it fails", "", "also this"):
    print(line, file=sys.stderr)
"""


def test_only_chatter_is_dropped(tmp_path: Path) -> None:
    path, errors = tmp_path / "said", os.dup(2)
    try:
        with path.open("wb") as said:
            os.dup2(said.fileno(), 2)
            with without_chatter():
                other = subprocess.Popen([sys.executable, "-c", SAYS])
            os.write(2, b"ours\n")
            assert other.wait(30) == 0
    finally:
        os.dup2(errors, 2)
        os.close(errors)
    wait_until(lambda: path.read_text().endswith("also this\n"), 10, "all is passed on")
    assert sorted(path.read_text().splitlines()) == sorted(["it fails", "", "also this", "ours"])
