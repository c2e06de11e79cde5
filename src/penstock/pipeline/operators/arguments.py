"""What operators are told by their callers: durations and names that are wrong are refused in a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import DeclarationError
from penstock.pipeline.declare import Place
from penstock.pipeline.durations import seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["micros_of", "names_of", "refuse_clash", "refused"]


def names_of(by: str | Sequence[str]) -> list[str]:
    """The columns of a key, one or several."""
    return [by] if isinstance(by, str) else list(by)


def micros_of(argument: str, text: str) -> int:
    """A duration in microseconds."""
    length = seconds(text) if isinstance(text, str) else None
    if not length:
        raise refused(f"{argument}={text!r} is not a duration.", "Write it like '10 minutes'.")
    return round(length * 1_000_000)


def refuse_clash(names: Iterable[str], remedy: str) -> None:
    """Raise if two columns that come out have one name; Spark does not tell capitals apart."""
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            raise refused(f"Two columns that come out are called {name!r}.", remedy)
        seen.add(name.lower())


def refused(problem: str, remedy: str) -> DeclarationError:
    """An error at the caller's line."""
    return DeclarationError(problem, code="declaration-wrong", place=str(Place.of_caller()), remedy=remedy)
