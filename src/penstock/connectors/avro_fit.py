"""Which rows an Avro schema does not take: a null where it wants a value, a word that its enum does not have."""

from __future__ import annotations

import json
import operator
from functools import reduce
from typing import TYPE_CHECKING, Any

from penstock.connectors.base import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import Column, DataFrame

__all__ = ["avro_unfit"]


def avro_unfit(rows: DataFrame, schema: str) -> Column | None:
    """Why a row can't be written, null if it can be; None if that is never so."""
    from pyspark.sql import functions as F  # noqa: N812

    record = json.loads(schema)
    named: dict[str, Any] = {}
    _learn(record, named)
    fields = [one for one in record["fields"] if one["name"] in rows.columns]
    found = [pair for one in fields for pair in _wrong(quoted([one["name"]])[0], one["type"], one["name"], named, ())]
    if not found:
        return None
    return F.coalesce(*(F.when(broken, F.lit(f"{path} {said}")) for path, broken, said in found))


def _learn(schema: Any, named: dict[str, Any]) -> None:
    """Types that are used again by their names."""
    for one in schema if isinstance(schema, list) else [schema]:
        if isinstance(one, dict):
            if "name" in one and one.get("type") in ("record", "enum", "fixed"):
                named[one["name"]] = named[f"{one.get('namespace', '')}.{one['name']}"] = one
            for part in (one.get("items"), one.get("values"), *(field["type"] for field in one.get("fields", ()))):
                if part is not None:
                    _learn(part, named)


def _wrong(
    value: Column, schema: Any, path: str, named: dict[str, Any], above: tuple[str, ...]
) -> Iterator[tuple[str, Column, str]]:
    """Where it may go wrong: the path, whether a row does, what to say."""
    kinds = schema if isinstance(schema, list) else [schema]
    others = [one for one in kinds if one != "null"]
    if len(others) == len(kinds):
        yield path, value.isNull(), "is empty, which the schema does not allow"
    if len(others) != 1:
        return
    kind = named.get(others[0], others[0]) if isinstance(others[0], str) else others[0]
    if isinstance(kind, dict) and kind.get("name") not in above:
        below = (*above, *([kind["name"]] if "name" in kind else []))
        yield from _inside(value, kind, path, named, below)


def _inside(
    value: Column, kind: dict[str, Any], path: str, named: dict[str, Any], above: tuple[str, ...]
) -> Iterator[tuple[str, Column, str]]:
    from pyspark.sql import functions as F  # noqa: N812

    if kind["type"] == "enum":
        yield path, F.coalesce(~value.isin(kind["symbols"]), F.lit(False)), "is no word of the schema's enum"
    elif kind["type"] == "record":
        for field in kind["fields"]:
            inner = f"{path}.{field['name']}"
            for place, broken, said in _wrong(value.getField(field["name"]), field["type"], inner, named, above):
                yield place, value.isNotNull() & broken, said
    elif kind["type"] in ("array", "map"):
        part = kind["items" if kind["type"] == "array" else "values"]

        def broken_of(one: Column) -> list[Column]:
            return [broken for _, broken, _ in _wrong(one, part, path, named, above)]

        if broken_of(value):
            held = value if kind["type"] == "array" else F.map_values(value)
            found = F.exists(held, lambda one: reduce(operator.or_, broken_of(one)))
            yield path, F.coalesce(found, F.lit(False)), "has a value that the schema does not allow"
