"""The envelope of a row that can't be used: one form, whoever refuses it."""

from __future__ import annotations

import base64
import time
from typing import TYPE_CHECKING, Any

from penstock.broker.topics import Topics

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.settings import Kafka

__all__ = ["dead_letters", "envelope", "open_dead_letters"]

_LARGEST = 64 << 20


def dead_letters(pipeline: str) -> str:
    """The topic of a pipeline's dead letters."""
    return f"{pipeline}-dead-letters"


def open_dead_letters(kafka: Kafka, pipeline: str) -> str:
    """The topic of a pipeline's dead letters, made if it is not there."""
    name = dead_letters(pipeline)
    Topics(kafka).ensure(name, config={"max.message.bytes": str(_LARGEST)})
    return name


def envelope(
    pipeline: str, stage: str, rule: str, message: str, origin: Mapping[str, Any]
) -> tuple[bytes | None, dict[str, Any]]:
    """A row in its envelope, with its key; the origin has topic, partition, offset, key and value as far as known."""
    value, key = origin.get("value"), origin.get("key")
    raw = bytes(value) if isinstance(value, bytes | bytearray) else value
    letter = {
        "topic": origin.get("topic"),
        "partition": origin.get("partition"),
        "offset": origin.get("offset"),
        "key": _text(key),
        "value": _text(raw),
        "stage": stage,
        "rule": rule,
        "message": message,
        "pipeline": pipeline,
        "attempt": 1,
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    if letter["value"] is None and raw is not None:
        letter["value_base64"] = base64.b64encode(raw).decode()
    return (key.encode() if isinstance(key, str) else bytes(key) if key is not None else None), letter


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    try:
        return bytes(value).decode()
    except UnicodeDecodeError:
        return None
