"""Features without Spark: whatever the batches and the disorder, what a plain look at all rows finds."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.pipeline.keyed.feature_rows import AT, FeatureColumn, FeatureRows
from penstock.pipeline.keyed.running import Counted, Different, Newest, Summed, SummedDecimals, SummedReals
from tests.pipeline.keyed.batches import FAR, given_out, in_batches

if TYPE_CHECKING:
    import random

    from penstock.pipeline.keyed.process import Waiting

KINDS: dict[str, tuple[str, Any]] = {
    "rows": (AT, Counted),
    "whole": ("whole", Summed),
    "exact": ("exact", partial(SummedDecimals, 2)),
    "real": ("real", SummedReals),
    "different": ("whole", Different),
    "newest": ("whole", partial(Newest, 3)),
}
OVERS = (5, 20, 60)
COLUMNS = [FeatureColumn(f"{name}_{over}", over, *kind) for name, kind in KINDS.items() for over in OVERS]
Row = tuple[int, int | None, str | None, float | None]


def told(rows: list[Row]) -> Waiting:
    made = []
    for micros, *values in rows:
        named = dict(zip(("whole", "exact", "real"), values, strict=True))
        there = {name: one for name, one in named.items() if one is not None}
        made.append((micros, json.dumps({"key": '{"k":"a"}', **there})))
    return made


def at_a_time(rows: list[tuple[int, dict[str, Any]]], now: int) -> dict[str, Any]:
    """The features at a time, by a look at all rows."""
    found: dict[str, Any] = {"key": '{"k":"a"}', "at": now}
    for over in OVERS:
        within = [row for micros, row in rows if now - over < micros <= now]
        whole, exact, real = ([row[name] for row in within if name in row] for name in ("whole", "exact", "real"))
        found[f"rows_{over}"] = len(within)
        found[f"whole_{over}"] = sum(whole)
        found[f"exact_{over}"] = str(sum(map(Decimal, exact), Decimal("0.00")))
        found[f"real_{over}"] = math.fsum(real)
        found[f"different_{over}"] = len(set(whole))
        found[f"newest_{over}"] = whole[-3:]
    return found


def expected(waiting: Waiting, *, empty_rows: bool = True) -> list[dict[str, Any]]:
    """The features at every row; and at every time at which a window lost its last row and got no other."""
    rows = [(micros, json.loads(text)) for micros, text in sorted(waiting)]
    times = [micros for micros, _ in rows]
    moments = list(times)
    if empty_rows:
        moments += {at + over for at in times for over in OVERS if not any(at < other <= at + over for other in times)}
    return [at_a_time(rows, now) for now in sorted(moments)]


ROWS = st.lists(
    st.tuples(
        st.integers(0, 200),
        st.none() | st.integers(-3, 3),
        st.none() | st.decimals(-1000, 1000, places=2).map(str),
        st.none() | st.floats(-1e16, 1e16),
    ),
    max_size=25,
)


@settings(max_examples=300, deadline=None)
@given(ROWS, st.randoms(use_true_random=False), st.booleans())
def test_batches_and_order_change_nothing(rows: list[Row], chance: random.Random, empty_rows: bool) -> None:
    every = told(rows)
    found = given_out(FeatureRows(COLUMNS, empty_rows=empty_rows), in_batches(every, chance, 40))
    assert found == expected(every, empty_rows=empty_rows)


def test_a_window_has_its_end_and_not_its_beginning() -> None:
    rows: list[Row] = [(0, 1, None, None), (5, 1, None, None), (9, 1, None, None), (9, 1, None, None)]
    found = given_out(FeatureRows(COLUMNS, empty_rows=False), [(told(rows), FAR)])
    assert [(one["at"], one["rows_5"]) for one in found] == [(0, 1), (5, 1), (9, 3), (9, 3)]


def test_a_key_is_forgotten_when_its_longest_window_is_empty() -> None:
    made = FeatureRows(COLUMNS, empty_rows=True)
    turn = made.turn("a", None, [], told([(0, 7, None, None)]), 4)
    assert (len(turn.given), turn.wakes) == (1, 5)
    turn = made.turn("a", turn.text, [], [], 5)
    assert [(row["at"], row["whole_5"], row["whole_20"]) for row in map(json.loads, dict(turn.given).values())] == [
        (5, 0, 7)
    ]
    assert turn.wakes == 20
    turn = made.turn("a", turn.text, [], [], 59)
    assert turn.text is not None
    turn = made.turn("a", turn.text, [], [], 60)
    assert (len(turn.given), turn.text, turn.wakes) == (1, None, None)


def test_only_what_features_need_is_kept() -> None:
    made = FeatureRows([one for one in COLUMNS if one.name in ("whole_5", "whole_20")], empty_rows=True)
    rows: list[Row] = [(at, 1, "2.00", 3.5) for at in range(100)]
    text = made.turn("a", None, [], told(rows), 99).text
    assert text is not None
    assert json.loads(text) == {
        "key": '{"k":"a"}',
        "said": 99,
        "at": list(range(80, 100)),
        "values": {"whole": [1] * 20},
    }


def test_a_field_that_was_not_kept_before_is_null_in_older_rows() -> None:
    before = FeatureRows([one for one in COLUMNS if one.field == AT], empty_rows=True)
    text = before.turn("a", None, [], told([(0, 1, None, None)]), 0).text
    rows: list[Row] = [(1, 1, None, None), (5, 1, None, None)]
    turn = FeatureRows(COLUMNS, empty_rows=True).turn("a", text, [], told(rows), 5)
    found = [json.loads(one) for _, one in turn.given]
    assert [(row["rows_5"], row["whole_5"], row["whole_20"]) for row in found] == [(2, 1, 1), (2, 2, 2)]


def test_totals_that_are_no_numbers_come_and_go() -> None:
    made = SummedReals()
    made.take([1e308, 1e308, 0.1])
    assert made.told() == "Infinity"
    made.drop([1e308])
    assert made.told() == 1e308
    made.take(["NaN", "-Infinity"])
    assert made.told() == "NaN"
    made.drop([1e308, 0.1, "NaN"])
    assert made.told() == "-Infinity"
    made.drop(["-Infinity"])
    assert made.told() == 0.0


def test_totals_that_do_not_fit_are_null() -> None:
    whole, exact = Summed(), SummedDecimals(2)
    whole.take([2**63 - 1, 1])
    assert whole.told() is None
    whole.drop([2**63 - 1])
    assert whole.told() == 1
    exact.take(["9" * 36 + ".99", "0.01"])
    assert exact.told() is None
    exact.take(["-0.02"])
    assert exact.told() == "9" * 36 + ".98"


@settings(max_examples=300, deadline=None)
@given(st.lists(st.floats(-1e300, 1e300), max_size=20), st.integers(0, 20))
def test_a_total_of_reals_is_rounded_once(values: list[float], dropped: int) -> None:
    made = SummedReals()
    made.take(values)
    made.drop(values[:dropped])
    assert made.told() == math.fsum(values[dropped:])
