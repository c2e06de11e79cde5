"""The platform as a person sees it: stages, lag, late and dead rows by cause, freshness, services, what to try."""

from __future__ import annotations

import sys
import threading
from collections import Counter, deque
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from watch import Watch

    from penstock.local.stack import ServiceStatus

HERE = Path(__file__).parent
COMMANDS = (
    ('python query.py "SELECT tier, sum(amount) FROM orders GROUP BY tier"', "ask Iceberg with DuckDB"),
    ("python search.py violin", "search the orders in OpenSearch"),
    ("penstock topics tail fraud-alerts --from 0", "alerts as they come"),
    ("penstock topics tail orders-dead-letters --from 0", "dead letters, each with its cause"),
    ("kill -9 $(cat .penstock/state/orders/running)", "kill the pipeline and watch it heal"),
)
_LINES, _LEAST_LINES = 8, 3  # of what happened
_WIDE = 100
_SYSTEMS = {"postgres": "PostgreSQL", "iceberg": "Iceberg", "opensearch": "OpenSearch", "kafka": "Kafka"}


class View:
    """Draws on a terminal; elsewhere it says a line now and then."""

    def __init__(self, title: Callable[[], str], watch: Watch, services: Callable[[], list[ServiceStatus]]) -> None:
        self._title = title
        self._watch = watch
        self._services = services
        self._recent: deque[str] = deque(maxlen=_LINES)
        self._lock = threading.Lock()
        self._console = Console(stderr=True)
        self._live = Live(console=self._console, refresh_per_second=2, transient=False) if sys.stderr.isatty() else None
        self._told = 0

    def __enter__(self) -> View:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.update(self._drawn())
            self._live.stop()

    def tell(self, line: str) -> None:
        """Something that happened."""
        with self._lock:
            if self._live is None:
                print(line, flush=True)
            self._recent.append(line)

    def draw(self) -> None:
        """What is known now."""
        if self._live is not None:
            self._live.update(self._drawn())
            return
        self._told += 1
        if self._told % 10 == 1:
            for one in self._watch.queries.values():
                if one.last:
                    rows, waits = self._watch.behind(one)
                    print(f"{one.name}: {one.rows:,} rows, {rows:,} behind ({waits})", flush=True)

    def _drawn(self) -> RenderableType:
        """As much as the screen has lines for: the commands and what happened last are always on it."""
        with self._lock:
            recent = list(self._recent)
        title, stages, causes, running = (
            Text(self._title(), style="bold"),
            self._stages(),
            self._causes(),
            self._running(),
        )
        short, commands = self._systems_in_short(), _commands()
        blank = Text("")
        layouts: tuple[tuple[RenderableType, ...], ...] = (
            (title, blank, stages, blank, causes, blank, self._systems(), blank, running, blank, commands),
            (title, stages, blank, causes, short, running, commands),
            (title, stages, *map(_one_line, (causes, short, running)), commands),
        )
        for above in layouts:
            room = self._console.height - 1 - sum(map(self._lines, above))
            if room >= min(_LEAST_LINES, len(recent)):
                break
        told = Text("\n".join(recent[-max(1, min(room, _LINES)) :]), style="cyan", no_wrap=True, overflow="ellipsis")
        return Group(*above[:-1], told, commands)

    def _lines(self, part: RenderableType) -> int:
        return len(self._console.render_lines(part, pad=False))

    def _stages(self) -> Table:
        heads = ("STAGE", "ROWS/S", "BEHIND", "SECONDS", "WATERMARK", "LATE", "DEAD", "STATE", "BATCH")
        shown = len(heads) - (0 if self._console.width >= _WIDE else 2)
        table = _table(*heads[:shown])
        for one in self._watch.queries.values():
            if not one.last:
                table.add_row(one.name, "starting")
                continue
            rows, waits = self._watch.behind(one)
            watermark = str(one.last["watermark"] or "")
            took = one.last["duration_ms"].get("triggerExecution", 0) / 1000
            cells = (
                one.name,
                f"{one.rate():.0f}",
                f"{rows:,}",
                waits,
                "" if watermark.startswith("1970") else watermark[5:16].replace("T", " "),
                f"[yellow]{one.late}[/]" if one.late else "0",
                f"[red]{one.dead.total()}[/]" if one.dead else "0",
                f"{one.last['state_rows']:,}",
                f"{one.last['batch']} in {took:.1f} s",
            )
            table.add_row(*cells[:shown])
        return table

    def _causes(self) -> Text:
        dead: Counter[str] = Counter()
        for one in self._watch.queries.values():
            dead += one.dead
            dead += Counter({f"{one.name}: late": one.late})
        return Text("not used  " + " · ".join(f"{cause} {count}" for cause, count in sorted(dead.items())))

    def _systems(self) -> Table:
        table = _table("DERIVED SYSTEM", "FRESH AS OF")
        for system, waits, asked in self._fresh():
            hops = f" (from the database: p50 {asked[0] / 1000:.1f} s, p99 {asked[1] / 1000:.1f} s)" if asked else ""
            table.add_row(system, f"{waits} ago{hops}")
        return table

    def _systems_in_short(self) -> Text:
        return Text("fresh as of  " + " · ".join(f"{system} {waits} ago" for system, waits, _ in self._fresh()))

    def _fresh(self) -> Iterator[tuple[str, str, list[int] | None]]:
        """Of each derived system how old it is, and how long changes of a database took to it."""
        for one in self._watch.queries.values():
            _, waits = self._watch.behind(one)
            for sink in one.sinks:
                system, _, name = sink.partition(":")
                yield f"{_SYSTEMS.get(system, system)} {name}", waits, one.fresh_ms()

    def _running(self) -> Text:
        said = Text("services  ")
        for at, one in enumerate(self._services()):
            said.append(" · " if at else "")
            said.append(f"{one.name} {one.state}", style="green" if one.state == "up" else "red")
            said.append(f" {one.memory_bytes >> 20} MiB" if one.memory_bytes else "")
        return said


def _commands() -> Group:
    lines = (Text.assemble((command, "green"), (f"   # {what}", "dim")) for command, what in COMMANDS)
    return Group(Text(_begin(), style="bold"), *map(_one_line, lines))


def _begin() -> str:
    """How another terminal gets here, with the environment of this process."""
    return f"Look inside, from another terminal: cd {HERE} && . {Path(sys.prefix) / 'bin' / 'activate'}"


def _one_line(text: Text) -> Text:
    short = text.copy()
    short.no_wrap, short.overflow = True, "ellipsis"
    return short


def _table(*heads: str) -> Table:
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for number, head in enumerate(heads):
        table.add_column(head, justify="right" if 0 < number < len(heads) - 1 else "left", no_wrap=True)
    return table
