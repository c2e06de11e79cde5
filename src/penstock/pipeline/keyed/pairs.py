"""The rows of two tables that share a join key, kept as pairs: what a change of either side changes in the result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import TypeAlias

    News: TypeAlias = Mapping[str, str | None]
    _Found: TypeAlias = dict[tuple[str | None, str | None], tuple[str | None, str | None]]

__all__ = ["Pair", "Rows", "changed_pairs"]

Pair = tuple[bool, str | None, str | None]  # whether it is gone, and the rows of both sides; an outer join lacks one


class Rows(Protocol):
    """The rows of one side by their keys."""

    def get(self, key: str) -> str | None:
        """A row."""

    def items(self) -> Iterator[tuple[str, str]]:
        """All rows."""

    def put(self, key: str, row: str | None) -> None:
        """Keep a row, or forget it."""


def changed_pairs(
    left: Rows,
    right: Rows,
    changes: tuple[News, News],
    outer: tuple[bool, bool],
) -> Iterator[Pair]:
    """Take over new rows (None: gone) of both sides; the pairs that go, then those that come or change.

    `outer` says of each side whether its rows are in the result without a partner.
    """
    sides = (left, right)
    before = [{key: rows.get(key) for key in new} for rows, new in zip(sides, changes, strict=True)]
    news = [{key: row for key, row in new.items() if row != old[key]} for new, old in zip(changes, before, strict=True)]
    if not any(news):
        return
    olds = [{key: row for key in new if (row := old[key]) is not None} for new, old in zip(news, before, strict=True)]
    fresh = [{key: row for key, row in new.items() if row is not None} for new in news]
    # The rows of a side that did not change are read only if the other side did.
    same = [dict(_others(rows, news[at])) if news[1 - at] else {} for at, rows in enumerate(sides)]
    some = [outer[1 - at] and any(True for _ in _others(rows, news[at])) for at, rows in enumerate(sides)]
    then, now = _pairs(same, olds, some, outer), _pairs(same, fresh, some, outer)
    for rows, new in zip(sides, news, strict=True):
        for key, row in new.items():
            rows.put(key, row)
    gone = {pair: rows for pair, rows in then.items() if pair not in now}
    come = {pair: rows for pair, rows in now.items() if then.get(pair) != rows}
    yield from ((True, *rows) for rows in gone.values())
    yield from ((False, *rows) for rows in come.values())
    yield from _staying(gone, come, left, right)


def _staying(gone: _Found, come: _Found, left: Rows, right: Rows) -> Iterator[Pair]:
    """Of rows that lost one of several partners a pair that stays: a sink may know them by the left key alone."""
    lost = {pair[0] for pair in gone} - {pair[0] for pair in come} - {None}
    partner = next((row for _, row in right.items()), None) if lost else None
    for key in lost if partner is not None else ():
        if key is not None and (row := left.get(key)) is not None:
            yield False, row, partner


def _others(rows: Rows, new: News) -> Iterator[tuple[str, str]]:
    return ((key, row) for key, row in rows.items() if key not in new)


def _pairs(
    same: list[dict[str, str]], changed: list[dict[str, str]], some: list[bool], outer: tuple[bool, bool]
) -> _Found:
    """The pairs that a change may touch: those with a row that changes, and rows whose partners come or go."""
    left, right = ({**kept, **new} for kept, new in zip(same, changed, strict=True))
    found: _Found = {}
    for one, row in left.items():
        for other, partner in (right if one in changed[0] else changed[1]).items():
            found[one, other] = (row, partner)
    if outer[0] and not some[1] and not changed[1]:
        found |= {(one, None): (row, None) for one, row in left.items()}
    if outer[1] and not some[0] and not changed[0]:
        found |= {(None, other): (None, row) for other, row in right.items()}
    return found
