"""What keeps the platform alive: a service or a pipeline that dies is started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import PenstockError, SetupError
from penstock.local import processes
from penstock.local.progress import Silent
from penstock.pipeline.state import PipelineState

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.local.stack import Stack

SERVICES = ("kafka", "postgres", "registry", "connect", "opensearch")
_STOP_SECONDS = 90.0
_SHORT_SECONDS = 40.0
_TRIES = 3
# Many small batches: the JVM's second compiler would take the cores from them for minutes. Without it Java's room for
# compiled code would be too small.
_QUICK = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m"}


class Driver:
    """The pipeline in a process of its own, as `penstock run` starts it."""

    def __init__(self, file: Path, stack: Stack, every: str) -> None:
        self.log = stack.home.log("pipeline")
        self._command = [sys.executable, "-m", "penstock", "run", str(file), "--every", every]
        self._project = stack.settings.project
        self._state = PipelineState(stack.settings.home, "orders")
        self._process: subprocess.Popen[bytes] | None = None
        self._began = 0.0
        self._short = 0

    @property
    def pid(self) -> int | None:
        """Its process, while it lives."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def _start(self) -> None:
        """One that was left behind by a demo that was killed is stopped first."""
        if (left := self._state.owner()) is not None:
            self._end(left)
        with self.log.open("ab") as said:
            self._began = time.monotonic()
            self._process = subprocess.Popen(
                self._command,
                cwd=self._project,
                env=_QUICK | os.environ,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )

    def mend(self) -> bool:
        """Start it if it does not run; give up when it ends soon after its start again and again."""
        if self.pid is not None:
            return False
        if self._process is None:
            self._start()
            return False
        killed = self._process.returncode < 0
        self._short = self._short + 1 if not killed and time.monotonic() - self._began < _SHORT_SECONDS else 0
        if self._short == _TRIES:
            said = self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-6:]
            raise SetupError(
                "The pipeline does not start: " + " ".join(said), code="pipeline-ends", remedy=f"Read {self.log}."
            )
        self._clear()
        self._start()
        return True

    def kill(self) -> None:
        """Kill it with all that it started, as a power cut would."""
        self._clear()

    def stop(self) -> None:
        """Let it stop after its batch; kill what does not end."""
        if self._process is None:
            return
        if self.pid is not None:
            self._process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_SECONDS)
        self._clear()
        self._process.wait()

    def _clear(self) -> None:
        """Nothing that it started outlives it: its JVM, and the Python workers of that."""
        while self._process is not None and (left := _session(self._process.pid)):
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._process.poll()
            time.sleep(0.05)

    def _end(self, pid: int) -> None:
        os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + _STOP_SECONDS
        while self._state.owner() == pid:
            if time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.2)


def _session(leader: int) -> list[int]:
    """The processes that live in a session."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, _, session = path.read_text(encoding="utf-8").rpartition(")")[2].split()[:4]
            if int(session) == leader and state != "Z":
                found.append(int(path.parent.name))
    return found


class Keeper:
    """Looks after the services and the pipeline in a thread, where no Ctrl-C comes in between, and tells of it."""

    def __init__(self, stack: Stack, driver: Driver, tell: Callable[[str], None]) -> None:
        self._stack = stack
        self._driver = driver
        self._tell = tell
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="keeper", daemon=True)
        self.failed: PenstockError | None = None
        self.healed = 0

    def start(self) -> None:
        """Look from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Leave them to themselves; what is being started is started on return."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def _keep(self) -> None:
        while not self._over.wait(0.5):
            try:
                self._mend()
            except SetupError as error:
                if error.code == "pipeline-ends":
                    self.failed = error
                    return
                self._tell(str(error))
            except PenstockError as error:
                self._tell(str(error))

    def _mend(self) -> None:
        alive = processes.find(self._stack.home.folder)
        gone = [name for name in SERVICES if name not in alive]
        if gone:
            began = time.monotonic()
            self._tell(f"{', '.join(gone)} died: starting again")
            self._stack.up(gone, Silent())
            self.healed += 1
            self._tell(f"{', '.join(gone)} is up again after {time.monotonic() - began:.0f} s")
        if self._driver.mend():
            self.healed += 1
            self._tell("the pipeline ended: started again, it goes on from its last batch")
