"""JSON Schema: which reader accepts all that which writer may write, by Confluent's rules."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from penstock.registry.schema import Problem

if TYPE_CHECKING:
    from penstock.registry.json_document import JsonDocument

__all__ = ["json_problems"]

_TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")
_AT_MOST = {
    "string": ("maxLength",),
    "number": ("maximum", "exclusiveMaximum"),
    "array": ("maxItems", "maxContains"),
    "object": ("maxProperties",),
}
_AT_LEAST = {
    "string": ("minLength",),
    "number": ("minimum", "exclusiveMinimum"),
    "array": ("minItems", "minContains"),
    "object": ("minProperties",),
}
_COMBINED = ("anyOf", "oneOf", "allOf")
_SAYS_NOTHING = (
    "$id",
    "id",
    "$schema",
    "$comment",
    "title",
    "description",
    "default",
    "examples",
    "definitions",
    "$defs",
)


def json_problems(reader: JsonDocument, writer: JsonDocument) -> list[Problem]:
    """Where the reader refuses what the writer may write."""
    found: list[Problem] = []
    _Comparison(reader, writer).compare(reader.root, writer.root, "", found)
    return found


class _Comparison:
    def __init__(self, reader: JsonDocument, writer: JsonDocument) -> None:
        self.reader = reader
        self.writer = writer
        self.begun: set[tuple[int, int]] = set()

    def compare(self, reader: Any, writer: Any, where: str, found: list[Problem]) -> None:
        reader, writer = _plain(self.reader.resolved(reader)), _plain(self.writer.resolved(writer))
        pair = (id(reader), id(writer))
        if writer is False or _is_open(reader) or pair in self.begun:
            return
        here = where or "the schema"
        if reader is False:
            found.append(Problem(here, "nothing is accepted", "a schema that accepts what was written"))
        elif _is_open(writer):
            found.append(Problem(here, "anything was allowed and is restricted", "no restriction"))
        else:
            self.begun.add(pair)
            self._compare_objects(reader, writer, where, found)
            self.begun.discard(pair)

    def fits(self, reader: Any, writer: Any, where: str) -> list[Problem]:
        found: list[Problem] = []
        self.compare(reader, writer, where, found)
        return found

    def _compare_objects(
        self, reader: dict[str, Any], writer: dict[str, Any], where: str, found: list[Problem]
    ) -> None:
        here = where or "the schema"
        of_reader, of_writer = _combined(reader), _combined(writer)
        if (of_reader or of_writer) and self._compare_combined(reader, writer, here, where, found):
            return
        types, written = _types(reader), _types(writer)
        missing = sorted(one for one in written if not _takes(types, one))
        if missing:
            found.append(
                Problem(
                    here, f"{' or '.join(missing)} was allowed, now {' or '.join(sorted(types))} is", "a wider type"
                )
            )
            return
        self._compare_values(reader, writer, here, found)
        for kind in ("string", "number", "array", "object"):
            if kind in written or (kind == "number" and "integer" in written):
                _compare_bounds(reader, writer, kind, here, found)
        if "object" in written:
            self._compare_properties(reader, writer, where, found)
        if "array" in written:
            self._compare_items(reader, writer, where, found)
        if "not" in reader:
            refused = (
                _Comparison(self.writer, self.reader).fits(writer["not"], reader["not"], where)
                if "not" in writer
                else True
            )
            if refused:
                found.append(Problem(f"{here}/not", "more is excluded than before", "an exclusion that is as narrow"))

    def _compare_values(self, reader: dict[str, Any], writer: dict[str, Any], here: str, found: list[Problem]) -> None:
        """`enum` and `const`: the values that are listed."""
        allowed, written = _values(reader), _values(writer)
        if allowed is None:
            return
        if ("const" in reader) != ("const" in writer) and written is not None:
            found.append(Problem(here, "a const and a list of values are two kinds", "the kind as it was"))
            return
        if written is None:
            found.append(Problem(here, "only listed values are accepted now", "no list of values"))
            return
        gone = [one for one in written if one not in allowed]
        if gone:
            found.append(Problem(here, f"{', '.join(map(repr, gone))} is no value any more", "the values as they were"))

    def _compare_combined(
        self, reader: dict[str, Any], writer: dict[str, Any], here: str, where: str, found: list[Problem]
    ) -> bool:
        """Unions and intersections; False if what is left must be compared as usual."""
        of_reader, of_writer = _combined(reader), _combined(writer)
        if of_reader and not of_writer:
            kind, parts = of_reader
            if kind != "allOf" or len(parts) == 1:
                if not any(not self.fits(one, writer, where) for one in parts):
                    found.append(
                        Problem(here, f"what was allowed is in no branch of {kind}", f"a branch of {kind} for it")
                    )
                return True
            for number, one in enumerate(parts):
                self.compare(one, writer, f"{here}/allOf/{number}", found)
            return True
        if of_writer and not of_reader:
            kind, parts = of_writer
            fitting = [not self.fits(reader, one, where) for one in parts]
            good = any(fitting) if kind == "allOf" else all(fitting)
            if not good:
                found.append(Problem(here, f"a branch of {kind} is not accepted any more", f"{kind} as it was"))
            return True
        assert of_reader
        assert of_writer
        self._compare_branches(of_reader, of_writer, here, found)
        return True

    def _compare_branches(
        self, reader: tuple[str, list[Any]], writer: tuple[str, list[Any]], here: str, found: list[Problem]
    ) -> None:
        (kind, parts), (was, written) = reader, writer
        alone, was_alone = len(parts) == 1, len(written) == 1
        widened = kind == "anyOf" or (was_alone and (alone or kind == "oneOf")) or (alone and was == "allOf")
        if kind != was and not widened:
            found.append(Problem(here, f"{was} became {kind}", was))
            return
        if kind == "allOf" and len(parts) > len(written):
            found.append(Problem(here, "allOf has a branch more", "allOf as it was"))
        elif was != "allOf" and len(parts) < len(written):
            found.append(Problem(here, f"{was} has a branch less", f"{was} as it was"))
        edges = {
            number: [other for other, one in enumerate(parts) if not self.fits(one, branch, f"{here}/{was}/{number}")]
            for number, branch in enumerate(written)
        }
        if _matched(edges) < min(len(parts), len(written)):
            found.append(Problem(here, f"the branches of {was} changed", "branches that accept what was written"))

    def _compare_properties(
        self, reader: dict[str, Any], writer: dict[str, Any], where: str, found: list[Problem]
    ) -> None:
        new, old = reader.get("properties", {}), writer.get("properties", {})
        required, was_required = set(reader.get("required", ())), set(writer.get("required", ()))
        for name in sorted({*new, *old}):
            path = f"{where}.{name}" if where else name
            if name not in new:
                self._compare_removed(reader, old[name], name, path, found)
            elif name not in old:
                self._compare_added(reader, writer, name, path, found)
            else:
                self.compare(new[name], old[name], path, found)
                if name in required - was_required and not _has_default(self.reader.resolved(new[name])):
                    found.append(Problem(path, "it is required now", "optional, or a default"))
        self._compare_demands(reader, writer, where, found)
        self._compare_rest(reader, writer, "additionalProperties", where, found)

    def _compare_demands(
        self, reader: dict[str, Any], writer: dict[str, Any], where: str, found: list[Problem]
    ) -> None:
        """What the presence of a property demands of others."""
        before = _demands(writer)
        for name, demand in _demands(reader).items():
            path = f"{where}.{name}" if where else name
            was = before.get(name)
            if isinstance(demand, list) and isinstance(was, list) and set(demand) <= set(was):
                continue
            if was is None or isinstance(demand, list) or isinstance(was, list):
                found.append(Problem(path, "it demands other properties now", "no demand"))
            else:
                self.compare(demand, was, path, found)

    def _compare_removed(self, reader: dict[str, Any], was: Any, name: str, path: str, found: list[Problem]) -> None:
        if _open_content(reader) or self.writer.resolved(was) is False:
            return
        rest = _rest_for(reader, name)
        if rest is None:
            found.append(Problem(path, "it is gone, and no other property is accepted", "the property as it was"))
        else:
            self.compare(rest, was, path, found)

    def _compare_added(
        self, reader: dict[str, Any], writer: dict[str, Any], name: str, path: str, found: list[Problem]
    ) -> None:
        made = self.reader.resolved(reader["properties"][name])
        required = name in reader.get("required", ())
        if _open_content(writer):
            if not _is_open(made):
                said = "it is new, and a writer of the open schema may have written anything there"
                found.append(Problem(path, said, "additionalProperties false in the schema before"))
            return
        rest = _rest_for(writer, name)
        if rest is not None:
            self.compare(made, rest, path, found)
        if required and not _has_default(made):
            found.append(Problem(path, "it is new and required", "optional, or a default"))

    def _compare_items(self, reader: dict[str, Any], writer: dict[str, Any], where: str, found: list[Problem]) -> None:
        new, old = _items(reader), _items(writer)
        for number in range(max(len(new.first), len(old.first))):
            path = f"{where}[{number}]"
            if number >= len(old.first):
                if old.rest is True and not _is_open(self.reader.resolved(new.first[number])):
                    found.append(Problem(path, "it is new, and anything may be there already", "no item more"))
                elif old.rest is not False and old.rest is not True:
                    self.compare(new.first[number], old.rest, path, found)
            elif number >= len(new.first):
                self.compare(new.rest, old.first[number], path, found)
            else:
                self.compare(new.first[number], old.first[number], path, found)
        self.compare(new.rest, old.rest, f"{where}[]", found)
        if reader.get("uniqueItems") and not writer.get("uniqueItems"):
            found.append(Problem(where or "the schema", "items must be unique now", "no uniqueItems"))

    def _compare_rest(
        self, reader: dict[str, Any], writer: dict[str, Any], word: str, where: str, found: list[Problem]
    ) -> None:
        """What properties that are not named may be."""
        self.compare(reader.get(word, True), writer.get(word, True), f"{where or 'the schema'}/{word}", found)


@dataclass(frozen=True)
class _Items:
    first: list[Any]
    rest: Any


def _items(told: dict[str, Any]) -> _Items:
    """Items by place, and the others; as draft 7 and as draft 2020-12 write it."""
    if "prefixItems" in told:
        return _Items(told["prefixItems"], told.get("items", True))
    if isinstance(told.get("items"), list):
        return _Items(told["items"], told.get("additionalItems", True))
    return _Items([], told.get("items", True))


def _compare_bounds(reader: dict[str, Any], writer: dict[str, Any], kind: str, here: str, found: list[Problem]) -> None:
    for word in (*_AT_MOST[kind], *_AT_LEAST[kind]):
        limit, was = reader.get(word), writer.get(word)
        if limit is None:
            continue
        if was is None:
            found.append(Problem(here, f"{word} {limit} is new", f"no {word}"))
        elif (limit < was) if word in _AT_MOST[kind] else (limit > was):
            found.append(Problem(here, f"{word} was {was} and is {limit}", f"{word} {was} or looser"))
    if kind == "string" and reader.get("pattern") not in (None, writer.get("pattern")):
        found.append(Problem(here, f"pattern {reader['pattern']!r} is new", "the pattern as it was, or none"))
    if kind == "number" and "multipleOf" in reader:
        step, was = Fraction(str(reader["multipleOf"])), writer.get("multipleOf")
        if was is None or Fraction(str(was)) % step:
            found.append(
                Problem(here, f"multipleOf {reader['multipleOf']} is new", "a divisor of what it was, or none")
            )


def _types(told: dict[str, Any]) -> set[str]:
    """The types that a schema allows; one that names none but has a type's words is of that type."""
    said = told.get("type")
    if said is None:
        if "properties" in told or "additionalProperties" in told or "required" in told:
            return {"object"}
        if "items" in told or "prefixItems" in told:
            return {"array"}
        return set(_TYPES)
    return set(said) if isinstance(said, list) else {str(said)}


def _takes(types: set[str], one: str) -> bool:
    return one in types or (one == "integer" and "number" in types)


def _values(told: dict[str, Any]) -> list[Any] | None:
    if "const" in told:
        return [told["const"]]
    found: list[Any] | None = told.get("enum")
    return found


def _combined(told: dict[str, Any]) -> tuple[str, list[Any]] | None:
    for word in _COMBINED:
        if word in told:
            return word, told[word]
    return None


def _open_content(told: dict[str, Any]) -> bool:
    return (
        told.get("additionalProperties", True) in (True, {})
        and not told.get("patternProperties")
        and told.get("unevaluatedProperties", True) in (True, {})
    )


def _rest_for(told: dict[str, Any], name: str) -> Any:
    """The schema of a property that is not named, None if there can be none."""
    for pattern, schema in told.get("patternProperties", {}).items():
        if re.search(pattern, name):
            return schema
    rest = told.get("additionalProperties", told.get("unevaluatedProperties"))
    return rest if isinstance(rest, dict) else None


def _demands(told: dict[str, Any]) -> dict[str, Any]:
    """Demands by the property that makes them: names, or a schema; as draft 7 and as later drafts write it."""
    return {
        **told.get("dependencies", {}),
        **told.get("dependentSchemas", {}),
        **told.get("dependentRequired", {}),
    }


def _is_open(told: Any) -> bool:
    return told is True or (isinstance(told, dict) and not set(told) - set(_SAYS_NOTHING))


def _has_default(told: Any) -> bool:
    return isinstance(told, dict) and "default" in told


def _plain(told: Any) -> Any:
    """Without a union that has one branch only, and says nothing else."""
    if isinstance(told, dict):
        words = set(told) - set(_SAYS_NOTHING)
        if len(words) == 1 and (word := next(iter(words))) in _COMBINED and len(told[word]) == 1:
            return _plain(told[word][0])
    return told


def _matched(edges: dict[int, list[int]]) -> int:
    """How many branches find one of their own (a largest matching)."""
    taken: dict[int, int] = {}

    def place(branch: int, seen: set[int]) -> bool:
        for other in edges[branch]:
            if other not in seen:
                seen.add(other)
                if other not in taken or place(taken[other], seen):
                    taken[other] = branch
                    return True
        return False

    return sum(place(branch, set()) for branch in edges)
