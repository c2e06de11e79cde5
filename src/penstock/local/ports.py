"""Ports on 127.0.0.1: the usual one if free, else the next free, remembered."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType
    from typing import Self

__all__ = ["Claims", "choose", "is_free"]

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


class Claims:
    """Ports that a start has chosen: another start of this user leaves them alone until their services listen."""

    def __init__(self) -> None:
        self._held = ExitStack()
        self._folder = Path(tempfile.gettempdir()) / f"penstock-ports-{os.getuid()}"

    def __enter__(self) -> Self:
        self._folder.mkdir(mode=0o700, exist_ok=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held.close()

    def take(self, port: int) -> bool:
        """Claim a port, unless somebody listens there or is about to."""
        handle = (self._folder / str(port)).open("w")
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            handle.close()
            return False
        self._held.enter_context(handle)
        return is_free(port)


def choose(
    wanted: Mapping[str, int],
    claims: Claims,
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
            chosen[name] = _pinned(name, pinned[name], claims)
            continue
        first = remembered.get(name, usual)
        if name in remembered:
            _await_release(first)
        chosen[name] = _next_free(name, first, reserved | set(chosen.values()), claims)
        if chosen[name] != first:
            say(f"Port {first} is taken by another program; {name} listens on {chosen[name]}.")
    return chosen


def _await_release(port: int) -> None:
    """A process of ours that was just killed holds its port for a moment longer."""
    deadline = time.monotonic() + _RELEASE_SECONDS
    while not is_free(port) and time.monotonic() < deadline:
        time.sleep(0.05)


def _pinned(name: str, port: int, claims: Claims) -> int:
    _await_release(port)
    if claims.take(port):
        return port
    raise SetupError(
        f"Port {port}, which penstock.toml fixes for {name}, is taken by another program.",
        code="port-taken",
        remedy=f"Stop that program (`ss -ltnp 'sport = :{port}'` names it) or change local.ports.{name}.",
    )


def _next_free(name: str, first: int, reserved: set[int], claims: Claims) -> int:
    for port in range(first, min(first + _TRIES, 65536)):
        if port not in reserved and claims.take(port):
            return port
    raise SetupError(
        f"No port from {first} on is free for {name}.",
        code="port-taken",
        remedy=f"Stop what holds them, or fix another port in penstock.toml: local.ports.{name}.",
    )
