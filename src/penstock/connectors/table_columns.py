"""The columns of captured tables: asked of the database once, kept in a file of the project, changed as they change."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from penstock.cdc.columns import Column, Known
from penstock.cdc.database import open_database
from penstock.errors import StateError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from penstock.cdc.capture import Capture, Table
    from penstock.settings import Settings

__all__ = ["adapt_columns", "known_columns"]

_WIDER = {
    "SMALLINT": ("INT", "BIGINT"),
    "INT": ("BIGINT",),
    "FLOAT": ("DOUBLE",),
}


def known_columns(capture: Capture, table: Table, settings: Settings) -> Known:
    """What is known of a table, in version control beside the pipeline; asked of the database the first time."""
    path = _file(capture, table, settings)
    if path.exists():
        told = json.loads(path.read_text(encoding="utf-8"))
        columns = tuple(Column(**one) for one in told["columns"])
        return Known(columns, tuple(map(tuple, told["shapes"])), told["tolerant"])
    with open_database(capture, settings) as database:
        columns = database.columns(table)
    known = Known(columns, (tuple(one.name for one in columns),))
    _write(path, known)
    return known


def adapt_columns(capture: Capture, table: Table, settings: Settings, seen: Sequence[str]) -> list[str]:
    """Judge a row of unknown columns by the table as it is now: take over what changed, in words, or refuse it."""
    known = known_columns(capture, table, settings)
    columns = {one.name: one for one in known.columns}
    with open_database(capture, settings) as database:
        now = {one.name: one for one in database.columns(table)}
    stop = capture.declared.schema_changes == "stop"
    said = []
    for name in dict.fromkeys((*now, *seen)):
        old = columns.get(name)
        fresh = now.get(name) or old or Column(name, "STRING")  # it was there when the row was written, and is gone
        if old is None:
            said.append(f"{name} is new")
        elif (old.kind, old.written) != (fresh.kind, fresh.written):
            if stop or not _is_wider(old, fresh):
                raise _stopped(capture, table, f"column {name} was {old.kind} and is {fresh.kind} now")
            said.append(f"{name} is {fresh.kind} now")
        columns[name] = fresh
    if gone := [name for name in columns if name not in now and name not in seen]:
        if stop:
            raise _stopped(capture, table, f"column {gone[0]} is gone")
        said.append(f"{', '.join(gone)} is gone, and empty from here on")
    shape = tuple(seen)
    tolerant = known.tolerant or (not said and shape in known.shapes)
    shapes = known.shapes if not shape or shape in known.shapes else (*known.shapes, shape)
    _write(_file(capture, table, settings), Known(tuple(columns.values()), shapes, tolerant))
    return said


def _is_wider(old: Column, fresh: Column) -> bool:
    if old.kind.startswith("DECIMAL") and fresh.kind.startswith("DECIMAL"):
        (digits, scale), (more, other) = (_digits(one.kind) for one in (old, fresh))
        return other >= scale and more - other >= digits - scale
    return fresh.kind in _WIDER.get(old.kind, ())


def _digits(kind: str) -> tuple[int, int]:
    first, _, second = kind.removeprefix("DECIMAL(").removesuffix(")").partition(",")
    return int(first), int(second)


def _stopped(capture: Capture, table: Table, what: str) -> StateError:
    return StateError(
        f"Table {table} of capture {capture.name!r} changed: {what}.",
        code="table-changed",
        remedy=f"Bring the column back; or remove schemas/{capture.topic(table)}.json and build what is derived anew.",
    )


def _file(capture: Capture, table: Table, settings: Settings) -> Path:
    return settings.project / "schemas" / f"{capture.topic(table)}.json"


def _write(path: Path, known: Known) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(asdict(known), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    fresh.replace(path)
