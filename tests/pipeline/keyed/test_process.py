"""A process without Spark: the same answer whatever the batches and the order within the watermark."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.errors import DeclarationError
from penstock.pipeline.keyed.kinds import columns_of, kind_of
from penstock.pipeline.keyed.process import RAISED, Process
from penstock.pipeline.keyed.versions import unreadable
from penstock.testing import ProcessTrial
from tests.pipeline.keyed.processes import PAYMENT, Careless, Counted, Everything, Fraud, Limits

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
OUTPUTS = {"": PAYMENT, "rung": "card STRING, told STRING, at TIMESTAMP"}
FAR = 10**9


def micros(second: float) -> int:
    return int((BEGIN + timedelta(seconds=second)).timestamp() * 1_000_000)


def payment(second: float, amount: float) -> tuple[int, str]:
    row = {"card": "a", "amount": amount, "at": (BEGIN + timedelta(seconds=second)).isoformat()}
    return micros(second), json.dumps(row)


def given_out(
    made: type, batches: list[tuple[list[tuple[int, str]], float]], *, quarantine: bool = False
) -> list[tuple[str, str]]:
    """What a process gives for batches, each with the time up to which everything is known after it."""
    process = Process(made, columns_of(PAYMENT).reader(), OUTPUTS, quarantine=quarantine)
    text: str | None = None
    waiting: list[tuple[int, str]] = []
    given: list[tuple[str, str]] = []
    for rows, until in batches:
        turn = process.turn("a", text, waiting, rows, micros(until))
        text, waiting = turn.text, turn.waiting
        given += turn.given
    assert not waiting
    return given


def test_a_large_payment_after_a_small_one_within_a_minute() -> None:
    rows = [payment(0, 0.5), payment(59, 20_000), payment(100, 0.5), payment(161, 20_000), payment(200, 20_000)]
    (found,) = given_out(Fraud, [(rows, FAR)])
    assert json.loads(found[1]) == {"card": "a", "amount": 20000.0, "at": "2026-01-01T00:00:59.000000Z"}


def test_a_row_at_the_time_of_a_timer_comes_before_it() -> None:
    assert len(given_out(Fraud, [([payment(0, 0.5), payment(60, 20_000)], FAR)])) == 1
    assert len(given_out(Fraud, [([payment(0, 0.5), payment(60.000001, 20_000)], FAR)])) == 0


AMOUNTS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 5)), min_size=1, max_size=25)


@settings(max_examples=200, deadline=None)
@given(AMOUNTS, st.randoms(use_true_random=False))
def test_batches_and_order_change_nothing(rows: list[tuple[int, int]], chance: Any) -> None:
    every = sorted(payment(second, amount) for second, amount in rows)
    wanted = given_out(Everything, [(every, FAR)])
    left, batches, known = list(enumerate(every)), [], -1
    while left:  # whatever comes has not been declared known before
        known = min(FAR, known + chance.randrange(30))
        now = [one for one in left if one[1][0] <= micros(known) or chance.random() < 0.3]
        chance.shuffle(now)
        batches.append(([row for _, row in now], known))
        left = [one for one in left if one not in now]
    assert given_out(Everything, [*batches, ([], FAR)]) == wanted


def test_what_is_forgotten_leaves_nothing() -> None:
    process = Process(Fraud, columns_of(PAYMENT).reader(), OUTPUTS)
    turn = process.turn("a", None, [], [payment(0, 0.5)], micros(0))
    assert turn.text is not None
    assert turn.wakes == micros(60)
    turn = process.turn("a", turn.text, [], [], micros(60))
    assert (turn.text, turn.wakes, turn.given) == (None, None, [])


@pytest.mark.parametrize(
    ("ddl", "value"),
    [
        ("BOOLEAN", True),
        ("LONG", 1 << 62),
        ("DOUBLE", 0.1),
        ("STRING", "ü\n"),
        ("DECIMAL(20, 4)", Decimal("12345678901234.5678")),
        ("TIMESTAMP", datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)),
        ("DATE", datetime(2026, 1, 2, tzinfo=UTC).date()),
        ("BINARY", b"\x00\xff"),
        ("ARRAY<STRUCT<a: INT, b: ARRAY<DATE>>>", [{"a": 1, "b": [datetime(2026, 1, 2, tzinfo=UTC).date(), None]}]),
        ("MAP<LONG, DECIMAL(3,1)>", {5: Decimal("1.5")}),
        ("MAP<DATE, BOOLEAN>", {datetime(2026, 1, 2, tzinfo=UTC).date(): False}),
        ("STRUCT<`odd, name`: STRING>", {"odd, name": None}),
    ],
)
def test_values_come_back_as_they_were(ddl: str, value: Any) -> None:
    kind = kind_of(ddl)
    assert kind.load(json.loads(json.dumps(kind.dump(value)), parse_float=Decimal)) == value


@pytest.mark.parametrize(
    ("ddl", "value"), [("INT", 1 << 31), ("LONG", True), ("LONG", 1.0), ("DOUBLE", "1"), ("STRING", 1), ("DATE", "x")]
)
def test_what_does_not_fit_is_refused(ddl: str, value: Any) -> None:
    with pytest.raises(TypeError, match="is not a"):
        kind_of(ddl).dump(value)


def test_a_type_that_is_none_is_told_of() -> None:
    with pytest.raises(DeclarationError, match="'LONGG' does not say types"):
        kind_of("LONGG")


def test_a_trial_without_spark() -> None:
    made = ps.Pipeline("payments")
    fraud = made.keyed(by="card", returns="card STRING, amount DOUBLE", name="fraud")(Fraud)
    trial = ProcessTrial(fraud)
    trial.given({"card": "a", "amount": 0.5}, {"card": "b", "amount": 0.5}, at="10:00")
    trial.given({"card": "b", "amount": 20_000.0}, at="10:01:01").given(
        {"card": "a", "amount": 20_000.0}, at="10:00:59"
    )
    trial.advance("10:00:30")
    assert trial.state("b") == {"small": True}
    assert trial.timers("b") == {"timer": datetime(2026, 1, 1, 10, 1, tzinfo=UTC)}
    assert trial.end().rows() == [{"card": "a", "amount": 20_000.0}]
    assert trial.state("b") == {}


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 90), st.sampled_from([0.5, 13.0, 20_000.0])), max_size=20))
def test_a_row_that_raises_leaves_nothing_behind(rows: list[tuple[int, float]]) -> None:
    every = [payment(*one) for one in rows]
    found = given_out(Careless, [(every, FAR)], quarantine=True)
    good = [one for one, (_, amount) in zip(every, rows, strict=True) if amount != 13]
    assert [one for one in found if one[0] != RAISED] == given_out(Fraud, [(good, FAR)])
    told = sorted(json.loads(text) for output, text in found if output == RAISED)
    assert told == sorted([text, "ValueError", "unlucky"] for _, text in every if json.loads(text)["amount"] == 13)


def test_without_quarantine_it_raises() -> None:
    with pytest.raises(ValueError, match="unlucky"):
        given_out(Careless, [([payment(0, 13)], FAR)])


def test_what_an_older_version_remembered_is_migrated() -> None:
    old = Process(Fraud, columns_of(PAYMENT).reader(), OUTPUTS).turn("a", None, [], [payment(0, 0.5)], micros(1))
    process = Process(Counted, columns_of(PAYMENT).reader(), OUTPUTS)
    turn = process.turn("a", old.text, [], [payment(10, 0.5), payment(20, 20_000)], micros(20))
    assert [json.loads(text)["amount"] for _, text in turn.given] == [2.0]
    assert turn.text is not None
    assert json.loads(turn.text)["version"] == 2


@pytest.mark.parametrize(
    ("then", "now", "goes_on"),
    [
        ("value of LONG", "value of LONG", True),
        ("value of INT", "value of LONG", True),
        ("value of LONG", "value of INT", False),
        ("value of FLOAT", "value of DOUBLE", True),
        ("value of LONG", "list of LONG", False),
        ("value of DATE", "value of STRING", False),
        ("value of STRUCT<a: INT>", "value of STRUCT<a: BIGINT, b: STRING>", True),
        ("value of STRUCT<a: INT, b: STRING>", "value of STRUCT<a: INT>", False),
        ("map of STRING, INT", "map of STRING, LONG", True),
        ("list of ARRAY<INT>", "list of ARRAY<STRING>", False),
    ],
)
def test_which_types_can_go_on(then: str, now: str, goes_on: bool) -> None:
    before, after = ({"version": 1, "states": {"one": said}} for said in (then, now))
    assert (not list(unreadable(before, after))) == goes_on
    assert not list(unreadable(before, {"version": 2, "states": {}}))
    assert list(unreadable({**before, "version": 3}, after)) == ["it is version 1 now, and was 3"]


def test_a_version_without_a_way_there_is_refused() -> None:
    class Newer(Fraud):
        version = 2

    with pytest.raises(DeclarationError, match="no way from the versions before"):
        ps.Pipeline("bank").keyed(by="card", returns=PAYMENT)(Newer)


def test_a_table_to_begin_with() -> None:
    def limits() -> ProcessTrial:
        return ProcessTrial(ps.Pipeline("bank").keyed(by="card", returns=PAYMENT)(Limits))

    trial = limits().begins({"card": "a", "limit": 5.0}, {"card": "c", "limit": 6.0})
    trial.given({"card": "a", "amount": 7.0}, {"card": "b", "amount": 7.0}, at="10:00")
    trial.given({"card": "c", "amount": 7.0}, at="20:00")
    assert [one["card"] for one in trial.end().rows()] == ["a", "c"]  # no time passes for what has none
    timed = limits().begins({"card": "a", "limit": 5.0}, at="10:00")
    timed.given({"card": "a", "amount": 7.0}, at="12:00")
    assert timed.end().rows() == []
