"""A class declared as a process: checked, and added to the pipeline as flows."""

from __future__ import annotations

import inspect
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.errors import DeclarationError
from penstock.pipeline.declare import Flow
from penstock.pipeline.keyed.kinds import columns_of
from penstock.pipeline.keyed.process import MAIN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.pipeline.declare import Place

__all__ = ["process_flows"]

_CLOCKS = ("event", "processing")
_ALL = "__outputs"


def process_flows(
    made: type,
    place: Place,
    by: str | Sequence[str],
    returns: str,
    outputs: Mapping[str, str],
    *,
    clock: str,
    ordered: bool,
    name: str | None,
) -> list[Flow]:
    """The flows of a process, its own first; with several outputs also the one that all are taken from."""
    keys = (by,) if isinstance(by, str) else tuple(by)
    name = name or made.__name__
    every = {MAIN: returns, **outputs}
    given = _input(made, place)
    if clock not in _CLOCKS:
        raise _wrong(place, f"clock={clock!r} is not known.", f"Write one of {', '.join(_CLOCKS)}.")
    for ddl in every.values():
        columns_of(ddl)
    how: dict[str, Any] = {"expectations": (), "emit": "final", "place": place}
    whole = partial(_processed, made, keys, every, clock, ordered)
    if not outputs:
        return [Flow(name=name, function=partial(_only, whole, returns), inputs=(given,), **how)]
    flows = [
        Flow(name=one or name, function=partial(_output, one, ddl), inputs=(f"{name}{_ALL}",), **how)
        for one, ddl in every.items()
    ]
    return [*flows, Flow(name=f"{name}{_ALL}", function=whole, inputs=(given,), **how)]


def _processed(made: type, by: Sequence[str], outputs: Mapping[str, str], clock: str, ordered: bool, rows: Any) -> Any:
    from penstock.pipeline.keyed.on_spark import processed

    return processed(rows, made, by, outputs, clock=clock, ordered=ordered)


def _output(name: str, columns: str, rows: Any) -> Any:
    from penstock.pipeline.keyed.on_spark import given_out

    return given_out(rows, name, columns)


def _only(whole: Any, columns: str, rows: Any) -> Any:
    return _output(MAIN, columns, whole(rows))


def _input(made: type, place: Place) -> str:
    """The stream that a process reads: the name of the first parameter of `on_event`."""
    if not inspect.isclass(made) or not callable(getattr(made, "on_event", None)):
        remedy = "Write class fraud: def on_event(self, payments, now): …"
        raise _wrong(place, f"{made!r} is no process.", remedy)
    names = list(inspect.signature(getattr(made, "on_event")).parameters)  # noqa: B009
    if len(names) != 3:
        raise _wrong(place, "on_event takes a row and where it stands.", "Write def on_event(self, payments, now): …")
    return names[1]


def _wrong(place: Place, problem: str, remedy: str) -> DeclarationError:
    return DeclarationError(problem, code="declaration-wrong", place=str(place), remedy=remedy)
