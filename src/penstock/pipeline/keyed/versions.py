"""Whether what a process remembered before can be read by what it is now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.pipeline.keyed.kinds import holds, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["unreadable"]


def unreadable(then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """What can't go on, in words; a newer version has a way from those before."""
    if now["version"] < then["version"]:
        yield f"it is version {now['version']} now, and was {then['version']}"
    if now["version"] != then["version"]:
        return
    for name, kept in then["states"].items():
        wanted = now["states"].get(name)
        if wanted is None:
            yield f"{name} ({kept}) is gone"
        elif not _holds(wanted, kept):
            yield f"{name} is {wanted} now, and was {kept}"


def _holds(wanted: str, kept: str) -> bool:
    kinds = [one.partition(" of ") for one in (wanted, kept)]
    if kinds[0][0] != kinds[1][0]:
        return False
    new, old = (kind_of(f"MAP<{types}>" if form == "map" else types) for form, _, types in kinds)
    return holds(new, old)
