"""Rules beside a schema: what a row must be that a type can't say.

They are kept in the registry under `<subject>.rules`, so that whoever finds the schema finds them:

    {"rules": {"amount": {"required": true, "at_least": 0}, "order_id": {"unique_within": "1 hour"}}}
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.errors import DeclarationError
from penstock.registry.json_document import DRAFT
from penstock.registry.schema import Schema, parsed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.registry.client import Registry

__all__ = ["UNIQUE", "Contract", "Rule", "contract_of", "keep_contract", "read_contract", "rules_subject"]

UNIQUE = "unique_within"
_KINDS = ("required", "at_least", "at_most", "pattern", "one_of", UNIQUE)
_DURATION = re.compile(r"(\d+(?:\.\d+)?) (second|minute|hour|day)s?")
_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}
_WORD = "x-penstock-rules"


@dataclass(frozen=True)
class Rule:
    """One demand on one field; a field of a nested record is named with dots."""

    field: str
    kind: str
    value: Any

    @property
    def name(self) -> str:
        """The demand in words."""
        said = {
            "required": "is there",
            "at_least": f"is at least {self.value}",
            "at_most": f"is at most {self.value}",
            "pattern": f"is like {self.value}",
            "one_of": f"is one of {', '.join(map(str, self.value)) if self.kind == 'one_of' else ''}",
            UNIQUE: f"is unique within {self.value}",
        }
        return f"{self.field} {said[self.kind]}"

    @property
    def seconds(self) -> float:
        """The time within which a value is unique."""
        found = _DURATION.fullmatch(str(self.value))
        return float(found[1]) * _SECONDS[found[2]] if found else 0.0

    def value_in(self, row: Mapping[str, Any]) -> Any:
        """What a row has there."""
        value: Any = row
        for part in self.field.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        return value

    def holds(self, row: Mapping[str, Any]) -> bool:
        """Whether a row by itself keeps it; what is not there is the business of `required` alone."""
        value = self.value_in(row)
        if value is None:
            return self.kind != "required"
        if self.kind in ("at_least", "at_most"):
            try:
                return bool(value >= self.value if self.kind == "at_least" else value <= self.value)
            except TypeError:  # text where a number should be
                return False
        if self.kind == "pattern":
            return re.search(self.value, str(value)) is not None
        return value in self.value if self.kind == "one_of" else True


@dataclass(frozen=True)
class Contract:
    """All rules of a subject."""

    rules: tuple[Rule, ...] = ()

    def broken(self, row: Mapping[str, Any]) -> Rule | None:
        """The first rule that a row breaks."""
        return next((rule for rule in self.rules if not rule.holds(row)), None)

    def text(self) -> str:
        """As a file has it."""
        told: dict[str, dict[str, Any]] = {}
        for rule in self.rules:
            told.setdefault(rule.field, {})[rule.kind] = rule.value
        return json.dumps({"rules": told}, indent=2)


def read_contract(text: str, place: str) -> Contract:
    """The rules that a file says."""
    told = parsed(text, place)
    if not isinstance(told, dict) or not isinstance(told.get("rules"), dict):
        raise _wrong('they are not under "rules"', place)
    found = []
    for field, demands in told["rules"].items():
        if not isinstance(demands, dict):
            raise _wrong(f"those of {field!r} are no object", place)
        for kind, value in demands.items():
            _check(field, kind, value, place)
            if value is not False:
                found.append(Rule(field, kind, tuple(value) if kind == "one_of" else value))
    return Contract(tuple(found))


def rules_subject(subject: str) -> str:
    """Where the rules of a subject are kept."""
    return f"{subject}.rules"


def contract_of(registry: Registry, subject: str) -> Contract:
    """The rules of a subject, none if it has none."""
    found = registry.version(rules_subject(subject))
    if found is None:
        return Contract()
    return read_contract(json.dumps({"rules": json.loads(found.schema.text).get(_WORD, {})}), rules_subject(subject))


def keep_contract(registry: Registry, subject: str, contract: Contract) -> int:
    """Keep the rules beside the schema; older ones stay as versions."""
    told = {"$schema": DRAFT, "title": f"rules of {subject}", _WORD: json.loads(contract.text())["rules"]}
    where = rules_subject(subject)
    first = not registry.versions(where)
    number = registry.register(where, Schema("JSON", json.dumps(told)))
    if first:  # rules may change as they like
        registry.set_level("NONE", where)
    return number


def _check(field: str, kind: str, value: Any, place: str) -> None:
    if kind not in _KINDS:
        raise _wrong(f"{field!r} has {kind!r}, which is none of {', '.join(_KINDS)}", place)
    right = {
        "required": isinstance(value, bool),
        "at_least": isinstance(value, int | float | str) and not isinstance(value, bool),
        "at_most": isinstance(value, int | float | str) and not isinstance(value, bool),
        "pattern": isinstance(value, str) and _is_pattern(value),
        "one_of": isinstance(value, list) and len(value) > 0,
        UNIQUE: isinstance(value, str) and _DURATION.fullmatch(value) is not None,
    }
    if not right[kind]:
        raise _wrong(f"{kind} of {field!r} can't be {value!r}", place)


def _is_pattern(text: str) -> bool:
    try:
        re.compile(text)
    except re.error:
        return False
    return True


def _wrong(said: str, place: str) -> DeclarationError:
    return DeclarationError(
        f"Rules are not as they must be: {said}.",
        code="rules-invalid",
        place=place,
        remedy='Write {"rules": {"amount": {"required": true, "at_least": 0}}}.',
    )
