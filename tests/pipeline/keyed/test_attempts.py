"""A funnel without Spark: by hand, and at random against its rules said once more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.pipeline.keyed.attempts import Attempts
from tests.pipeline.keyed.batches import FAR, given_out, in_batches

if TYPE_CHECKING:
    import random

    from penstock.pipeline.keyed.process import Waiting

VIEW, CART, PAID = 1, 2, 4


def attempts(rows: Waiting, within: int = 60) -> list[list[int]]:
    return [one["at"] for one in given_out(Attempts(3, within), [(rows, FAR)])]


def told(*rows: tuple[int, int]) -> Waiting:
    return [(micros, f"{bits} {{}}") for micros, bits in rows]


def test_a_row_takes_an_attempt_one_step_on_or_none() -> None:
    assert attempts(told((0, VIEW), (1, VIEW), (2, PAID), (3, CART), (4, CART), (5, PAID))) == [[0, 3, 5]]
    assert attempts(told((0, CART), (1, PAID))) == []
    assert attempts(told((0, VIEW | CART | PAID), (1, VIEW | CART | PAID), (2, VIEW | CART | PAID))) == [[0, 1, 2]]


def test_an_attempt_ends_when_its_time_is_over_the_end_excluded() -> None:
    assert attempts(told((0, VIEW), (59, CART), (60, PAID))) == [[0, 59]]
    assert attempts(told((0, VIEW), (58, CART), (59, PAID))) == [[0, 58, 59]]
    assert attempts(told((0, VIEW), (60, VIEW | CART), (61, CART))) == [[0], [60, 61]]


def test_the_next_attempt_begins_with_a_later_row() -> None:
    found = attempts(told((0, VIEW), (1, CART), (2, VIEW | PAID), (3, CART), (4, VIEW), (5, CART)))
    assert found == [[0, 1, 2], [4, 5]]


def test_an_attempt_comes_out_by_time_alone() -> None:
    made = Attempts(3, 60)
    turn = made.turn("a", None, [], told((10, VIEW), (20, CART)), 30)
    assert (turn.given, turn.wakes) == ([], 70)
    assert made.turn("a", turn.text, [], [], 69).given == []
    over = made.turn("a", turn.text, [], [], 70)
    assert (len(over.given), over.text, over.wakes) == (1, None, None)


def expected(rows: Waiting, steps: int, within: int) -> list[list[int]]:
    """Each attempt sought from its first row on."""
    found, left = [], sorted(rows)
    while left:
        (first, bits), *left = left
        if not int(bits.split()[0]) & 1:
            continue
        at = [first]
        while left and len(at) < steps and left[0][0] < first + within:
            (micros, bits), *left = left
            if int(bits.split()[0]) & 1 << len(at):
                at.append(micros)
        found.append(at)
    return found


@settings(max_examples=500, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 80), st.integers(1, 7)), max_size=20), st.randoms(use_true_random=False))
def test_batches_and_order_change_nothing(rows: list[tuple[int, int]], chance: random.Random) -> None:
    every = told(*rows)
    found = given_out(Attempts(3, 25), in_batches(every, chance, 30))
    assert [one["at"] for one in found] == expected(every, 3, 25)
