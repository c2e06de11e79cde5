"""A Kafka record as Python data, and the way back."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from confluent_kafka import Message

__all__ = ["Record", "encode"]


@dataclass(frozen=True)
class Record:
    """One record with its place in the log."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()

    @classmethod
    def of(cls, message: Message) -> Record:
        """Take a record out of the client's message."""
        return cls(
            topic=message.topic() or "",
            partition=message.partition() or 0,
            offset=message.offset() or 0,
            timestamp=message.timestamp()[1],
            key=_bytes(message.key()),
            value=_bytes(message.value()),
            headers=tuple((one[0], _bytes(one[1])) for one in message.headers() or ()),
        )

    def json(self) -> Any:
        """The value read as JSON."""
        return json.loads(self.value or b"null")


def encode(value: Any) -> bytes | None:
    """Bytes as they are, text as UTF-8, None as a tombstone, anything else as JSON."""
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
