"""One suite for all sinks: a batch arrives once, however often it comes, and never by halves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from penstock.connectors.writing import Batch, MarkedWriter, is_due
from penstock.errors import PenstockError, StateError
from tests.contracts.rigs import RIGS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.contracts.given import Given


def rigs(fits: Callable[[Any], bool] = lambda rig: True) -> pytest.MarkDecorator:
    """All rigs that a test is for."""
    return pytest.mark.parametrize("given", [name for name, rig in RIGS.items() if fits(rig)], indirect=True)


EVERY, MARKED = rigs(), rigs(lambda rig: rig.marked)
ATOMIC, KEYED = rigs(lambda rig: rig.atomic), rigs(lambda rig: rig.keyed)


@EVERY
def test_batches_arrive_once_are_marked_and_change_nothing_when_they_come_again(given: Given) -> None:
    writer = given.opened()
    assert not given.write(writer, {"a": given.frame()}, given.batch(0))
    assert given.names() == []
    assert not given.write(writer, {"a": given.frame((1, "one"), (2, "two"))}, given.batch(1))
    assert given.names() == ["one", "two"]
    writer.close()
    again = given.opened(run=f"{8:015x}")
    if isinstance(again, MarkedWriter):
        mark = again.mark()
        assert mark is not None
        assert (mark.next, mark.digest, mark.run) == (2, f"{1:015x}", f"{7:015x}")
        assert not is_due(mark, given.batch(1), "it", adopt=False)
    else:
        given.write(again, {"a": given.frame((1, "one"), (2, "two"))}, given.batch(1))
    assert given.names() == ["one", "two"]
    given.write(again, {"a": given.frame((3, "three"))}, given.batch(2))
    assert given.names() == ["one", "three", "two"]


@ATOMIC
def test_what_fails_half_way_is_not_seen(given: Given, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(batch: Batch, point: str) -> None:
        if point == "all sent":
            raise RuntimeError("half way")

    names = ("a", "b") if given.rig.together else ("a",)
    rows = {name: given.frame((number, name)) for number, name in enumerate(names)}
    writer = given.opened(*names)
    monkeypatch.setattr(Batch, "reached", broken)
    with pytest.raises(RuntimeError, match="half way"):
        given.write(writer, rows, given.batch(0))
    monkeypatch.undo()
    assert not any(given.names(name) for name in names)
    writer.close()
    assert not isinstance(writer, MarkedWriter) or writer.mark() is None
    given.write(writer, rows, given.batch(0))
    assert [given.names(name) for name in names] == [[name] for name in names]


@MARKED
def test_a_checkpoint_that_is_not_what_it_was_is_refused(given: Given) -> None:
    writer = given.opened()
    assert isinstance(writer, MarkedWriter)
    for number in range(3):
        given.write(writer, {"a": given.frame((number, f"row {number}"))}, given.batch(number))
    for batch, said in (
        (given.batch(2, f"{99:015x}"), "rolled back, or copied"),
        (given.batch(1), "rolled back, or copied"),
        (given.batch(5), "rows between are missing"),
    ):
        with pytest.raises(StateError, match=said):
            is_due(writer.mark(), batch, "it", adopt=False)
    assert not is_due(writer.mark(), given.batch(2), "it", adopt=False)
    assert is_due(writer.mark(), given.batch(3), "it", adopt=False)
    writer.close()
    given.rig.forget()
    assert writer.mark() is None
    with pytest.raises(StateError, match="remembers nothing of this query"):
        is_due(writer.mark(), given.batch(3), "it", adopt=False)
    assert is_due(writer.mark(), given.batch(3), "it", adopt=True)


@MARKED
def test_of_two_processes_one_writes(given: Given) -> None:
    older = given.opened(run=f"{9:015x}")
    assert isinstance(older, MarkedWriter)
    given.write(older, {"a": given.frame((1, "one"))}, given.batch(0))
    newer = given.opened(run=f"{10:015x}")
    assert isinstance(newer, MarkedWriter)
    assert newer.mark() == given.batch(0).mark
    given.write(newer, {"a": given.frame((2, "two"))}, given.batch(1))
    with pytest.raises(PenstockError):
        older.write({"a": given.frame((2, "two"))}, given.batch(1))
    assert given.names() == ["one", "two"]


@KEYED
def test_a_key_has_its_last_row_and_deletes_delete(given: Given) -> None:
    writer = given.opened()
    rows = given.frame((1, "one"), (2, "two"), (1, "one again"), (3, "three"), (3, "three", True))
    given.write(writer, {"a": rows.coalesce(1)}, given.batch(0))
    assert given.names() == ["one again", "two"]
    rows = given.frame((2, "two", True), (4, "four"), (4, "four", True), (4, "four again"), (1, "one, the third"))
    given.write(writer, {"a": rows.coalesce(1)}, given.batch(1))
    assert given.names() == ["four again", "one, the third"]
