"""A schema as the registry keeps it: its kind, its text, what it refers to."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.errors import DeclarationError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["KINDS", "Problem", "Reference", "Registered", "Schema", "read_schema", "reference"]

_REFERENCE = re.compile(r"(?P<name>.+)=(?P<subject>.+):(?P<version>\d+)")
KINDS = {"AVRO": ".avsc", "JSON": ".json", "PROTOBUF": ".proto"}


@dataclass(frozen=True)
class Reference:
    """Another schema that a schema uses, under a name."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True)
class Schema:
    """One schema; two of the same content are equal.

    `used` are the texts that it refers to, by name, those that they need first; the registry gives them.
    """

    kind: str
    text: str
    references: tuple[Reference, ...] = ()
    used: tuple[tuple[str, str], ...] = field(default=(), compare=False)

    def pretty(self) -> str:
        """The text as a person reads it."""
        return self.text.strip() if self.kind == "PROTOBUF" else json.dumps(json.loads(self.text), indent=2)

    def same(self, other: Schema) -> bool:
        """Whether both say the same, however they are written."""
        if self.kind != other.kind or self.references != other.references:
            return False
        if self.kind == "PROTOBUF":
            return self.text.split() == other.text.split()
        return bool(json.loads(self.text) == json.loads(other.text))


@dataclass(frozen=True)
class Registered:
    """A schema that the registry knows, with its place."""

    subject: str
    version: int
    id: int
    schema: Schema


@dataclass(frozen=True)
class Problem:
    """Where a reader can't take what a writer wrote: the place, what is wrong, what would do."""

    where: str
    what: str
    allowed: str


def read_schema(path: Path, references: tuple[Reference, ...] = ()) -> Schema:
    """A schema from a file; its kind is that of the file's ending."""
    kind = next((kind for kind, ending in KINDS.items() if path.suffix == ending), None)
    if kind is None:
        raise DeclarationError(
            f"{path} is no schema by its name.",
            code="schema-kind",
            remedy=f"Name it {', '.join(f'*{ending} ({kind})' for kind, ending in KINDS.items())}.",
        )
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DeclarationError(
            f"{path} can't be read ({error}).", code="schema-file", remedy="Name a readable file."
        ) from error
    if kind != "PROTOBUF":
        parsed(text, str(path))
    return Schema(kind, text, references)


def reference(text: str) -> Reference:
    """A reference as it is written: NAME=SUBJECT:VERSION."""
    match = _REFERENCE.fullmatch(text)
    if match is None:
        raise DeclarationError(
            f"{text!r} is no reference.", code="reference-invalid", remedy="Write NAME=SUBJECT:VERSION."
        )
    return Reference(match["name"], match["subject"], int(match["version"]))


def parsed(text: str, place: str) -> object:
    """JSON text, or the line where it is none."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise DeclarationError(
            f"A schema is no JSON: {error}.", code="schema-invalid", place=place, remedy="Correct it there."
        ) from error
    except RecursionError as error:
        raise DeclarationError(
            "A schema is nested too deeply.", code="schema-invalid", place=place, remedy="Make it flatter."
        ) from error
