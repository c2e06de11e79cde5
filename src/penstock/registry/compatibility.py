"""Whether a schema may follow others, by the seven modes of Confluent's registries; what breaks whom, if not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.errors import DeclarationError
from penstock.registry.avro import avro_problems, avro_type
from penstock.registry.json_document import json_document
from penstock.registry.json_schema import json_problems
from penstock.registry.schema import Problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.registry.schema import Registered, Schema

__all__ = ["LEVELS", "Break", "breaks", "can_read"]

LEVELS = (
    "BACKWARD",
    "BACKWARD_TRANSITIVE",
    "FORWARD",
    "FORWARD_TRANSITIVE",
    "FULL",
    "FULL_TRANSITIVE",
    "NONE",
)


@dataclass(frozen=True)
class Break:
    """A change that is not allowed: who reads whose rows, and why that fails."""

    reader: str
    writer: str
    problem: Problem

    def __str__(self) -> str:
        told = self.problem
        return f"{told.where}: {self.reader} can't read {self.writer}: {told.what}; allowed: {told.allowed}"


def breaks(level: str, new: Schema, versions: Sequence[Registered]) -> list[Break]:
    """What a new schema would break after these versions, oldest first; empty if it may follow."""
    if level not in LEVELS:
        raise DeclarationError(
            f"{level!r} is no compatibility.", code="level-unknown", remedy=f"Use one of {', '.join(LEVELS)}."
        )
    if level == "NONE" or not versions:
        return []
    compared = versions if level.endswith("_TRANSITIVE") else versions[-1:]
    found: list[Break] = []
    for one in reversed(compared):
        old = f"version {one.version}"
        if level.startswith(("BACKWARD", "FULL")):
            who = "a consumer with the new schema", f"rows of {old}"
            found += [Break(*who, problem) for problem in can_read(new, one.schema)]
        if level.startswith(("FORWARD", "FULL")):
            who = f"a consumer with {old}", "rows of the new schema"
            found += [Break(*who, problem) for problem in can_read(one.schema, new)]
    return found


def can_read(reader: Schema, writer: Schema) -> list[Problem]:
    """Where one schema can't read the rows of another."""
    if reader.kind != writer.kind:
        return [Problem("the schema", f"it is {reader.kind} and was {writer.kind}", writer.kind)]
    if reader.kind == "AVRO":
        types = (avro_type(one.text, tuple(text for _, text in one.used)) for one in (reader, writer))
        return avro_problems(*types)
    if reader.kind == "JSON":
        documents = (json_document(one.text, dict(one.used)) for one in (reader, writer))
        return json_problems(*documents)
    from penstock.registry.protobuf import compiled, protobuf_problems

    return protobuf_problems(*(compiled(one.text, one.used) for one in (reader, writer)))
