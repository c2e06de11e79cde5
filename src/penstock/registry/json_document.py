"""A JSON Schema as a document: what its text says, and what it refers to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.errors import DeclarationError
from penstock.registry.schema import parsed

__all__ = ["DRAFT", "JsonDocument", "json_document"]

DRAFT = "http://json-schema.org/draft-07/schema#"
_DEPTH = 64


@dataclass(frozen=True)
class JsonDocument:
    """A schema with what it refers to: the whole text, and other documents by their names."""

    root: Any
    others: dict[str, Any]

    def resolved(self, told: Any) -> Any:
        """A schema without `$ref` at its top."""
        for _ in range(_DEPTH):
            if not isinstance(told, dict) or "$ref" not in told:
                return told
            told = self._find(str(told["$ref"]))
        raise _invalid("a $ref refers to itself")

    def _find(self, reference: str) -> Any:
        name, _, path = reference.partition("#")
        found = self.root if not name else self.others.get(name)
        if found is None:
            raise _invalid(f"$ref {reference!r} is not among its references")
        for part in path.split("/")[1:]:
            part = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, dict) or part not in found:
                raise _invalid(f"$ref {reference!r} leads nowhere")
            found = found[part]
        return found


def json_document(text: str, used: dict[str, str] | None = None, place: str = "schema") -> JsonDocument:
    """The document that a schema's text says; `used` are others by the names that it refers to."""
    root = parsed(text, place)
    if not isinstance(root, dict | bool):
        raise _invalid("it is neither an object nor true or false")
    return JsonDocument(root, {name: _anchored(parsed(one, place), name) for name, one in (used or {}).items()})


def _anchored(told: Any, name: str) -> Any:
    """Another document whose own references name it."""
    if isinstance(told, list):
        return [_anchored(one, name) for one in told]
    if not isinstance(told, dict):
        return told
    made = {word: _anchored(one, name) for word, one in told.items()}
    if str(made.get("$ref", "")).startswith("#"):
        made["$ref"] = f"{name}{made['$ref']}"
    return made


def _invalid(said: str) -> DeclarationError:
    return DeclarationError(f"A JSON Schema is not valid: {said}.", code="schema-invalid", remedy="Correct it.")
