"""Ports on 127.0.0.1: the usual one if free, else the next free, remembered."""

from __future__ import annotations

import errno
import socket
import time
from typing import TYPE_CHECKING

from penstock.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["choose", "is_free"]

_TRIES = 100
_RELEASE_SECONDS = 3.0


def is_free(port: int) -> bool:
    """Whether a service could listen on that port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
            probe.listen(1)
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                return False
            raise
    return True


def choose(
    wanted: Mapping[str, int],
    *,
    pinned: Mapping[str, int],
    remembered: Mapping[str, int],
    say: Callable[[str], None],
) -> dict[str, int]:
    """A free port for each name; a pinned one that is taken is refused, any other moves on and says so."""
    chosen: dict[str, int] = {}
    reserved = set(pinned.values()) | {port for name, port in remembered.items() if name not in wanted}
    for name, usual in wanted.items():
        if name in pinned:
            chosen[name] = _pinned(name, pinned[name])
            continue
        first = remembered.get(name, usual)
        if name in remembered:
            _await_release(first)
        chosen[name] = _next_free(name, first, reserved | set(chosen.values()))
        if chosen[name] != first:
            say(f"Port {first} is taken by another program; {name} listens on {chosen[name]}.")
    return chosen


def _await_release(port: int) -> None:
    """A process of ours that was just killed holds its port for a moment longer."""
    deadline = time.monotonic() + _RELEASE_SECONDS
    while not is_free(port) and time.monotonic() < deadline:
        time.sleep(0.05)


def _pinned(name: str, port: int) -> int:
    _await_release(port)
    if is_free(port):
        return port
    raise SetupError(
        f"Port {port}, which penstock.toml fixes for {name}, is taken by another program.",
        code="port-taken",
        remedy=f"Stop that program (`ss -ltnp 'sport = :{port}'` names it) or change local.ports.{name}.",
    )


def _next_free(name: str, first: int, reserved: set[int]) -> int:
    for port in range(first, min(first + _TRIES, 65536)):
        if port not in reserved and is_free(port):
            return port
    raise SetupError(
        f"No port from {first} on is free for {name}.",
        code="port-taken",
        remedy=f"Stop what holds them, or fix another port in penstock.toml: local.ports.{name}.",
    )
