"""A class declared as a process: checked, and added to the pipeline as flows."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.errors import DeclarationError
from penstock.pipeline.declare import ALL, Flow
from penstock.pipeline.keyed.kinds import columns_of
from penstock.pipeline.keyed.process import states_of, version_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.pipeline.declare import Place

__all__ = ["Declared", "process_flows", "quarantining"]

_CLOCKS = ("event", "processing")


@dataclass(frozen=True)
class Declared:
    """A class with its keys, its outputs (the main one is ""), its time, and whether rows may be dead letters."""

    made: type
    by: tuple[str, ...]
    outputs: Mapping[str, str]
    clock: str = "event"
    ordered: bool = True
    quarantine: bool = False

    def remembers(self) -> dict[str, Any]:
        """Its states by name, and their version."""
        return {"version": version_of(self.made), "states": {one.name: one.described() for one in states_of(self.made)}}


def process_flows(declared: Declared, place: Place, name: str | None) -> list[Flow]:
    """The flows of a process, one for each output, its own first; and the one that all are taken from."""
    name = name or declared.made.__name__
    inputs = _inputs(declared.made, place)
    if version_of(declared.made) != 1 and not hasattr(declared.made, "migrate"):
        remedy = "Write def migrate(self, states, version): … that gives the states as they are now."
        raise _wrong(place, f"{name} has a version, and no way from the versions before.", remedy)
    if declared.clock not in _CLOCKS:
        raise _wrong(place, f"clock={declared.clock!r} is not known.", f"Write one of {', '.join(_CLOCKS)}.")
    for ddl in declared.outputs.values():
        columns_of(ddl)
    how: dict[str, Any] = {"expectations": (), "emit": "final", "place": place, "process": declared}
    how["unbounded"] = declared.clock == "processing"  # no event time could take its state away
    flows = [
        Flow(name=one or name, function=partial(_output, one, ddl), inputs=(f"{name}{ALL}",), **how)
        for one, ddl in declared.outputs.items()
    ]
    return [*flows, Flow(name=f"{name}{ALL}", function=partial(_processed, declared), inputs=inputs, **how)]


def quarantining(flow: Flow, *, to: bool = True) -> Flow:
    """The process, such that a row which makes it raise is a dead letter, or stops it."""
    assert flow.process is not None
    declared = replace(flow.process, quarantine=to)
    return replace(flow, function=partial(_processed, declared), process=declared)


def _processed(declared: Declared, rows: Any, table: Any = None) -> Any:
    from penstock.pipeline.keyed.on_spark import processed

    return processed(rows, table, declared)


def _output(name: str, columns: str, rows: Any) -> Any:
    from penstock.pipeline.keyed.on_spark import given_out

    return given_out(rows, name, columns)


def _inputs(made: type, place: Place) -> tuple[str, ...]:
    """The stream that a process reads, and the table it begins with: so its methods name their first parameter."""
    if not inspect.isclass(made) or not callable(getattr(made, "on_event", None)):
        remedy = "Write class fraud: def on_event(self, payments, now): …"
        raise _wrong(place, f"{made!r} is no process.", remedy)
    found = []
    for method in ("on_event", "on_initial"):
        names = list(inspect.signature(getattr(made, method)).parameters) if hasattr(made, method) else [""] * 3
        if len(names) != 3:
            raise _wrong(place, f"{method} takes a row and where it stands.", f"Write def {method}(self, name, now): …")
        found.append(names[1])
    return tuple(one for one in found if one)


def _wrong(place: Place, problem: str, remedy: str) -> DeclarationError:
    return DeclarationError(problem, code="declaration-wrong", place=str(place), remedy=remedy)
