"""What a proposed schema would do to a subject: the differences, and what it breaks."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.errors import DeclarationError
from penstock.registry.compatibility import Break, breaks

if TYPE_CHECKING:
    from penstock.registry.client import Registry
    from penstock.registry.schema import Registered, Schema

__all__ = ["Judgement", "judge", "refuse_breaks", "text_diff"]


@dataclass(frozen=True)
class Judgement:
    """Whether a subject would take a schema: by our rules, and by the registry's own."""

    subject: str
    level: str
    known: int | None
    breaks: tuple[Break, ...]
    registry_agrees: bool
    registry_says: tuple[str, ...]

    @property
    def allowed(self) -> bool:
        """Whether it can be registered."""
        return not self.breaks and self.registry_agrees


def judge(registry: Registry, subject: str, schema: Schema) -> Judgement:
    """Ask our rules, which can tell why, and the registry, which has the last word."""
    schema = registry.whole(schema)
    versions = registry.history(subject)
    level = registry.level(subject)
    same = next((one.version for one in versions if one.schema.same(schema)), None)
    found = [] if same else breaks(level, schema, versions)
    agrees, says = (True, []) if same or not versions else registry.compatible(subject, schema)
    return Judgement(subject, level, same, tuple(found), agrees, tuple(says))


def refuse_breaks(registry: Registry, subject: str, schema: Schema) -> None:
    """Raise with what a schema would break as the next version of a subject."""
    found = judge(registry, subject, schema)
    if found.allowed:
        return
    why = str(found.breaks[0]) if found.breaks else "; ".join(found.registry_says) or "the registry does not say why"
    more = f" (and {len(found.breaks) - 1} more)" if len(found.breaks) > 1 else ""
    raise DeclarationError(
        f"Subject {subject} ({found.level}) refuses this schema: {why}{more}.",
        code="schema-incompatible",
        remedy="Change it so that it is allowed, or begin a new topic version (docs/schemas.md).",
    )


def text_diff(old: Registered, new: Schema, name: str) -> list[str]:
    """The lines that differ."""
    before, after = old.schema.pretty().splitlines(), new.pretty().splitlines()
    return list(difflib.unified_diff(before, after, f"{old.subject} version {old.version}", name, lineterm="", n=2))
