"""The folder `.penstock/`: what the local services keep, and what is remembered about them."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
import tempfile
from typing import TYPE_CHECKING, Any

from penstock.errors import SetupError
from penstock.settings import local_state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

__all__ = ["Home"]

_ROOM_NEEDED = 512 << 20


class Home:
    """Where the local services of one project live."""

    def __init__(self, project: Path, folder: Path) -> None:
        self.project = project
        self.folder = folder

    def data(self, name: str) -> Path:
        """A process's own data."""
        return self.folder / "data" / name

    def config(self, name: str) -> Path:
        """A process's configuration, written anew at each start."""
        return self.folder / "config" / name

    def log(self, name: str) -> Path:
        """What a process printed."""
        return self.folder / "logs" / f"{name}.log"

    @property
    def temporary(self) -> Path:
        """For what the services unpack while they run."""
        return self.folder / "tmp"

    def state(self) -> dict[str, Any]:
        """What is remembered from one `up` to the next."""
        return local_state(self.project)

    def remember(self, **changes: Any) -> None:
        """Keep these values beside those already remembered."""
        path = self.folder / "state.json"
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps({**self.state(), **changes}, indent=2) + "\n", encoding="utf-8")
        fresh.replace(path)

    def prepare(self) -> None:
        """Make the folder; refuse one that can't be written or has no room."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.folder, buffering=0) as probe:  # of our own: two may look at once
                probe.write(os.urandom(1 << 16))
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise self._full() from error
            raise SetupError(
                f"{self.folder} can't be written ({error.strerror}).",
                code="home-unwritable",
                remedy="Make that folder writable for you, or work in another project folder.",
            ) from error
        if shutil.disk_usage(self.folder).free < _ROOM_NEEDED:
            raise self._full()

    def lay_out(self) -> None:
        """Make the folders in it; under the lock, since a `down --wipe` that was waited for has removed them."""
        for name in ("data", "config", "logs", "tmp"):
            (self.folder / name).mkdir(exist_ok=True)

    def _full(self) -> SetupError:
        free = shutil.disk_usage(self.folder).free >> 20
        return SetupError(
            f"The disk of {self.folder} has {free} MiB free; the services need {_ROOM_NEEDED >> 20} MiB.",
            code="disk-full",
            remedy="Free some space (old data goes with `penstock down --wipe`) and run it again.",
        )

    @contextlib.contextmanager
    def locked(self, waiting: Callable[[str], None]) -> Iterator[None]:
        """Hold the only right to start and stop services here; another holder is waited for."""
        with (self.folder / "lock").open("a+") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                handle.seek(0)
                waiting(f"Another penstock (pid {handle.read().strip()}) is at work in {self.folder}; waiting for it.")
                fcntl.flock(handle, fcntl.LOCK_EX)
            handle.truncate(0)
            handle.write(str(os.getpid()))
            handle.flush()
            yield
            handle.truncate(0)
