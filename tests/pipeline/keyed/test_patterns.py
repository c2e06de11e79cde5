"""Patterns: cases whose answers follow from what FlinkCEP documents, and random ones against a plain reference."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.errors import DeclarationError
from penstock.pipeline.keyed.matching import Matching
from tests.pipeline.keyed.reference import NEGATIVE, Case

if TYPE_CHECKING:
    from penstock.pipeline.keyed.pattern import Pattern

CASES = [json.loads(one) for one in Path(__file__).with_name("pattern_cases.jsonl").read_text("utf-8").splitlines()]
FAR = 10**12


def declared(case: Case) -> Pattern:
    """A case in the words of the product."""
    made: Pattern | None = None
    for step in case.pattern:
        if made is None:
            made = ps.pattern(step["name"], step["on"])
        elif step["how"] in NEGATIVE:
            made = getattr(made, step["how"])(step["on"])
            continue
        else:
            made = getattr(made, step["how"])(step["name"], step["on"])
        least, most = step.get("times", (1, 1))
        if (least, most) != (1, 1):
            made = made.at_least(least) if most is None else made.times(least, most)
        made = made.optional() if step.get("optional") else made
        made = made.greedy() if step.get("greedy") else made
        inner = step.get("inner", "relaxed")
        made = made.consecutive() if inner == "strict" else made.combinations() if inner == "any" else made
        made = made.until(step["until"]) if step.get("until") else made
    assert made is not None
    made = made.within(f"{case.within} seconds") if case.within is not None else made
    return made.skip(case.skip)


def matched(case: Case, batches: list[int] | None = None) -> list[list[tuple[str, list[str]]]]:
    """What the matcher gives, batch by batch, with its memory as text in between."""
    pattern = declared(case)
    matching = Matching(pattern, json.loads)
    rows = []
    for place, (name, second) in enumerate(case.events):  # events of one time keep their order
        bits = sum(1 << at for at, one in enumerate(pattern.conditions) if name[0] in str(one))
        rows.append((int(second * 1_000_000) + place, f"{bits} {json.dumps([name])}"))
    text, given_out = None, []
    for size in [*(batches or []), len(rows)]:
        batch, rows = rows[:size], rows[size:]
        turn = matching.turn("key", text, [], batch, batch[-1][0] if batch else 0)
        text = turn.text
        given_out += turn.given
    if text is not None:
        given_out += at_the_end(matching, text)
    found = [json.loads(one) for _, one in given_out]
    return [[(name, names_of(told[name])) for name in told if not name.startswith("__")] for told in found]


def at_the_end(matching: Matching, text: str) -> list[tuple[str, str]]:
    """What comes out when time runs on and no event comes; a match then waits no longer for attempts before it."""
    matcher, number, kept = matching._remembered(text)
    found = matcher.advance(FAR, number)
    matcher.attempts = []
    return [("", matching._match(one, kept)) for one in (*found, *matcher._out([]))]


def names_of(rows: list[Any]) -> list[str]:
    return [one[0] for one in rows] if isinstance(rows[0], list) else rows


def case_of(told: dict[str, Any]) -> Case:
    events = [(name, float(second)) for name, _, second in (one.partition("@") for one in told["events"].split())]
    return Case(told["pattern"], events, told["within"], told["skip"])


def as_text(matches: list[list[tuple[str, list[str]]]]) -> list[str]:
    return [" ".join(f"{name}={','.join(events)}" for name, events in one) for one in matches]


@pytest.mark.parametrize("told", CASES, ids=lambda one: one["name"])
def test_what_flink_documents(told: dict[str, Any]) -> None:
    case = case_of(told)
    in_order = sorted if told.get("any_order") else list
    for found in (as_text(case.matches()), as_text(matched(case)), as_text(matched(case, [2, 1, 2]))):
        assert in_order(found) == in_order(told["matches"]), told["why"]


STEPS = st.fixed_dictionaries(
    {
        "on": st.sampled_from(["a", "b", "c", "ab"]),
        "how": st.sampled_from(["next", "followed_by", "followed_by_any", "not_next", "not_followed_by"]),
        "times": st.sampled_from([(1, 1), (1, 1), (2, 2), (1, 3), (1, None), (2, None)]),
        "optional": st.booleans(),
        "greedy": st.booleans(),
        "inner": st.sampled_from(["relaxed", "strict", "any"]),
        "until": st.sampled_from([None, None, None, "c"]),
    }
)


@settings(max_examples=1000, deadline=None)
@given(
    st.lists(STEPS, min_size=1, max_size=4),
    st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 2)), max_size=8),
    st.sampled_from([None, 3, 6]),
    st.sampled_from(["none", "next", "past"]),
    st.lists(st.integers(1, 3), max_size=3),
)
def test_random_patterns_equal_the_reference(
    steps: list[dict[str, Any]], events: list[tuple[str, int]], within: int | None, skip: str, batches: list[int]
) -> None:
    pattern = [{**step, "name": f"s{number}"} for number, step in enumerate(steps)]
    pattern[0]["how"] = "followed_by"
    positive = [one for one in pattern if one["how"] not in NEGATIVE]
    assume(not all(one["optional"] for one in positive))
    ends = [one["how"] for one in pattern[pattern.index(positive[-1]) + 1 :]]
    assume("not_followed_by" not in ends or (within is not None and ends == ["not_followed_by"]))
    assume(not ends or positive[-1]["times"][0] == positive[-1]["times"][1])  # Flink itself is of two minds there
    assume(len(ends) < 2)
    second, told = 0.0, []
    for number, (letter, later) in enumerate(events):
        second += later
        told.append((f"{letter}{number}", second))
    case = Case(pattern, told, within, skip)
    wanted = as_text(case.matches())
    assert sorted(as_text(matched(case))) == sorted(wanted)
    assert as_text(matched(case, batches)) == as_text(matched(case))


def test_patterns_that_can_not_be() -> None:
    with pytest.raises(DeclarationError, match="never ends"):
        ps.pattern("a", "x = 1").not_followed_by("x = 2").checked()
    with pytest.raises(DeclarationError, match="Every step of the pattern is optional"):
        ps.pattern("a", "x = 1").optional().checked()
    with pytest.raises(DeclarationError, match="can't be called 'a' here"):
        ps.pattern("a", "x = 1").next("a", "x = 2")
    with pytest.raises(DeclarationError, match=r"skip\('first:b'\) is not known"):
        ps.pattern("a", "x = 1").skip("first:b")
