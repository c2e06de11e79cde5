"""How long the platform takes to start and to answer, and what it weighs when idle.

It runs in a folder of its own; the jars must be there already (`penstock jars`).
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

IDLE_SECONDS = 20
REPEATS = 5


def timed(*words: str, folder: Path) -> tuple[float, str]:
    """Run a command of ours; return its seconds and what it printed."""
    command = [str(Path(sys.executable).with_name("penstock")), *words]
    began = time.perf_counter()
    done = subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True)
    return time.perf_counter() - began, done.stdout


def typical(*words: str, folder: Path) -> float:
    """The median of some runs of a command."""
    return statistics.median(timed(*words, folder=folder)[0] for _ in range(REPEATS))


def main() -> None:
    """Measure a first start (which also makes the data folders), a second one, and the platform at rest."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        folder.chmod(0o755)
        timed("jars", folder=folder)
        try:
            first, _ = timed("up", "--json", folder=folder)
            print(f"first up {first:.1f} s; now idle for {IDLE_SECONDS} s", flush=True)
            time.sleep(IDLE_SECONDS)
            services = json.loads(timed("status", "--json", folder=folder)[1])["services"]
            for one in services:
                print(f"  {one['name']:<12} {one['state']:<6} {one['memory_bytes'] / 2**20:7.0f} MiB")
            idle = sum(one["memory_bytes"] for one in services) / 2**20
            status = typical("status", folder=folder)
            helping = typical("--help", folder=folder)
            timed("down", "--json", folder=folder)
            second, _ = timed("up", "--json", folder=folder)
            print(f"second up {second:.1f} s")
        finally:
            timed("down", "--wipe", "--yes", "--json", folder=folder)
    figures = {
        "up_s": round(max(first, second), 1),
        "idle_mib": round(idle),
        "status_s": round(status, 2),
        "help_s": round(helping, 2),
    }
    print("RESULT", json.dumps(figures))


if __name__ == "__main__":
    main()
