"""What was measured as a table in the terminal, as JSON, as charts, and as the tables of docs/benchmarks.md."""

from __future__ import annotations

import json
import os
import platform
import re
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from bench.nexmark.charts import bars, lines
from bench.pages import put

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bench.nexmark.latency import Latency
    from bench.nexmark.slopes import Step
    from bench.nexmark.throughput import Measured

__all__ = ["Report"]

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"


Table: TypeAlias = "tuple[str, Sequence[str], list[list[str]]]"  # title, heads, rows


class Report:
    """Takes figures as they come; plain values all, so that they can be kept as JSON."""

    def __init__(self) -> None:
        self.told: dict[str, Any] = {"machine": machine(), "versions": {}}

    def throughput(self, of: str, found: dict[str, dict[str, Measured]]) -> None:
        """Rows a second of every engine at every query."""
        self.told.setdefault("throughput", {})[of] = {
            query: {name: _measured(one) for name, one in by.items()} for query, by in found.items()
        }

    def ratios(self, of: str, other: str) -> dict[str, float]:
        """Our throughput over that of another engine, by query."""
        rates = _rates(self.told["throughput"][of])
        both = {query: by for query, by in rates.items() if "penstock" in by and other in by}
        return {query: by["penstock"] / by[other] for query, by in both.items()}

    def over_python(self, of: str) -> dict[str, float]:
        """Our throughput over the best of the engines that are written for Python, by query."""
        found = {}
        for query, by in _rates(self.told["throughput"][of]).items():
            others = [by[name] for name in ("quix", "bytewax", "pathway") if name in by]
            if others and "penstock" in by:
                found[query] = by["penstock"] / max(others)
        return found

    def latency(self, way: str, kind: str, rate: int, one: Latency) -> None:
        """Of one live query."""
        told = {"way": way, "kind": kind, "rate": rate, "p50": one.p50, "p99": one.p99, "p999": one.p999}
        told |= {"pauses": list(one.pauses), "rows": one.rows, "stolen": one.stolen}
        self.told.setdefault("latency", []).append(told)

    def slope(self, one: Step) -> None:
        """A point of a slope."""
        told = {"engine": one.engine, "count": one.count, "rows": one.rows, "seconds": one.seconds}
        told |= {"cpu_seconds": one.cpu_seconds, "peak_mib": one.peak_mib}
        self.told.setdefault("slopes", {}).setdefault(one.slope, []).append(told)

    def write(self, folder: Path, result: dict[str, float]) -> None:
        """JSON and charts into a folder, beside what was measured there before; into the docs' own also the page."""
        folder.mkdir(parents=True, exist_ok=True)
        kept = folder / "results.json"
        self.told["result"] = result
        self.told = _beside(json.loads(kept.read_text(encoding="utf-8")) if kept.is_file() else {}, self.told)
        kept.write_text(json.dumps(self.told, indent=1) + "\n", encoding="utf-8")
        for name, drawn in self._charts().items():
            (folder / f"{name}.svg").write_text(drawn, encoding="utf-8")
        if folder.resolve() == PAGE.with_suffix("").resolve():
            put(PAGE, "measured", self.page())

    def show(self) -> None:
        """In the terminal."""
        from rich.console import Console
        from rich.table import Table as Shown

        console = Console(width=None if os.isatty(1) else 140)
        for title, heads, rows in self._tables():
            table = Shown(*heads, title=title, title_justify="left")
            for row in rows:
                table.add_row(*row)
            console.print(table)

    def page(self) -> Iterable[str]:
        """Tables and charts as Markdown."""
        versions = ", ".join(f"{name} {version}" for name, version in self.told["versions"].items())
        machine = self.told["machine"]
        yield f"{machine['cores']} cores ({machine['cpu']}), {machine['memory_gib']} GiB, Python {machine['python']}:"
        yield f"{versions}."
        for title, heads, rows in self._tables():
            yield from ("", f"### {title}", "", f"| {' | '.join(heads)} |", "|---" * len(heads) + "|")
            yield from (f"| {' | '.join(row)} |" for row in rows)
        for name in self._charts():
            yield from ("", f"![{name.replace('-', ' ')}](benchmarks/{name}.svg)")

    def _tables(self) -> Iterable[Table]:
        for of, found in self.told.get("throughput", {}).items():
            yield self._rates_table(of, found)
            yield _costs_table(of, found)
        if latencies := self.told.get("latency"):
            yield _latency_table(latencies)
        for slope, steps in self.told.get("slopes", {}).items():
            yield _slope_table(slope, steps)
        if outages := self.told.get("catch_up"):
            rows = [[one["way"], f"{one['backlog']:,}", f"{one['seconds']:.1f}"] for one in outages]
            yield "At the newest rows again after it stood still", ("engine", "rows that waited", "seconds"), rows
        if starts := self.told.get("first_row_s"):
            rows = [[f"{statistics.median(starts):.1f}", _listed(starts)]]
            yield "From `penstock run` to the first row, s", ("median", "runs"), rows
        if stolen := self.told.get("stolen"):
            rows = [[part, f"{share:.0%}"] for part, share in stolen.items()]
            yield "Time that the host gave to other machines", ("part", "share"), rows

    def _rates_table(self, of: str, found: dict[str, Any]) -> Table:
        names = _names(found)
        shown = [("spark", "vs Spark"), ("flink", "vs Flink")]
        ratios = {head: self.ratios(of, name) for name, head in shown if name in names}
        ratios |= {"vs best of Python's": self.over_python(of)} if self.over_python(of) else {}
        rows = []
        for query, by in found.items():
            cells = [f"{by[name]['rows_per_s'] / 1000:.0f}" if _counts(by, name) else _why(by, name) for name in names]
            rows.append([query, *cells, *(f"{one[query]:.2f}" if query in one else "" for one in ratios.values())])
        means = (statistics.geometric_mean(one.values()) if one else 0.0 for one in ratios.values())
        rows.append(["mean", *("" for _ in names), *(f"{one:.2f}" for one in means)])
        return f"Throughput, {of}: thousand rows a second", ("query", *names, *ratios), rows

    def _charts(self) -> dict[str, str]:
        drawn = {}
        groups: dict[str, dict[str, float]]
        for of, found in self.told.get("throughput", {}).items():
            groups = {query: {name: rate / 1000 for name, rate in by.items()} for query, by in _rates(found).items()}
            drawn[f"throughput-{re.sub('[^a-z0-9]+', '-', of.lower())}"] = bars(
                f"Throughput, {of}", "thousand rows a second", groups
            )
        if latencies := self.told.get("latency"):
            for at in ("p50", "p99"):
                groups = {}
                for one in latencies:
                    groups.setdefault(f"{one['kind']}, {one['rate']:,}/s", {})[one["way"]] = min(one[at], 100.0)
                drawn[f"latency-{at}"] = bars(f"Latency {at}, cut at 100", "ms", groups)
        for slope, steps in self.told.get("slopes", {}).items():
            series: dict[str, list[tuple[float, float]]] = {}
            for one in sorted(steps, key=lambda one: one["count"]):
                series.setdefault(one["engine"], []).append((one["count"], one["cpu_seconds"] / one["rows"] * 1e6))
            drawn[f"slope-{slope}"] = lines(f"Cost as there are more {slope}", "µs of CPU per row", slope, series)
        return drawn


def machine() -> dict[str, Any]:
    """What it ran on."""
    found = (
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if "model name" in line
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "cores": os.cpu_count(),
        "cpu": next(found, "unknown"),
        "memory_gib": round(memory),
        "python": platform.python_version(),
    }


def _measured(one: Measured) -> dict[str, Any]:
    if not one.costs:
        return {"wrong": one.wrong or "no turn"}
    told = {"rows_per_s": round(one.per_second), "cpu_s_per_million": round(one.cpu_per_million, 2)}
    return {**told, "peak_mib": one.peak_mib, "turns": len(one.costs)}


def _costs_table(of: str, found: dict[str, Any]) -> Table:
    names = _names(found)
    rows = []
    for query, by in found.items():
        cells = (
            f"{by[name]['cpu_s_per_million']:.1f} / {by[name]['peak_mib']:,}" if _counts(by, name) else ""
            for name in names
        )
        rows.append([query, *cells])
    return f"Cost, {of}: seconds of CPU per million rows / most MiB", ("query", *names), rows


def _latency_table(found: list[dict[str, Any]]) -> Table:
    heads = ("query", "rows/s", "engine", "p50", "p99", "p99.9", "waits above 40", "stolen")
    rows = []
    for one in found:
        cells = (f"{one[at]:g}" for at in ("p50", "p99", "p999"))
        stolen = f"{one['stolen']:.0%}" if "stolen" in one else ""
        rows.append([one["kind"], f"{one['rate']:,}", one["way"], *cells, _listed(one["pauses"]), stolen])
    return "Latency from Kafka to Kafka, ms", heads, rows


def _slope_table(slope: str, steps: list[dict[str, Any]]) -> Table:
    rows = []
    for one in sorted(steps, key=lambda one: (one["engine"], one["count"])):
        micros = (f"{one[at] / one['rows'] * 1e6:.2f}" for at in ("seconds", "cpu_seconds"))
        rows.append([one["engine"], f"{one['count']:,}", *micros, f"{one['peak_mib']:,}"])
    return f"As there are more {slope}", ("engine", slope, "µs per row", "µs of CPU per row", "most MiB"), rows


def _names(found: dict[str, Any]) -> list[str]:
    return list(dict.fromkeys(name for by in found.values() for name in by))


def _counts(by: dict[str, Any], name: str) -> bool:
    return "rows_per_s" in by.get(name, {})


def _why(by: dict[str, Any], name: str) -> str:
    return "failed" if name in by else "can't"


def _beside(earlier: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """The parts of both, if they are of one machine; what was measured now counts."""
    return _merged(earlier, now) if earlier.get("machine") == now["machine"] else now


def _merged(earlier: Any, now: Any) -> Any:
    if not (isinstance(earlier, dict) and isinstance(now, dict)):
        return now
    return {**earlier, **{name: _merged(earlier.get(name), value) for name, value in now.items()}}


def _rates(found: dict[str, Any]) -> dict[str, dict[str, float]]:
    return {
        query: {name: one["rows_per_s"] for name, one in by.items() if "rows_per_s" in one}
        for query, by in found.items()
    }


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{one:g}" for one in (round(one, 1) for one in values))
