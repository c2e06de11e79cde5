"""Tables that a program puts into a page of the docs, between two marks."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

__all__ = ["put"]


def put(page: Path, name: str, lines: Iterable[str]) -> None:
    """Write lines between the marks of that name, instead of what is there."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, found, rest = page.read_text(encoding="utf-8").partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise ValueError(f"{page} has no place {begin} … {end}")
    made = "\n".join(lines)
    page.write_text(f"{before}{begin}\n{made}\n{end}{after}", encoding="utf-8")
