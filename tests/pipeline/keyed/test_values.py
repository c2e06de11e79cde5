"""What a process remembers is the same in the next row and in the next batch, and fits its type."""

from __future__ import annotations

import json
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

import penstock as ps
from penstock.errors import DeclarationError
from penstock.pipeline.keyed.kinds import columns_of, kind_of
from penstock.pipeline.keyed.process import RAISED, Process
from penstock.testing import ProcessTrial
from tests.pipeline.keyed.processes import PAYMENT, Fraud
from tests.pipeline.keyed.test_process import FAR, OUTPUTS, given_out, micros, payment

if TYPE_CHECKING:
    from penstock.pipeline.keyed.process import Now


class Values:
    """Uses each value in the row after the one that wrote it."""

    prices = ps.MapState("DECIMAL(5, 2)", "LONG")
    whole = ps.ValueState("DECIMAL(10, 2)")
    name = ps.ValueState("STRUCT<first: STRING, last: STRING>")
    seen = ps.ValueState("TIMESTAMP")
    one = ps.ListState("LONG")
    other = ps.ValueState("ARRAY<LONG>")

    def on_event(self, payments: dict[str, Any], now: Now) -> None:
        said = ""
        if self.whole.get() is not None:
            since = now.time - self.seen.get()
            said = f"{self.whole.get() / 4} {self.name.get()['first']} {since} {self.other.get()}"
        self.prices[Decimal("1.10")] = self.prices.get(Decimal("1.10"), 0) + 1
        self.whole.set(10)
        self.name.set({"last": "Lovelace"})
        self.seen.set(datetime(2026, 1, 1))
        self.other.set(self.one.get())
        self.one.append(len(self.one))
        told = f"{said} {self.prices[Decimal('1.10')]} {len(self.prices)}"
        now.emit({"card": "a", "told": told, "at": now.time}, to="rung")


def test_a_batch_between_two_rows_changes_nothing() -> None:
    rows = [payment(second, 1) for second in range(4)]
    together = given_out(Values, [(rows, FAR)])
    apart = given_out(Values, [([one], second) for second, one in enumerate(rows)])
    assert together == apart
    assert " 4 1" in json.loads(together[-1][1])["told"]


class Changed(Fraud):
    """Changes a value in its place to what does not fit."""

    both = ps.ValueState("STRUCT<n: LONG>")

    def on_event(self, payments: dict[str, Any], now: Now) -> None:
        if self.both.get() is None:
            self.both.set({"n": 1})
        if payments["amount"] == 13:
            self.both.get()["n"] = 2.5
        now.emit(payments)


def test_what_does_not_fit_is_a_dead_letter() -> None:
    found = given_out(Changed, [([payment(0, 1), payment(1, 13), payment(2, 2)], FAR)], quarantine=True)
    assert [output for output, _ in found] == ["", RAISED, ""]
    assert "2.5 is not a LONG" in found[1][1]


def test_rows_that_wait_are_not_lost_when_order_is_given_up() -> None:
    class Plain:
        def on_event(self, payments: dict[str, Any], now: Now) -> None:
            now.emit(payments)

    ordered = Process(Plain, columns_of(PAYMENT).reader(), OUTPUTS)
    waiting = ordered.turn("a", None, [], [payment(9, 1), payment(8, 2)], micros(1)).waiting
    turn = Process(Plain, columns_of(PAYMENT).reader(), OUTPUTS, ordered=False).turn(
        "a", None, waiting, [payment(5, 3)], micros(2)
    )
    assert [json.loads(text)["amount"] for _, text in turn.given] == [2, 1, 3]
    assert turn.waiting == []


@pytest.mark.parametrize(
    ("kind", "value", "kept"),
    [
        ("DECIMAL(5, 2)", Decimal("1.125"), Decimal("1.13")),
        ("DECIMAL(5, 2)", 5, Decimal("5.00")),
        ("DECIMAL(5, 2)", Decimal("999.995"), None),
        ("DECIMAL(5, 2)", Decimal("NaN"), None),
        ("DECIMAL(38, 0)", 10**38 - 1, Decimal(10**38 - 1)),
        ("FLOAT", 1e300, None),
        ("FLOAT", float("inf"), float("inf")),
        ("DOUBLE", 1e300, 1e300),
    ],
)
def test_numbers_that_do_not_fit_are_refused(kind: str, value: Any, kept: Any) -> None:
    if kept is None:
        with pytest.raises(TypeError, match=r"is (not|too large)"):
            kind_of(kind).dump(value)
    else:
        assert kind_of(kind).kept(value) == kept


def test_states_can_pass_through_a_migration_and_begin_to_age() -> None:
    class Old:
        total = ps.ValueState("DOUBLE")
        at = ps.ValueState("TIMESTAMP")

        def on_event(self, payments: dict[str, Any], now: Now) -> None:
            self.total.set(0.5)
            self.at.set(now.time)

    class New(Old):
        version = 2
        at = ps.ValueState("TIMESTAMP", ttl="1 hour")
        n = ps.ValueState("LONG", ttl="1 hour")

        def migrate(self, states: dict[str, Any], version: int) -> dict[str, Any]:
            return {**states, "total": states["total"] * 2, "n": 7}

        def on_event(self, payments: dict[str, Any], now: Now) -> None:
            now.emit({**payments, "amount": self.total.get() + (self.n.get() or 0)})

    def process(made: type) -> Process:
        return Process(made, columns_of(PAYMENT).reader(), OUTPUTS)

    old = process(Old).turn("a", None, [], [payment(0, 1)], micros(0))
    first = process(New).turn("a", old.text, [], [payment(10, 1)], micros(10))
    assert json.loads(first.given[0][1])["amount"] == 8.0
    assert first.wakes == micros(10 + 3600)
    later = process(New).turn("a", first.text, [], [payment(9000, 1)], micros(9000))
    assert json.loads(later.given[0][1])["amount"] == 1.0


def test_a_state_that_takes_the_place_of_another_has_nothing_of_it() -> None:
    class Short:
        total = ps.ValueState("DOUBLE", ttl="1 second")

        def on_event(self, payments: dict[str, Any], now: Now) -> None:
            self.total.set(self.total.get(0.0) + 1)
            now.emit({**payments, "amount": self.total.get()})

    class Long(Short):
        total = ps.ValueState("DOUBLE")

    found = given_out(Long, [([payment(0, 1)], 0), ([payment(10, 1)], 10), ([payment(20, 1)], FAR)])
    assert [json.loads(text)["amount"] for _, text in found] == [1.0, 2.0, 3.0]


def test_mistakes_are_told_in_words() -> None:
    class Deaf:
        def on_event(self, payments: dict[str, Any], now: Now) -> None:
            now.timer("1 minute")

    with pytest.raises(ValueError, match="write def on_timer"):
        given_out(Deaf, [([payment(0, 1)], FAR)])

    class Misnamed:
        version = ps.ValueState("LONG")

        def on_event(self, payments: dict[str, Any], now: Now) -> None: ...

    with pytest.raises(DeclarationError, match="version is ValueState, not a whole number"):
        ps.Pipeline("bank").keyed(by="card", returns=PAYMENT)(Misnamed)


def test_a_trial_knows_late_rows() -> None:
    trial = ProcessTrial(ps.Pipeline("bank").keyed(by="card", returns=PAYMENT)(Fraud))
    trial.given({"card": "a", "amount": 0.5}, at="10:00").advance("10:00:30")
    trial.given({"card": "a", "amount": 20_000.0}, at="10:00:30")
    trial.given({"card": "a", "amount": 30_000.0}, at="10:00:31")
    assert [one["amount"] for one in trial.end().rows()] == [30_000.0]
    assert [one["amount"] for one in trial.late()] == [20_000.0]
