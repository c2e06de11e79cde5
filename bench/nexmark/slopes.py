"""What a row costs as there are more rows, keys, partitions and windows: microseconds of CPU, and of time, per row."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from nexmark import Shape

from bench.nexmark.throughput import Filled, once
from penstock.broker import Topics

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from bench.nexmark.engines import Engine
    from penstock.settings import Settings

__all__ = ["Step", "slopes"]


_LONG = 5_000_000


@dataclass(frozen=True)
class Step:
    """One point of a slope, for one engine."""

    slope: str
    count: int
    engine: str
    seconds: float
    cpu_seconds: float
    rows: int
    peak_mib: int

    @property
    def micros(self) -> float:
        """CPU for a row: what others do on the machine changes it least."""
        return self.cpu_seconds / self.rows * 1e6


@dataclass(frozen=True)
class _Point:
    slope: str
    count: int
    query: str
    rows: int
    partitions: int = 4
    shape: Shape = field(default_factory=Shape)
    told: tuple[tuple[str, Any], ...] = ()


def _points(full: bool) -> Iterator[_Point]:
    for rows in (1_000_000, 10_000_000, 30_000_000) if full else (1_000_000, 5_000_000):
        yield _Point("rows", rows, "q1", rows)
    for people in (10, 1_000, 100_000, 1_000_000):
        yield _Point("keys", people, "keys", 2_000_000, shape=replace(Shape(), people=people, hot_bidders=1))
    for partitions in (1, 10, 100):
        yield _Point("partitions", partitions, "q1", 1_000_000, partitions)
    for windows in (1, 10, 100):
        yield _Point("windows", windows, "hops", 1_000_000, told=(("every_ms", 10_000 // windows),))


def slopes(
    engines: Sequence[Engine], settings: Settings, side: Path, which: Sequence[str], turns: int, *, full: bool
) -> Iterator[Step]:
    """Every point on every engine: once to warm up and compare the answer, then the turns of which the best counts.

    What takes minutes is asked once, by engines that are warm from the points before it.
    """
    for point in _points(full):
        if point.slope not in which:
            continue
        filled = Filled(settings, "json", {"bid": point.rows}, side, point.shape, partitions=point.partitions)
        filled.fill()
        for engine in engines:
            told = dict(point.told)
            if short := point.rows < _LONG:
                once(engine, filled, point.query, check=True, **told)
            costs = [once(engine, filled, point.query, **told) for _ in range(turns if short else 1)]
            best = min(costs, key=lambda one: one.cpu_seconds)
            yield Step(point.slope, point.count, engine.name, best.seconds, best.cpu_seconds, point.rows, best.peak_mib)
        Topics(settings.kafka).delete(filled.topic("bid"))
