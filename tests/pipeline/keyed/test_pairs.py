"""Two tables joined: after any changes the result is the join of what is there, and nothing else was touched."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.pipeline.keyed.pairs import changed_pairs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeAlias

    Joined: TypeAlias = dict[tuple[str | None, str | None], tuple[object, object]]
    News: TypeAlias = tuple[dict[str, str | None], dict[str, str | None]]

CHANGES = st.dictionaries(st.sampled_from("abcd"), st.none() | st.sampled_from("123"), max_size=3)
OUTER = {"inner": (False, False), "left": (True, False), "right": (False, True), "full": (True, True)}


class Kept(dict[str, str]):
    """Rows in memory, which tell how often all of them were read."""

    def __init__(self) -> None:
        self.reads = 0

    def items(self) -> Iterator[tuple[str, str]]:  # type: ignore[override]
        self.reads += 1
        return iter(list(super().items()))

    def put(self, key: str, row: str | None) -> None:
        if row is None:
            self.pop(key, None)
        else:
            self[key] = row


def joined(left: Kept, right: Kept, outer: tuple[bool, bool]) -> Joined:
    found: Joined = {(one, other): (left[one], right[other]) for one in left for other in right}
    if outer[0] and not right:
        found |= {(one, None): (left[one], None) for one in left}
    if outer[1] and not left:
        found |= {(None, other): (None, right[other]) for other in right}
    return found


@pytest.mark.parametrize("how", OUTER)
@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(CHANGES, CHANGES), max_size=8))
def test_the_result_is_the_join(how: str, batches: list[News]) -> None:
    left, right, outer = Kept(), Kept(), OUTER[how]
    before = joined(left, right, outer)
    sink: set[str] = set()
    for new in batches:
        found = list(changed_pairs(left, right, named(new), outer))
        now = joined(left, right, outer)
        gone = [(True, *rows) for pair, rows in before.items() if pair not in now]
        come = [(False, *rows) for pair, rows in now.items() if before.get(pair) != rows]
        told, more = found[: len(gone) + len(come)], found[len(gone) + len(come) :]
        assert sorted(told, key=str) == sorted([*gone, *come], key=str)
        assert [one[0] for one in found] == sorted((one[0] for one in found), reverse=True)  # those that go come first
        for _, one, other in more:  # rows that lost one of several partners, and nothing else
            assert one in {row for _, row, _ in gone}
            assert one in left.values()
            assert other in right.values()
        for removed, one, _ in found:  # a sink that knows rows by the left key
            if one is not None:
                (sink.discard if removed else sink.add)(one[0])
        assert sink == {pair[0] for pair in now if pair[0] is not None}
        before = now


def named(
    new: News,
) -> News:
    """A row tells its key, so that no two are alike."""
    one, other = ({key: row and key + row for key, row in side.items()} for side in new)
    return one, other


def test_a_new_order_does_not_read_the_other_orders() -> None:
    left, right = Kept(), Kept()
    list(changed_pairs(left, right, ({str(one): "order" for one in range(1000)}, {"a": "Ada"}), OUTER["inner"]))
    left.reads = 0
    assert list(changed_pairs(left, right, ({"new": "order"}, {}), OUTER["inner"])) == [(False, "order", "Ada")]
    assert left.reads == 0
    assert list(changed_pairs(left, right, ({"new": "order"}, {"a": "Ada"}), OUTER["inner"])) == []
