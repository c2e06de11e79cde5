"""Declarations: frozen data that knows its file and line. Nothing here imports Spark."""

from __future__ import annotations

import inspect
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from penstock.connectors.base import SinkConnector, SourceConnector
from penstock.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["EventTime", "Expectation", "Flow", "Pipeline", "Place", "Sink", "Source"]

_PACKAGE = str(Path(__file__).parents[1])


@dataclass(frozen=True)
class Place:
    """A line of the user's file."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    @classmethod
    def of_caller(cls) -> Place:
        """The nearest line outside this package."""
        frame = sys._getframe(1)
        while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
            frame = frame.f_back
        return cls(frame.f_code.co_filename, frame.f_lineno)


@dataclass(frozen=True)
class EventTime:
    """Which column says when a row happened, how long stragglers are waited for, and what becomes of later ones.

    `late`: "drop" counts them; "keep" puts every one of them, once, into the dead-letter topic with the rule `late`.
    """

    column: str
    delay: str = "10 seconds"
    late: str = "drop"


@dataclass(frozen=True)
class Expectation:
    """A rule about rows, as a SQL expression, and what becomes of rows that break it."""

    name: str
    rule: str
    action: str = "quarantine"


@dataclass(frozen=True)
class Source:
    """A stream that comes in."""

    name: str
    connector: SourceConnector
    time: EventTime | None
    place: Place = field(compare=False)


@dataclass(frozen=True)
class Flow:
    """A function over its inputs; calling it calls the function."""

    name: str
    function: Callable[..., Any] = field(compare=False)
    inputs: tuple[str, ...]
    expectations: tuple[Expectation, ...]
    emit: str
    place: Place = field(compare=False)

    def __call__(self, *inputs: Any) -> Any:
        """Call the function itself, as a test would."""
        return self.function(*inputs)


@dataclass(frozen=True)
class Sink:
    """Where a flow goes."""

    flow: str
    connector: SinkConnector
    guarantee: str | None
    place: Place = field(compare=False)


class Pipeline:
    """Sources, flows and sinks under one name; declare it at the top of a file."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.place = Place.of_caller()
        self.sources: list[Source] = []
        self.flows: list[Flow] = []
        self.sinks: list[Sink] = []

    def source(self, name: str, connector: SourceConnector, time: EventTime | None = None) -> Source:
        """Declare a stream that comes in."""
        place = Place.of_caller()
        if not isinstance(connector, SourceConnector):
            raise _wrong(place, f"{connector!r} can't be read.", "Give a source such as ps.Kafka('orders', …).")
        made = Source(name, connector, time, place)
        self.sources.append(made)
        return made

    @overload
    def flow(self, function: Callable[..., Any], /) -> Flow: ...

    @overload
    def flow(
        self,
        /,
        *,
        expect: Mapping[str, str | tuple[str, str]] | None = None,
        emit: str = "final",
        name: str | None = None,
    ) -> Callable[[Callable[..., Any]], Flow]: ...

    def flow(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        expect: Mapping[str, str | tuple[str, str]] | None = None,
        emit: str = "final",
        name: str | None = None,
    ) -> Flow | Callable[[Callable[..., Any]], Flow]:
        """Declare a function over streams; each parameter is the source or flow of that name.

        `expect` names rules: `{"positive amount": "amount > 0"}`, or with what happens to a row that breaks one:
        `{"positive amount": ("amount > 0", "warn")}` (quarantine, warn or fail). `emit` is `final` (a window's row
        once, when it can't change any more) or `changes` (a row at every change).
        """
        rules = tuple(
            Expectation(title, *((rule, "quarantine") if isinstance(rule, str) else rule))
            for title, rule in (expect or {}).items()
        )

        def declare(body: Callable[..., Any]) -> Flow:
            code = body.__code__
            place = Place(code.co_filename, code.co_firstlineno)
            inputs = tuple(inspect.signature(body).parameters)
            made = Flow(name or body.__name__, body, inputs, rules, emit, place)
            self.flows.append(made)
            return made

        return declare if function is None else declare(function)

    def sink(self, flow: Flow | Source | str, connector: SinkConnector, guarantee: str | None = None) -> Sink:
        """Declare where a flow goes."""
        place = Place.of_caller()
        if not isinstance(connector, SinkConnector):
            raise _wrong(place, f"{connector!r} can't be written.", "Give a sink such as ps.Kafka('metrics').")
        made = Sink(flow if isinstance(flow, str) else flow.name, connector, guarantee, place)
        self.sinks.append(made)
        return made


def _wrong(place: Place, problem: str, remedy: str) -> DeclarationError:
    return DeclarationError(problem, code="declaration-wrong", place=str(place), remedy=remedy)
