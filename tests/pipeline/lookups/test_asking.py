"""Answers are remembered for their time, each question is asked once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import penstock as ps
from penstock.pipeline.lookups.answer import NOTHING, Answer, Client, Question
from penstock.pipeline.lookups.asking import Asking
from penstock.pipeline.lookups.cache import Cache

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

KNOWN = Answer('{"tier": "gold"}')
AWAY = Answer(rule="no answer", said="it is away", passing=True)


class Told(Client):
    """Answers from a list, and notes what it was asked."""

    def __init__(self, **answers: Answer) -> None:
        self.answers = answers
        self.asked: list[list[Question]] = []

    def ask(self, questions: Sequence[Question]) -> Mapping[Question, Answer]:
        self.asked.append(list(questions))
        return {one: self.answers.get(one[0], KNOWN) for one in questions}

    def close(self) -> None:
        pass


def lookup(**how: Any) -> ps.HttpLookup:
    return ps.HttpLookup("http://crm/{id}", returns="tier STRING", **how)


def test_an_answer_is_forgotten_after_its_time() -> None:
    now = 0.0
    cache = Cache(10.0, 100, clock=lambda: now)
    cache.put(("a",), KNOWN)
    now = 9.9
    assert cache.get(("a",)) == KNOWN
    now = 10.0
    assert cache.get(("a",)) is None
    assert cache.get(("b",)) is None


def test_the_oldest_answer_makes_room() -> None:
    cache = Cache(10.0, 2)
    for name in ("a", "b", "a", "c"):
        cache.put((name,), KNOWN)
    assert [cache.get((name,)) for name in ("a", "b", "c")] == [KNOWN, None, KNOWN]


def test_each_question_is_asked_once_in_a_batch_and_not_again_while_it_is_remembered() -> None:
    client = Told(b=NOTHING)
    asking = Asking(lookup(), client)
    assert asking.answers([("a",), ("b",), ("a",)]) == {("a",): KNOWN, ("b",): NOTHING}
    assert asking.answers([("b",), ("c",), ("a",)]) == {("a",): KNOWN, ("b",): NOTHING, ("c",): KNOWN}
    assert client.asked == [[("a",), ("b",)], [("c",)]]


def test_without_a_cache_every_batch_asks() -> None:
    client = Told()
    asking = Asking(lookup(cache=None), client)
    asking.answers([("a",), ("a",)])
    asking.answers([("a",)])
    assert client.asked == [[("a",)], [("a",)]]


def test_a_failure_is_not_remembered_and_the_fallback_stands_for_what_passes_only() -> None:
    refused = Answer(rule="refused by http", said="400")
    client = Told(away=AWAY, refused=refused)
    asking = Asking(lookup(fallback={"tier": "none"}), client)
    for _ in range(2):
        found = asking.answers([("away",), ("refused",)])
        assert found == {("away",): Answer('{"tier": "none"}'), ("refused",): refused}
    assert len(client.asked) == 2
    assert Asking(lookup(), Told(away=AWAY)).answers([("away",)]) == {("away",): AWAY}


def test_a_row_without_a_key_asks_nobody_and_is_missing() -> None:
    client = Told()
    without: Any = (None,)
    assert Asking(lookup(), client).answers([without]) == {without: NOTHING}
    (found,) = Asking(lookup(missing="dead letter"), Told(a=NOTHING)).answers([("a",)]).values()
    assert (found.rule, found.said) == ("missing", "http:http://crm/{id} has nothing for this row")
    assert client.asked == []
