"""Our answer on whether a schema may follow another is that of Confluent's registry, level by level."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from penstock.registry.compatibility import LEVELS, breaks
from penstock.registry.schema import Registered, Schema
from tests.registry.pairs import HISTORIES, PAIRS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.registry.pair_kinds import History, Pair


def answers(kind: str, versions: Sequence[str], new: str) -> dict[str, list[str]]:
    """Each level with its sentences against a new schema."""
    earlier = [Registered("s", number, number, Schema(kind, text)) for number, text in enumerate(versions, start=1)]
    return {level: [str(one) for one in breaks(level, Schema(kind, new), earlier)] for level in LEVELS}


def levels(pair: Pair) -> dict[str, bool]:
    """Each level with whether it allows the pair; with one version, transitive is plain."""
    plain = {"BACKWARD": pair.backward, "FORWARD": pair.forward, "FULL": pair.backward and pair.forward}
    return {"NONE": True, **plain, **{f"{level}_TRANSITIVE": allowed for level, allowed in plain.items()}}


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_a_pair_is_answered_as_confluent_answers_it(pair: Pair) -> None:
    given = answers(pair.kind, [pair.old], pair.new)
    assert {level: not sentences for level, sentences in given.items()} == levels(pair), given


@pytest.mark.parametrize("pair", [pair for pair in PAIRS if pair.names], ids=lambda pair: pair.name)
def test_a_refusal_names_what_it_is_about(pair: Pair) -> None:
    for level, sentences in answers(pair.kind, [pair.old], pair.new).items():
        if sentences:
            assert any(pair.names in sentence for sentence in sentences), (level, sentences)


@pytest.mark.parametrize("history", HISTORIES, ids=lambda history: history.name)
def test_a_history_is_answered_as_confluent_answers_it(history: History) -> None:
    given = answers(history.kind, history.versions, history.new)
    assert {level for level, sentences in given.items() if not sentences} == history.allowed, given


def test_the_table_is_wide_enough() -> None:
    kinds = Counter(pair.kind for pair in PAIRS)
    assert set(kinds) == {"AVRO", "JSON", "PROTOBUF"}
    assert min(kinds.values()) >= 20
    assert len(PAIRS) >= 60
    assert len({pair.name for pair in PAIRS}) == len(PAIRS)
    assert Counter(history.kind for history in HISTORIES).keys() == kinds.keys()
    assert all(history.allowed <= set(LEVELS) for history in HISTORIES)
