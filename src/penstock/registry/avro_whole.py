"""An Avro schema in one text: what it refers to is put where it is first named."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from penstock.registry.avro import NAMED, PRIMITIVE, full_name

if TYPE_CHECKING:
    from penstock.registry.schema import Schema

__all__ = ["whole_avro"]


def whole_avro(schema: Schema) -> str:
    """The text of a schema with the definitions of all that it refers to."""
    if not schema.used:
        return schema.text
    others: dict[str, Any] = {}
    for _, text in schema.used:
        _collect(json.loads(text), "", others)
    return json.dumps(_Whole(others).made(json.loads(schema.text), ""))


class _Whole:
    """Walks through a schema; a name that is not defined yet is replaced by its definition."""

    def __init__(self, others: dict[str, Any]) -> None:
        self._others = others
        self._defined: set[str] = set()

    def made(self, told: Any, space: str) -> Any:
        """A type, complete."""
        if isinstance(told, str):
            return self._named(told, space)
        if isinstance(told, list):
            return [self.made(one, space) for one in told]
        kind = told["type"]
        if kind in NAMED:
            return self._definition(told, space)
        if kind in ("array", "map"):
            inner = "items" if kind == "array" else "values"
            return told | {inner: self.made(told[inner], space)}
        return told | {"type": self.made(kind, space)}

    def _named(self, name: str, space: str) -> Any:
        if name in PRIMITIVE:
            return name
        full = full_name(name, space)
        found = full if full in self._others else name if name in self._others else None
        if found is None or found in self._defined:
            return found or name
        return self._definition(self._others[found], "")

    def _definition(self, told: dict[str, Any], space: str) -> dict[str, Any]:
        full = full_name(told["name"], told.get("namespace", space))
        self._defined.add(full)
        within, _, short = full.rpartition(".")
        made = told | {"name": short, "namespace": within}
        if "fields" in told:
            made["fields"] = [one | {"type": self.made(one["type"], within)} for one in told["fields"]]
        return made


def _collect(told: Any, space: str, others: dict[str, Any]) -> None:
    """All named types of a text by their full names, each with its namespace."""
    if isinstance(told, list):
        for one in told:
            _collect(one, space, others)
    if not isinstance(told, dict):
        return
    if told["type"] in NAMED:
        full = full_name(told["name"], told.get("namespace", space))
        space, _, short = full.rpartition(".")
        others[full] = told | {"name": short, "namespace": space}
    inside = [told["type"], told.get("items"), told.get("values"), *(one["type"] for one in told.get("fields", ()))]
    for one in inside:
        _collect(one, space, others)
