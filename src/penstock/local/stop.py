"""Stopping: what needs others first, each by its own signal, nothing left behind."""

from __future__ import annotations

import shutil
import time
from signal import SIGKILL
from typing import TYPE_CHECKING

from penstock.local.services import process_owner

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.local.home import Home
    from penstock.local.processes import Process
    from penstock.local.progress import Progress

__all__ = ["stop", "wipe"]

_SECONDS = 30
_SECONDS_WITHOUT_DATA = 3  # nothing is left to be saved


def stop(running: Iterable[Process], progress: Progress, *, remove_data: bool = False) -> None:
    """End these processes, dependants before what they need; quickly if their data is removed anyway."""
    everything = list(running)
    seconds = _SECONDS_WITHOUT_DATA if remove_data else _SECONDS
    dependants = [process for process in everything if process_owner(process.name).needs]
    _stop_together(dependants, progress, seconds)
    _stop_together([process for process in everything if process not in dependants], progress, seconds)


def wipe(home: Home) -> None:
    """Remove all data, logs and memory of the local services, and what points into it: state, lake, schemas by id."""
    for name in ("data", "config", "logs", "tmp", "state", "lake", "schemas", "secrets"):
        for path in home.folder.glob(f"{name}/*"):
            if path.is_symlink():  # kept outside for an account that can't reach the project folder
                shutil.rmtree(path.resolve(), ignore_errors=True)
                path.unlink()
        shutil.rmtree(home.folder / name, ignore_errors=True)
    (home.folder / "state.json").unlink(missing_ok=True)


def _stop_together(group: list[Process], progress: Progress, seconds: float) -> None:
    for process in group:
        process.signal(process_owner(process.name).stop_signal)
    began = time.monotonic()
    for process in group:
        while not process.wait(0.25):
            waited = time.monotonic() - began
            progress.update(process.name, waited / seconds, 1, "stopping")
            if waited > seconds:
                if seconds == _SECONDS:
                    progress.say(f"{process.name} did not stop within {_SECONDS} s and is killed.")
                process.signal(SIGKILL)
                process.wait(10)
                break
        progress.update(process.name, 1, 1, "stopped")
