"""A snapshot on demand, asked for in the place that a stopped connector has noted.

Debezium also takes such a wish as a signal, but then two of its threads read the first rows: one loses its way when a
change comes in that moment, and the table is left out. A connector that starts finds the wish in its place, before any
change.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["asked_for", "with_tables"]

_TABLES = "incremental_snapshot_collections"
_TABLE = f"{_TABLES}_id"


def with_tables(places: Sequence[dict[str, Any]], tables: Sequence[str]) -> list[dict[str, Any]]:
    """The places of a connector with the wish for the rows of tables, after those that are asked for already."""
    return [place | {"offset": _wishing(place["offset"], tables)} for place in places]


def asked_for(places: Sequence[dict[str, Any]]) -> list[str]:
    """The tables whose rows are still to come."""
    return [one[_TABLE] for place in places for one in _tables(place["offset"])]


def _wishing(offset: dict[str, Any], tables: Sequence[str]) -> dict[str, Any]:
    known = _tables(offset)
    return offset | {_TABLES: json.dumps([*known, *({_TABLE: one} for one in tables)])}


def _tables(offset: dict[str, Any] | None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((offset or {}).get(_TABLES) or "[]")
    return found
