"""The rows of one key in random batches, and what a process of ours gives for them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random

    from penstock.pipeline.keyed.process import Turns, Waiting

FAR = 10**12


def in_batches(rows: Waiting, chance: random.Random, step: int) -> list[tuple[Waiting, int]]:
    """Batches, each with the time up to which everything is known after it: no row comes after that."""
    left, known, batches = list(enumerate(rows)), -1, []
    while left:
        known += chance.randrange(step)
        now = [one for one in left if one[1][0] <= known or chance.random() < 0.3]
        chance.shuffle(now)
        batches.append(([row for _, row in now], known))
        left = [one for one in left if one not in now]
    return [*batches, ([], FAR)]


def given_out(turns: Turns, batches: list[tuple[Waiting, int]]) -> list[dict[str, Any]]:
    """What comes out, with the memory as text in between; in the end nothing is remembered."""
    text: str | None = None
    waiting: Waiting = []
    given: list[tuple[str, str]] = []
    for rows, known in batches:
        turn = turns.turn("a", text, waiting, rows, known)
        text, waiting = turn.text, turn.waiting
        given += turn.given
        assert turn.wakes is None or turn.wakes > known
        assert (turn.wakes is None) == (text is None and not waiting)
    assert text is None
    assert not waiting
    return [json.loads(one) for _, one in given]
