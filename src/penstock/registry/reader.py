"""Messages of registered schemas as rows to look at, outside of any pipeline."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import fastavro

from penstock.errors import PenstockError, TransientError
from penstock.registry.avro_whole import whole_avro
from penstock.registry.client import Registry
from penstock.registry.wire import split

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.registry.schema import Schema
    from penstock.settings import Settings

__all__ = ["SchemaReader"]


class SchemaReader:
    """Reads each message by the schema that wrote it; while the registry is away, nothing new is learnt."""

    def __init__(self, settings: Settings) -> None:
        self._registry = Registry(settings.registry)
        self._known: dict[int, Callable[[bytes], Any] | None] = {}
        self._away = False

    def row(self, message: bytes | None) -> Any | None:
        """The row in a message, None if it names no schema that is known here, or is not of it."""
        found = split(message) if message else None
        decode = self._decoder(found[0]) if found else None
        if found is None or decode is None:
            return None
        try:
            return decode(found[1])
        except Exception:  # noqa: BLE001  bytes that only look like a message may fail anyhow
            return None

    def _decoder(self, number: int) -> Callable[[bytes], Any] | None:
        if number not in self._known and not self._away:
            try:
                schema = self._registry.by_id(number)
                self._known[number] = _decoder(schema) if schema else None
            except TransientError:
                self._away = True
            except PenstockError:
                self._known[number] = None
        return self._known.get(number)


def _decoder(schema: Schema) -> Callable[[bytes], Any]:
    """Bytes to rows by the kind of schema."""
    if schema.kind == "AVRO":
        avro = fastavro.parse_schema(json.loads(whole_avro(schema)))
        return lambda body: fastavro.schemaless_reader(io.BytesIO(body), avro, None)
    if schema.kind == "JSON":
        return json.loads
    from penstock.registry.protobuf import compiled
    from penstock.registry.protobuf_rows import decoded, message_name

    files = compiled(schema.text, schema.used).SerializeToString()
    first: dict[tuple[int, ...], str] = {(0,): message_name(files, (0,)) or ""}
    return lambda body: decoded(files, {0: first}, 0, body)
