"""Memory of the driver that is not Python's own: few heaps for all threads, or each keeps what it is given back."""

from __future__ import annotations

import ctypes
from contextlib import suppress

__all__ = ["few_arenas"]

_M_ARENA_MAX = -8  # as glibc numbers it
_ARENAS = 2


def few_arenas() -> None:
    """Let the C library keep two heaps instead of eight for each core; another one than glibc is left alone."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, _ARENAS)
