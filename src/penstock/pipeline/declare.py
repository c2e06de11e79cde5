"""Declarations: frozen data that knows its file and line. Nothing here imports Spark."""

from __future__ import annotations

import inspect
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from penstock.connectors.base import BatchSink, BestEffortSink, SinkConnector, SourceConnector, TableConnector
from penstock.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.pipeline.keyed.declared import Declared
    from penstock.pipeline.lookups.declared import Lookup

__all__ = [
    "ALL",
    "LATE",
    "EventTime",
    "Expectation",
    "Flow",
    "Pipeline",
    "Place",
    "ProcessingTime",
    "Sink",
    "Source",
    "Table",
]

LATE = "$late"
ALL = "__outputs"  # the flow of a process from which its outputs are taken

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

    `delay`: a duration, or `p99` (any percentile) to learn it from the disorder of the newest rows at the start.
    `late`: "drop" counts them; "keep" puts every one of them, once, into `<flow>$late` (a sink may hang on it; else the
    dead-letter topic); "update" corrects a window for `grace` longer and emits its row again at each change.
    `future`: rows dated further ahead of their arrival than this are dead letters and never move time; None lets them.
    `idle`: when nothing comes for so long, time goes on by the clock, so that windows close and no other stream waits.
    """

    column: str
    delay: str = "10 seconds"
    late: str = "drop"
    grace: str | None = None
    future: str | None = "1 day"
    idle: str | None = None


@dataclass(frozen=True)
class ProcessingTime(EventTime):
    """The time at which a row is processed, as a column; windows over it depend on when the pipeline runs."""

    column: str = "processed_at"
    delay: str = "0 seconds"
    future: str | None = None
    idle: str | None = "1 second"


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
class Table:
    """Rows to look up, read whole: files once per query, a Kafka topic at each batch."""

    name: str
    connector: TableConnector
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
    unbounded: bool = False
    returns: str | None = None
    process: Declared | None = field(default=None, compare=False)
    lookup: Lookup | None = field(default=None, compare=False)
    with_origin: bool = False  # a flow of ours, which is told where each row of its source came from

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
    latency: str = "micro-batch"
    query: str | None = None

    @property
    def promise(self) -> str:
        """What it gives: what was asked for, or the most that it can."""
        return "at-least-once" if self.latency == "realtime" else self.guarantee or self.connector.guarantee

    @property
    def streamed(self) -> bool:
        """Whether Spark writes it by itself."""
        weak = self.promise == "at-least-once" or not isinstance(self.connector, BatchSink)
        return isinstance(self.connector, BestEffortSink) and weak

    @property
    def alone(self) -> bool:
        """Whether it must have a query of its own."""
        return self.streamed or self.latency == "realtime"


class Pipeline:
    """Sources, tables, flows and sinks under one name; declare it at the top of a file.

    `state="memory"` keeps what aggregates, joins and deduplication remember in Java's memory instead of on disk
    (RocksDB): quicker, but it must fit there. What a process remembers is always on disk, and all of real-time mode.
    """

    def __init__(self, name: str, *, state: str = "disk") -> None:
        self.name = name
        self.state = state
        self.place = Place.of_caller()
        self.sources: list[Source] = []
        self.tables: list[Table] = []
        self.flows: list[Flow] = []
        self.sinks: list[Sink] = []

    def source(self, name: str, connector: SourceConnector, time: EventTime | None = None) -> Source:
        """Declare a stream that comes in."""
        place = Place.of_caller()
        made = Source(name, _readable(connector, place), time, place)
        self.sources.append(made)
        return made

    def table(self, name: str, connector: TableConnector) -> Table:
        """Declare rows to join with: files, or a Kafka topic with the latest row of each key."""
        place = Place.of_caller()
        made = Table(name, _lookup(_readable(connector, place), place), place)
        self.tables.append(made)
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
        unbounded: bool = False,
        name: str | None = None,
    ) -> Callable[[Callable[..., Any]], Flow]: ...

    def flow(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        expect: Mapping[str, str | tuple[str, str]] | None = None,
        emit: str = "final",
        unbounded: bool = False,
        name: str | None = None,
    ) -> Flow | Callable[[Callable[..., Any]], Flow]:
        """Declare a function over streams; each parameter is the source, table or flow of that name.

        `expect` names rules: `{"positive amount": "amount > 0"}`, or with what happens to a row that breaks one:
        `{"positive amount": ("amount > 0", "warn")}` (quarantine, warn or fail). `emit` is `final` (a window's row
        once, when it can't change any more) or `changes` (a row at every change). `unbounded` allows state that is
        never forgotten, such as a total per customer.
        """

        def declare(body: Callable[..., Any]) -> Flow:
            return self._add(body, name, expect, emit=emit, unbounded=unbounded)

        return declare if function is None else declare(function)

    def each(
        self,
        returns: str,
        *,
        expect: Mapping[str, str | tuple[str, str]] | None = None,
        name: str | None = None,
    ) -> Callable[[Callable[..., Any]], Flow]:
        """Declare a Python function over single rows; a row that makes it raise is a dead letter, the query goes on.

        The parameter names the input; the function takes a row as a dict and gives a dict, a list of dicts or None.
        `returns` are the columns that come out: `@pipeline.each("order_id LONG, score DOUBLE")`.
        """
        return lambda body: self._add(body, name, expect, emit="final", returns=returns)

    def lookup(
        self,
        name: str,
        given: Flow | Source | str,
        lookup: Lookup,
        *,
        expect: Mapping[str, str | tuple[str, str]] | None = None,
    ) -> Flow:
        """Declare a flow that adds to each row what a service knows of it.

        `shop.lookup("enriched", orders, ps.HttpLookup("http://crm/customers/{customer_id}", returns="tier STRING"))`.
        A row that the service can't be asked for is a dead letter, the query goes on.
        """
        from penstock.pipeline.lookups.declared import lookup_flow

        made = lookup_flow(name, given if isinstance(given, str) else given.name, lookup, _rules(expect))
        self.flows.append(made)
        return made

    def keyed(
        self,
        by: str | Sequence[str],
        returns: str,
        *,
        outputs: Mapping[str, str] | None = None,
        clock: str = "event",
        ordered: bool = True,
        name: str | None = None,
    ) -> Callable[[type], Flow]:
        """Declare a class that remembers things of each key, and can be woken by time.

        Its `on_event(self, payments, now)` is called with each row of `payments` as a dict, in the order of their
        event times; `on_timer(self, name, now)` when a timer rings. `now` has the key, the time, `emit`, `timer` and
        `cancel`. `returns` are the columns that come out, `outputs` further ones by name, each a flow of its own.
        With `ordered=False` rows are processed as they arrive, without waiting for stragglers; with
        `clock="processing"` time is that of the machine, not that of the rows.
        """
        from penstock.pipeline.keyed.declared import Declared, process_flows

        place, keys = Place.of_caller(), (by,) if isinstance(by, str) else tuple(by)

        def declare(made: type) -> Flow:
            every = {"": returns, **(outputs or {})}
            flows = process_flows(Declared(made, keys, every, clock, ordered), place, name)
            self.flows += flows
            return flows[0]

        return declare

    def sink(
        self,
        flow: Flow | Source | str | type,
        connector: SinkConnector,
        guarantee: str | None = None,
        *,
        latency: str = "micro-batch",
        query: str | None = None,
    ) -> Sink:
        """Declare where a flow goes.

        `latency="realtime"` runs it in milliseconds, at least once. `query` gives it a query of its own by that name:
        a sink that is added later then begins at the source's start.
        """
        place = Place.of_caller()
        if not isinstance(connector, SinkConnector):
            raise _wrong(place, f"{connector!r} can't be written.", "Give a sink such as ps.Kafka('metrics').")
        if isinstance(flow, type):  # to a type checker a class stays one, whatever @pipeline.keyed makes of it
            raise _wrong(place, f"{flow.__name__} is no flow.", "Declare it with @pipeline.keyed(…).")
        made = Sink(flow if isinstance(flow, str) else flow.name, connector, guarantee, place, latency, query)
        self.sinks.append(made)
        return made

    def _add(
        self,
        body: Callable[..., Any],
        name: str | None,
        expect: Mapping[str, str | tuple[str, str]] | None,
        **how: Any,
    ) -> Flow:
        code = body.__code__
        place = Place(code.co_filename, code.co_firstlineno)
        inputs = tuple(inspect.signature(body).parameters)
        made = Flow(
            name=name or body.__name__, function=body, inputs=inputs, expectations=_rules(expect), place=place, **how
        )
        self.flows.append(made)
        return made


def _rules(expect: Mapping[str, str | tuple[str, str]] | None) -> tuple[Expectation, ...]:
    return tuple(
        Expectation(title, *((rule, "quarantine") if isinstance(rule, str) else rule))
        for title, rule in (expect or {}).items()
    )


def _readable(connector: SourceConnector, place: Place) -> SourceConnector:
    if not isinstance(connector, SourceConnector):
        raise _wrong(place, f"{connector!r} can't be read.", "Give a source such as ps.Kafka('orders', …).")
    return connector


def _lookup(connector: SourceConnector, place: Place) -> TableConnector:
    if not isinstance(connector, TableConnector):
        remedy = "Declare it with pipeline.source, or read files or a Kafka topic."
        raise _wrong(place, f"The {connector.system} connector can't be a table.", remedy)
    return connector


def _wrong(place: Place, problem: str, remedy: str) -> DeclarationError:
    return DeclarationError(problem, code="declaration-wrong", place=str(place), remedy=remedy)
