"""The subject under which the schema of a topic is registered."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from penstock.errors import DeclarationError

if TYPE_CHECKING:
    from penstock.registry.schema import Schema

__all__ = ["STRATEGIES", "record_name", "subject_of"]

STRATEGIES = ("topic", "record", "topic-record")


def subject_of(strategy: str, topic: str, schema: Schema | None = None, *, key: bool = False) -> str:
    """By the topic (`orders-value`), the record (`shop.Order`) or both (`orders-shop.Order`)."""
    if strategy == "topic":
        return f"{topic}-{'key' if key else 'value'}"
    if schema is None:
        raise DeclarationError(
            f"The subject of {topic} is named by its record, and no schema was given.",
            code="subject-unknown",
            remedy="Give the schema, or use subject='topic'.",
        )
    name = record_name(schema)
    return name if strategy == "record" else f"{topic}-{name}"


def record_name(schema: Schema) -> str:
    """The full name of what a schema describes."""
    if schema.kind == "PROTOBUF":
        from penstock.registry.protobuf import compiled

        file = compiled(schema.text, schema.used).file[-1]
        return f"{file.package}.{file.message_type[0].name}".lstrip(".")
    told = json.loads(schema.text)
    if schema.kind == "JSON":
        return str(told.get("title", "")) if isinstance(told, dict) else ""
    name, space = str(told.get("name", "")), str(told.get("namespace", ""))
    return name if "." in name or not space else f"{space}.{name}"
