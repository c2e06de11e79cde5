"""An engine of the bench: a process that answers requests, and what it takes of the machine meanwhile."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench.processes import tree

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from bench.peers.install import Installed

__all__ = ["Cost", "Engine"]

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
        try:
            told = self._answer()
        except BaseException:  # also if the bench is told to end meanwhile
            self.close()
            raise
        self.version: str = told["version"]
        self.queries: list[str] = told["queries"]

    def ask(self, request: dict[str, Any]) -> Cost:
        """Send a request, wait for the answer; raises what the engine could not do."""
        before = self._cpu_seconds()
        with _Peak(self._process.pid) as peak:
            told = self.say(request)
        return Cost(told["seconds"], round(self._cpu_seconds() - before, 2), peak.mib)

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
        for one in tree(self._process.pid):
            with suppress(ProcessLookupError):
                os.kill(one.pid, number)

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

    def _cpu_seconds(self) -> float:
        return sum(one.cpu_seconds for one in tree(self._process.pid))

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        late = threading.Timer(_ANSWER_SECONDS, self._process.kill)
        late.start()
        try:
            line = self._process.stdout.readline()
        finally:
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
        """A process that was not there before may be a fork that still shares its parent's memory: it waits."""
        known = {self._pid}
        while not self._over.wait(_LOOK_SECONDS):
            now = tree(self._pid)
            self.mib = max(self.mib, sum(one.mib for one in now if one.pid in known))
            known = {one.pid for one in now}
