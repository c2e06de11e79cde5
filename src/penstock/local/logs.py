"""What the services print: kept in a file each, turned over at a start, explained when one fails."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from penstock.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["explain_failure", "follow", "last_lines", "turn_over"]

_KEPT_BYTES = 16 << 20
_CAUSES = {
    "No space left on device": ("the disk is full", "Free some space and run it again."),
    "Read-only file system": ("its data folder is read-only", "Make the folder writable and run it again."),
    "Permission denied": ("a folder is closed to it", "Check who owns the data folder."),
    "Address already in use": ("its port was taken meanwhile", "Run it again: another port is chosen."),
    "OutOfMemoryError": ("its heap is too small", "Give it more in penstock.toml: [local.heap]."),
    "insufficient memory": (
        "the machine has too little memory",
        "Stop something else, or start fewer services.",
    ),
    "Cannot allocate memory": (
        "the machine has too little memory",
        "Stop something else, or start fewer services.",
    ),
}


def turn_over(log: Path) -> None:
    """Begin a new log when the old one has grown large; the old one is kept once."""
    log.parent.mkdir(parents=True, exist_ok=True)
    if log.exists() and log.stat().st_size > _KEPT_BYTES:
        log.replace(log.with_suffix(".log.1"))


def last_lines(log: Path, count: int) -> tuple[list[str], int]:
    """The last lines of a log, and the place where they end."""
    if not log.exists():
        return [], 0
    with log.open("rb") as handle:
        handle.seek(max(0, handle.seek(0, os.SEEK_END) - 512 * max(count, 1)))
        return handle.read().decode(errors="replace").splitlines()[-count:], handle.tell()


def follow(log: Path, since: int) -> Iterator[str]:
    """The lines after a place as they are written, for ever, across a turn-over."""
    log.touch()
    handle = log.open(encoding="utf-8", errors="replace")
    try:
        handle.seek(since)
        while True:
            while line := handle.readline():
                yield line.rstrip("\n")
            if not log.exists() or log.stat().st_ino != os.fstat(handle.fileno()).st_ino:
                handle.close()
                log.touch()
                handle = log.open(encoding="utf-8", errors="replace")
            time.sleep(0.1)
    finally:
        handle.close()


def explain_failure(name: str, log: Path, what: str, since: int = 0) -> SetupError:
    """One sentence on why a service failed, read from what it printed since it was started."""
    text = ""
    if log.exists():
        with log.open("rb") as handle:
            handle.seek(since)
            text = handle.read().decode(errors="replace")
    for sign, (cause, remedy) in _CAUSES.items():
        if sign in text:
            return SetupError(f"{name} {what}: {cause}.", code="service-failed", remedy=remedy)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if "ERROR" in line or "FATAL" in line or "Exception" in line] or lines
    said = f" It said: {telling[-1][:300]}" if telling else ""
    return SetupError(
        f"{name} {what}.{said}", code="service-failed", remedy=f"See all it printed: penstock logs {name}"
    )
