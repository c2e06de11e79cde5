"""Processes of ours, known by a mark in their environment: another program is never taken for one.

No pid is kept in a file, so none can go stale: the mark is read from /proc, and a signal goes through a pidfd
that was opened before the mark was read, so that it can't hit a program that got the number later.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.local.account import Account

__all__ = ["Command", "Process", "find", "spawn", "working_in"]

_MARK = "PENSTOCK_PROCESS"
_PROC = Path("/proc")
_children: list[subprocess.Popen[bytes]] = []  # kept so that they are reaped and never warned about


@dataclass(frozen=True)
class Command:
    """What to start: a name, the words, where, as whom."""

    name: str
    words: tuple[str, ...]
    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    account: Account | None = None


@dataclass(frozen=True)
class Process:
    """A process of ours that was alive when it was looked for."""

    name: str
    pid: int
    mark: bytes

    def memory(self) -> int:
        """Bytes of memory that it and its children hold for themselves and their share of the common."""
        return sum(_memory(pid) for pid in (self.pid, *_descendants(self.pid)))

    def signal(self, number: int) -> bool:
        """Send a signal to exactly this process; False if it is gone."""
        try:
            handle = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return False
        try:
            if _mark_of(self.pid) != self.mark:
                return False
            signal.pidfd_send_signal(handle, number)
        except ProcessLookupError:
            return False
        finally:
            os.close(handle)
        return True

    def wait(self, seconds: float) -> bool:
        """Wait for its end; False if it is still alive then."""
        _reap()
        try:
            handle = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return True
        try:
            if _mark_of(self.pid) not in (self.mark, b""):  # a dying process has lost its mark already
                return True
            ended = bool(select.select([handle], [], [], seconds)[0])
        finally:
            os.close(handle)
        _reap()
        return ended


def spawn(command: Command, home: Path, log: Path) -> Process:
    """Start a command in a session of its own, marked as ours, its words appended to a log."""
    log.parent.mkdir(parents=True, exist_ok=True)
    mark = f"{home}:{command.name}"
    environment = {**os.environ, **command.environment, _MARK: mark}
    entry = command.account.entry if command.account else None
    with log.open("ab") as out:
        child = subprocess.Popen(
            command.words,
            cwd=command.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            user=entry.pw_uid if entry else None,
            group=entry.pw_gid if entry else None,
            extra_groups=[] if entry else None,
        )
    _children.append(child)
    return Process(command.name, child.pid, mark.encode())


def find(home: Path) -> dict[str, Process]:
    """All living processes of a home, by name."""
    _reap()
    prefix = f"{home}:".encode()
    marked = {}
    for entry in os.scandir(_PROC):
        if entry.name.isdigit() and (mark := _mark_of(int(entry.name))).startswith(prefix):
            marked[int(entry.name)] = mark
    own = [pid for pid in marked if _parent(pid) not in marked]  # a service's children carry its mark too
    return {(name := marked[pid].removeprefix(prefix).decode()): Process(name, pid, marked[pid]) for pid in own}


def working_in(folder: Path) -> list[int]:
    """The processes whose working folder this is."""
    found = []
    for entry in os.scandir(_PROC):
        try:
            if entry.name.isdigit() and (_PROC / entry.name / "cwd").readlink() == folder:
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def _mark_of(pid: int) -> bytes:
    wanted = f"{_MARK}=".encode()
    try:
        environment = (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return b""
    return next((one.removeprefix(wanted) for one in environment.split(b"\0") if one.startswith(wanted)), b"")


def _parent(pid: int) -> int:
    try:
        return int((_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, ValueError):
        return 0


def _descendants(pid: int) -> list[int]:
    try:
        children = (_PROC / str(pid) / "task" / str(pid) / "children").read_text().split()
    except OSError:
        return []
    return [one for child in children for one in (int(child), *_descendants(int(child)))]


def _memory(pid: int) -> int:
    try:
        lines = (_PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))


def _reap() -> None:
    _children[:] = [child for child in _children if child.poll() is None]
