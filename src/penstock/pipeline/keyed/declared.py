"""A class declared as a process: checked, and added to the pipeline as flows."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.errors import DeclarationError
from penstock.pipeline.declare import Flow
from penstock.pipeline.keyed.kinds import columns_of
from penstock.pipeline.keyed.process import MAIN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.pipeline.declare import Place

__all__ = ["Declared", "process_flows"]

_CLOCKS = ("event", "processing")
_ALL = "__outputs"


@dataclass(frozen=True)
class Declared:
    """A class with its keys, its outputs (the main one is ""), and its time."""

    made: type
    by: tuple[str, ...]
    outputs: Mapping[str, str]
    clock: str = "event"
    ordered: bool = True


def process_flows(declared: Declared, place: Place, name: str | None) -> list[Flow]:
    """The flows of a process, its own first; with several outputs also the one that all are taken from."""
    name = name or declared.made.__name__
    given = _input(declared.made, place)
    if declared.clock not in _CLOCKS:
        raise _wrong(place, f"clock={declared.clock!r} is not known.", f"Write one of {', '.join(_CLOCKS)}.")
    for ddl in declared.outputs.values():
        columns_of(ddl)
    how: dict[str, Any] = {"expectations": (), "emit": "final", "place": place, "process": declared}
    how["unbounded"] = declared.clock == "processing"  # no event time could take its state away
    whole = partial(_processed, declared)
    if len(declared.outputs) == 1:
        only = partial(_only, whole, declared.outputs[MAIN])
        return [Flow(name=name, function=only, inputs=(given,), **how)]
    flows = [
        Flow(name=one or name, function=partial(_output, one, ddl), inputs=(f"{name}{_ALL}",), **how)
        for one, ddl in declared.outputs.items()
    ]
    return [*flows, Flow(name=f"{name}{_ALL}", function=whole, inputs=(given,), **how)]


def _processed(declared: Declared, rows: Any) -> Any:
    from penstock.pipeline.keyed.on_spark import processed

    return processed(rows, declared)


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
