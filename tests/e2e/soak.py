"""`make soak`: the orders platform for half an hour; its memory must be flat and its audit must pass."""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.pages import put
from bench.processes import tree
from penstock.local.progress import Silent
from penstock.local.stack import Stack
from penstock.settings import load

ROOT = Path(__file__).parents[2]
_EVERY_SECONDS = 5.0
_WARM_MINUTES = 10.0  # heaps have grown to their size by then
_SUM = "all together"


def main() -> int:
    """Run it, watch its memory, write the report, end with the result."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--minutes", type=float, default=30.0)
    words.add_argument("--docs", type=Path, default=ROOT / "docs" / "guarantees.md")
    given = words.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "orders"
        shutil.copytree(ROOT / "examples" / "orders", folder, ignore=shutil.ignore_patterns(".penstock", "__py*"))
        said, seen = watched(folder, given.minutes)
        Stack(load(folder)).down(Silent(), remove_data=True)
    print(said, flush=True)
    result = json.loads(said.strip().splitlines()[-1].removeprefix("RESULT "))
    growth = grown(seen)
    report(given.docs, given.minutes, result, seen, growth)
    print("RESULT", json.dumps({**result, "minutes": given.minutes, "memory_growth": growth, "flat": flat(growth)}))
    return 0 if flat(growth) and result["audit"] == "pass" else 1


def watched(folder: Path, minutes: float) -> tuple[str, list[tuple[float, dict[str, int]]]]:
    """What the demo said, and the memory of its parts in MiB by the minute."""
    said = folder / "said.txt"
    seen: list[tuple[float, dict[str, int]]] = []
    with said.open("wb") as out:
        demo = subprocess.Popen([sys.executable, "demo.py", "--minutes", str(minutes)], cwd=folder, stdout=out)
        began = told = time.monotonic()
        stack = Stack(load(folder))
        while demo.poll() is None:
            passed = (time.monotonic() - began) / 60
            if passed < minutes:
                memory = {one.name: one.memory_bytes >> 20 for one in stack.status() if one.pids}
                memory |= _pipeline(folder)
                seen.append((passed, memory | {_SUM: sum(memory.values())}))
                if time.monotonic() - told > 60:
                    told = time.monotonic()
                    print(f"{passed:.0f} min: {seen[-1][1]}", flush=True)
            time.sleep(_EVERY_SECONDS)
    return said.read_text(encoding="utf-8"), seen


def grown(seen: list[tuple[float, dict[str, int]]]) -> dict[str, float]:
    """The memory of the last five minutes against the five after the warm-up, by the medians."""
    last = seen[-1][0]
    first = [one for at, one in seen if _WARM_MINUTES <= at < _WARM_MINUTES + 5]
    end = [one for at, one in seen if at > last - 5]
    names = sorted(set().union(*first) & set().union(*end)) if first and end else []
    return {name: round(_median(end, name) / _median(first, name), 2) for name in names}


def flat(growth: dict[str, float]) -> bool:
    """Whether no process has grown by more than a tenth; a run too short to know is not flat."""
    return bool(growth) and all(one <= 1.1 for one in growth.values())


def report(
    docs: Path,
    minutes: float,
    result: dict[str, object],
    seen: list[tuple[float, dict[str, int]]],
    growth: dict[str, float],
) -> None:
    """Write the tables between their marks."""
    marks = list(range(5, int(minutes) + 1, 5))
    by_mark = {mark: [one for at, one in seen if mark - 5 < at <= mark] for mark in marks}
    lines = [f"| MiB, median of five minutes | {' | '.join(f'to {mark}' for mark in marks)} | growth |"]
    lines += ["|---" * (len(marks) + 2) + "|"]
    for name, ratio in growth.items():
        cells = " | ".join(f"{_median(by_mark[mark], name):.0f}" for mark in marks)
        lines.append(f"| {name} | {cells} | {ratio:.2f} |")
    rows = {name: count for name, count in result.items() if isinstance(count, int) and name not in ("kills", "healed")}
    lines += [
        "",
        f"Audit after {minutes:g} minutes: {result['audit']}. {'Flat' if flat(growth) else 'Not flat'}.",
        "",
        f"| derived system | rows{', all equal' if result['audit'] == 'pass' else ''} |",
        "|---|---|",
    ]
    lines += [f"| {name} | {count:,} |" for name, count in rows.items()]
    put(docs, "soak", lines)


def _median(seen: list[dict[str, int]], name: str) -> float:
    return statistics.median([one[name] for one in seen if name in one] or [0])


def _pipeline(folder: Path) -> dict[str, int]:
    """The driver with its JVM, and the Python workers below it."""
    try:
        pid = int((folder / ".penstock" / "state" / "orders" / "running").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    ours = tree(pid)
    driver = sum(one.mib for one in ours if one.pid == pid)
    java = sum(one.mib for one in ours if one.name == "java")
    workers = sum(one.mib for one in ours) - driver - java
    return {"pipeline, driver": driver, "pipeline, JVM": java, "pipeline, workers": workers}


if __name__ == "__main__":
    sys.exit(main())
