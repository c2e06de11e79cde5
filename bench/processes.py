"""Processes of this machine and what they take of it, out of /proc."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Process", "tree"]

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Process:
    """One process; the CPU of its children that have ended counts as its own."""

    pid: int
    parent: int
    name: str
    cpu_seconds: float
    mib: int


def tree(pid: int) -> list[Process]:
    """A process and all below it, as they are now."""
    pids = (int(one.name) for one in Path("/proc").iterdir() if one.name.isdigit())
    every = {one.pid: one for one in map(_read, pids) if one is not None}
    ours, fresh = {pid}, {pid}
    while fresh:
        fresh = {one.pid for one in every.values() if one.parent in fresh}
        ours |= fresh
    return [every[one] for one in sorted(ours) if one in every]


def _read(pid: int) -> Process | None:
    """None if it has ended meanwhile."""
    try:
        head, _, rest = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")
    except OSError:
        return None
    fields = rest.split()
    return Process(
        pid=pid,
        parent=int(fields[1]),
        name=head.partition("(")[2],
        cpu_seconds=sum(map(int, fields[11:15])) / _TICKS,
        mib=int(fields[21]) * _PAGE >> 20,
    )
