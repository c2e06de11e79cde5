"""How long to wait before a service is asked again."""

from __future__ import annotations

import random

__all__ = ["LONGEST", "back_off"]

LONGEST = 10.0
_FIRST = 0.2


def back_off(tried: int) -> float:
    """Longer each time, and not the same for all: a service that has just come back would fall again."""
    return min(_FIRST * 2.0 ** (tried - 1), LONGEST) * random.uniform(0.5, 1.0)  # noqa: S311
