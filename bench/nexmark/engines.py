"""An engine of the bench: a process that answers requests, and what it takes of the machine meanwhile."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from bench.peers.install import Installed

__all__ = ["Cost", "Engine"]

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")
_LOOK_SECONDS = 0.2
_ANSWER_SECONDS = 900.0


@dataclass(frozen=True)
class Cost:
    """What one request took."""

    seconds: float
    cpu_seconds: float
    peak_mib: int


class Engine:
    """A peer that runs for a whole bench."""

    def __init__(self, installed: Installed, bootstrap: str, log: Path, *words: str) -> None:
        self.name = installed.name
        self._log = log.open("wb")
        self._process = subprocess.Popen(
            [installed.python, str(installed.peer), bootstrap, *words],
            env={**os.environ, **installed.environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            start_new_session=True,
        )
        told = self._answer()
        self.version: str = told["version"]
        self.queries: list[str] = told["queries"]

    def ask(self, request: dict[str, Any]) -> Cost:
        """Send a request, wait for the answer; raises what the engine could not do."""
        before = _of_tree(self._process.pid)[0]
        with _Peak(self._process.pid) as peak:
            told = self.say(request)
        return Cost(told["seconds"], round(_of_tree(self._process.pid)[0] - before, 2), peak.mib)

    def say(self, request: dict[str, Any]) -> dict[str, Any]:
        """Send a line and wait for the one that answers it."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        told = self._answer()
        if "error" in told:
            raise RuntimeError(f"{self.name}: {told['error']}")
        return told

    def signal(self, number: int) -> None:
        """Send a signal to all its processes."""
        for pid in _tree(_table(), self._process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def close(self) -> None:
        """End it with all that it started."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, 9)
            self._process.wait()
        self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        late = threading.Timer(_ANSWER_SECONDS, self._process.kill)
        late.start()
        line = self._process.stdout.readline()
        late.cancel()
        if not line:
            raise RuntimeError(f"{self.name} has ended: see {self._log.name}")
        told: dict[str, Any] = json.loads(line)
        return told


class _Peak:
    """The most memory that a process and what it started had at once."""

    def __init__(self, pid: int) -> None:
        self.mib = 0
        self._pid = pid
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(_LOOK_SECONDS):
            self.mib = max(self.mib, _of_tree(self._pid)[1])


def _of_tree(pid: int) -> tuple[float, int]:
    """Seconds of CPU and MiB of memory of a process and of all below it; children that have ended count too."""
    every = _table()
    found = [every[one] for one in _tree(every, pid) if one in every]
    return sum(cpu for _, cpu, _ in found), sum(memory for _, _, memory in found)


def _table() -> dict[int, tuple[int, float, int]]:
    """All processes of this machine: parent, seconds of CPU, MiB."""
    found: dict[int, tuple[int, float, int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:
            continue
        cpu, memory = sum(map(int, fields[11:15])) / _TICKS, int(fields[21]) * _PAGE >> 20
        found[int(path.parent.name)] = (int(fields[1]), cpu, memory)
    return found


def _tree(every: dict[int, tuple[int, float, int]], pid: int) -> set[int]:
    """A process and all below it."""
    ours, fresh = {pid}, {pid}
    while fresh:
        fresh = {one for one, (parent, _, _) in every.items() if parent in fresh}
        ours |= fresh
    return ours
