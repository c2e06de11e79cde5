"""Errors in Spark's workers: told to the driver as what they are, where Spark would hand on their text only."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from penstock import errors

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.errors import PenstockError

__all__ = ["as_text", "raise_first"]


def as_text(error: PenstockError) -> str:
    """An error for the way to the driver."""
    return json.dumps({"kind": type(error).__name__, **error.as_dict()})


def raise_first(texts: Iterable[str | None]) -> None:
    """Raise the first error that a worker has told of."""
    for text in texts:
        if text is not None:
            told = json.loads(text)
            kind: type[PenstockError] = getattr(errors, told["kind"])
            raise kind(told["problem"], code=told["error"], remedy=told["remedy"], place=told["place"])
