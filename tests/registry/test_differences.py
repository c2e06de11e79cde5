"""Where the local registry answers otherwise than Confluent's: exactly what is written down."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import DeclarationError, TransientError
from penstock.registry.json_document import DRAFT
from penstock.registry.schema import Schema
from tests.registry.pairs import PAIRS

if TYPE_CHECKING:
    from penstock.registry.client import Registry
    from tests.registry.pair_kinds import Pair

WRITTEN = Path(__file__).with_name("differences.txt")


def schema(kind: str, text: str) -> Schema:
    """A schema of a pair; of a JSON Schema this registry must be told the draft."""
    told = json.loads(text) if kind == "JSON" else None
    return Schema(kind, json.dumps({"$schema": DRAFT, **told}) if isinstance(told, dict) else text)


def answer(registry: Registry, subject: str, level: str, pair: Pair) -> str:
    """What the registry says of the new schema: taken, refused, or that it can't be asked."""
    try:
        registry.set_level(level, subject)
        taken, _ = registry.compatible(subject, schema(pair.kind, pair.new))
    except (DeclarationError, TransientError):
        return "an error"
    return "taken" if taken else "refused"


def test_the_local_registry_differs_only_where_it_is_written_down(registry: Registry, subject: str) -> None:
    found = []
    for number, pair in enumerate(PAIRS):
        own = f"{subject}-{number}"
        try:
            registry.register(own, schema(pair.kind, pair.old))
        except (DeclarationError, TransientError):
            found.append(f"{pair.name}: the old schema is not taken at all")
            continue
        for level, allowed in (("BACKWARD", pair.backward), ("FORWARD", pair.forward)):
            said, wanted = answer(registry, own, level, pair), "taken" if allowed else "refused"
            if said != wanted:
                found.append(f"{pair.name}: {level} is {said} here, {wanted} by Confluent's")
    assert found == WRITTEN.read_text(encoding="utf-8").splitlines()
