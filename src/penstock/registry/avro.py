"""Avro: which reader can take what which writer wrote, by the rules of schema resolution."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from penstock.errors import DeclarationError
from penstock.registry.schema import Problem, parsed

__all__ = ["NAMED", "PRIMITIVE", "AvroType", "avro_problems", "avro_type", "full_name"]

PRIMITIVE = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
NAMED = ("record", "error", "enum", "fixed")
# What a reader of the first type also takes.
_PROMOTED = {
    "long": ("int",),
    "float": ("int", "long"),
    "double": ("int", "long", "float"),
    "string": ("bytes",),
    "bytes": ("string",),
}


@dataclass
class AvroType:
    """One type with its names resolved; records may contain themselves."""

    kind: str
    name: str = ""
    aliases: tuple[str, ...] = ()
    fields: list[AvroField] = field(default_factory=list)
    symbols: tuple[str, ...] = ()
    size: int = 0
    default: Any = None
    items: AvroType | None = None
    branches: list[AvroType] = field(default_factory=list)
    logical: str = ""
    precision: int = 0
    scale: int = 0

    def said(self) -> str:
        """The type in a word."""
        if self.kind == "union":
            return f"[{', '.join(one.said() for one in self.branches)}]"
        return f"{self.kind} {self.name}" if self.name else self.kind


@dataclass
class AvroField:
    """A field of a record."""

    name: str
    type: AvroType
    has_default: bool
    aliases: tuple[str, ...] = ()


def avro_type(text: str, used: tuple[str, ...] = (), place: str = "schema") -> AvroType:
    """The type that a schema's text says; `used` are the texts that it refers to, in order."""
    names: dict[str, AvroType] = {}
    for one in used:
        _read(parsed(one, place), "", names, place)
    return _read(parsed(text, place), "", names, place)


def avro_problems(reader: AvroType, writer: AvroType) -> list[Problem]:
    """Where the reader can't take what the writer wrote."""
    found: list[Problem] = []
    _compare(reader, writer, "", found, set())
    return found


def _read(told: Any, space: str, names: dict[str, AvroType], place: str) -> AvroType:
    if isinstance(told, str):
        return _by_name(told, space, names, place)
    if isinstance(told, list):
        return AvroType("union", branches=[_read(one, space, names, place) for one in told])
    if not isinstance(told, dict) or "type" not in told:
        raise _invalid(f"{told!r} is no type", place)
    kind = told["type"]
    if not isinstance(kind, str) or kind not in (*PRIMITIVE, *NAMED, "array", "map"):
        return _read(kind, space, names, place)
    if kind == "array" or kind == "map":
        return AvroType(kind, items=_read(told.get("items" if kind == "array" else "values"), space, names, place))
    made = AvroType(
        "record" if kind == "error" else kind,
        logical=str(told.get("logicalType", "")),
        precision=int(told.get("precision", 0)),
        scale=int(told.get("scale", 0)),
    )
    if kind in NAMED:
        if not isinstance(told.get("name"), str):
            raise _invalid(f"a {kind} has no name", place)
        full = full_name(told["name"], told.get("namespace", space))
        space = full.rpartition(".")[0]
        made.name = full
        made.aliases = tuple(full_name(one, space) for one in told.get("aliases", ()))
        made.symbols, made.size, made.default = tuple(told.get("symbols", ())), told.get("size", 0), told.get("default")
        if full in names:
            raise _invalid(f"{full} is defined twice", place)
        names[full] = made
        for one in told.get("fields", ()):
            made.fields.append(
                AvroField(
                    one["name"],
                    _read(one["type"], space, names, place),
                    "default" in one,
                    tuple(one.get("aliases", ())),
                )
            )
    return made


def _by_name(name: str, space: str, names: dict[str, AvroType], place: str) -> AvroType:
    if name in PRIMITIVE:
        return AvroType(name)
    for full in (full_name(name, space), name):
        if full in names:
            return names[full]
    raise _invalid(f"{name} is not defined", place)


def full_name(name: str, space: str | None) -> str:
    """A name with its namespace."""
    return name if "." in name or not space else f"{space}.{name}"


def _invalid(said: str, place: str) -> DeclarationError:
    return DeclarationError(
        f"An Avro schema is not valid: {said}.", code="schema-invalid", place=place, remedy="Correct it there."
    )


def _compare(reader: AvroType, writer: AvroType, where: str, found: list[Problem], begun: set[tuple[int, int]]) -> None:
    if (id(reader), id(writer)) in begun:  # a record within itself
        return
    begun = begun | {(id(reader), id(writer))}
    if writer.kind == "union":
        for one in writer.branches:
            _compare(reader, one, where, found, begun)
    elif reader.kind == "union":
        _compare_branches(reader, writer, where, found, begun)
    elif reader.kind != writer.kind:
        if writer.kind not in _PROMOTED.get(reader.kind, ()):
            found.append(_changed(reader, writer, where))
    elif reader.items and writer.items:
        _compare(reader.items, writer.items, f"{where}[]", found, begun)
    elif reader.name:
        _compare_named(reader, writer, where, found, begun)


def _compare_named(
    reader: AvroType, writer: AvroType, where: str, found: list[Problem], begun: set[tuple[int, int]]
) -> None:
    if not _same_name(reader, writer):
        found.append(
            Problem(where or reader.name, f"{writer.name} is called {reader.name}", f"an alias {writer.name!r} on it")
        )
    elif reader.kind == "record":
        _compare_fields(reader, writer, where, found, begun)
    elif reader.kind == "enum":
        _compare_symbols(reader, writer, where, found)
    elif reader.kind == "fixed" and reader.size != writer.size:
        found.append(
            Problem(where or reader.name, f"it has {reader.size} bytes and had {writer.size}", "the size as it was")
        )


def _compare_branches(
    reader: AvroType, writer: AvroType, where: str, found: list[Problem], begun: set[tuple[int, int]]
) -> None:
    nearest: list[Problem] | None = None
    for one in reader.branches:
        tried: list[Problem] = []
        _compare(one, writer, where, tried, begun)
        if not tried:
            return
        if one.kind == writer.kind:  # of its own kind: what is wrong within it says more
            nearest = tried
    found += nearest or [
        Problem(where or writer.said(), f"{writer.said()} is not in {reader.said()}", f"{writer.said()} in the union")
    ]


def _compare_fields(
    reader: AvroType, writer: AvroType, where: str, found: list[Problem], begun: set[tuple[int, int]]
) -> None:
    written = {one.name: one for one in writer.fields}
    for one in reader.fields:
        path = f"{where}.{one.name}" if where else one.name
        of_writer = next((written[name] for name in (one.name, *one.aliases) if name in written), None)
        if of_writer is not None:
            _compare(one.type, of_writer.type, path, found, begun)
        elif not one.has_default:
            found.append(Problem(path, "it is not written, and has no default", f"a default for {one.name}"))


def _compare_symbols(reader: AvroType, writer: AvroType, where: str, found: list[Problem]) -> None:
    unknown = [one for one in writer.symbols if one not in reader.symbols]
    if unknown and reader.default is None:
        found.append(
            Problem(
                where or reader.name,
                f"the symbol{'s' if len(unknown) > 1 else ''} {', '.join(unknown)} of {reader.name} can't be read",
                "the symbols as they were, or a default for the enum",
            )
        )


def _same_name(reader: AvroType, writer: AvroType) -> bool:
    short = reader.name.rpartition(".")[2] == writer.name.rpartition(".")[2]
    return short or writer.name in reader.aliases


def _changed(reader: AvroType, writer: AvroType, where: str) -> Problem:
    wider = [kind for kind, taken in _PROMOTED.items() if writer.kind in taken]
    allowed = " or ".join([writer.said(), *wider, "a union with it"])
    return Problem(where or "the schema", f"{writer.said()} can't be read as {reader.said()}", allowed)
