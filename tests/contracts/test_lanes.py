"""Lanes: a batch that was written in part is finished with the lanes that it had."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

import penstock as ps
from penstock.connectors.writing import Batch

if TYPE_CHECKING:
    from tests.contracts.given import Given


@pytest.mark.parametrize("given", ["kafka-lanes"], indirect=True)
def test_a_batch_in_doubt_has_the_lanes_that_it_had(given: Given, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = given.rig.sink().sole_topic  # type: ignore[attr-defined]
    rows = given.frame(*((number, f"row {number}") for number in range(200)))
    first = given.opened(sink=ps.Kafka(topic, key="id", lanes=2))

    def broken(batch: Batch, point: str) -> None:
        if point == "all sent":
            raise RuntimeError("half way")

    monkeypatch.setattr(Batch, "reached", broken)
    with pytest.raises(RuntimeError, match="half way"):
        given.write(first, {"a": rows}, given.batch(0))
    monkeypatch.undo()
    second = given.opened(sink=ps.Kafka(topic, key="id", lanes=3), run=f"{8:015x}")
    given.write(second, {"a": rows}, given.batch(0))
    assert Counter(given.names()) == Counter(f"row {number}" for number in range(200))
    given.write(second, {"a": rows}, given.batch(1))
    assert Counter(given.names()) == Counter({f"row {number}": 2 for number in range(200)})
