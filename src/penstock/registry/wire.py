"""How a message says its schema: a zero byte, the id in four bytes, for Protobuf the path to the message within it."""

from __future__ import annotations

import struct

__all__ = ["HEADER", "framed", "header", "message_path", "split"]

HEADER = 5
_MAGIC = b"\x00"


def header(number: int) -> bytes:
    """The first bytes of every message of a schema."""
    return _MAGIC + struct.pack(">I", number)


def framed(number: int, body: bytes) -> bytes:
    """A body with its header."""
    return header(number) + body


def split(message: bytes) -> tuple[int, bytes] | None:
    """The schema's id and the body, None if these are not such bytes."""
    if len(message) < HEADER or message[:1] != _MAGIC:
        return None
    return struct.unpack(">I", message[1:HEADER])[0], message[HEADER:]


def message_path(body: bytes) -> tuple[tuple[int, ...], bytes] | None:
    """The path to a Protobuf message within its file, and what is left; None if it is cut off."""
    count, at = _zigzag(body, 0)
    if at < 0 or count < 0 or count > len(body):
        return None
    path = []
    for _ in range(count):
        number, at = _zigzag(body, at)
        if at < 0 or number < 0:
            return None
        path.append(number)
    return tuple(path) or (0,), body[at:]


def _zigzag(body: bytes, at: int) -> tuple[int, int]:
    """A number of varying length from a place on, and the place after it; -1 if it is cut off."""
    value = shift = 0
    while at < len(body) and shift < 64:
        byte = body[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return (value >> 1) ^ -(value & 1), at
    return 0, -1
