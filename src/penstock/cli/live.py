"""What a running pipeline does, seen live: a table on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
from collections import deque
from typing import TYPE_CHECKING, Any

from penstock.cli.render import show, working

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from rich.table import Table

    from penstock.pipeline.run import Running

__all__ = ["Recent", "watch"]

_LOOK_SECONDS = 0.5
_BAR = 16


def watch(
    running: Running, *, quiet: bool, recent: Recent | None = None, enough: threading.Event | None = None
) -> None:
    """Show each query until all have ended, or it is `enough`; below the table stands what `recent` was told."""

    def over() -> bool:
        return running.wait(_LOOK_SECONDS) or (enough is not None and enough.is_set())

    if sys.stderr.isatty() and not quiet:
        _table(running, recent or Recent(), over)
    else:
        _lines(running, over, quiet=quiet)


class Recent:
    """The last lines of something that goes on beside the queries."""

    def __init__(self, lines: int = 12) -> None:
        self._lines: deque[str] = deque(maxlen=lines)
        self._live = sys.stderr.isatty()

    def tell(self, line: str) -> None:
        """Take a line."""
        if self._live:
            self._lines.append(line)
        else:
            show(line)

    def text(self) -> str:
        """The lines."""
        return "\n".join(self._lines)


def _lines(running: Running, over: Callable[[], bool], *, quiet: bool) -> None:
    from penstock.pipeline.progress import behind

    with working(quiet=quiet) as progress:
        while not over():
            for name, last in running.latest.items():
                waiting = behind(last)
                note = f"batch {last['batch']}, {last['rows_per_second']:.0f} rows/s, {waiting} behind"
                progress.update(name, last["rows"], last["rows"] + waiting + 1, note)


def _table(running: Running, recent: Recent, over: Callable[[], bool]) -> None:
    from rich.console import Console, Group
    from rich.live import Live
    from rich.text import Text

    most: dict[str, int] = {}
    with Live(console=Console(stderr=True), refresh_per_second=4, transient=False) as live:
        ended = False
        while not ended:
            ended = over()
            live.update(Group(_drawn(running, most), Text(f"\n{recent.text()}" if recent.text() else "")))


def _drawn(running: Running, most: dict[str, int]) -> Table:
    from rich.table import Table

    from penstock.pipeline.progress import behind

    table = Table(title=f"pipeline {running.plan.name}", title_justify="left", box=None, header_style="bold")
    numbers = ("ROWS", "ROWS/S", "BEHIND")
    for head in ("QUERY", *numbers, "CAUGHT UP", "WATERMARK", "STATE", "LATE", "DEAD", "BATCH"):
        table.add_column(head, justify="right" if head in (*numbers, "STATE", "LATE", "DEAD") else "left", no_wrap=True)
    totals = running.totals()
    for query in running.plan.queries:
        last = running.latest.get(query.name)
        if last is None:
            table.add_row(query.name, *("",) * 8, "starting")
            continue
        waiting = behind(last)
        most[query.name] = max(most.get(query.name, 0), waiting)
        table.add_row(query.name, *_cells(last, totals[query.name], waiting, most[query.name]))
    return table


def _cells(last: dict[str, Any], total: dict[str, int], waiting: int, most: int) -> list[str]:
    watermark = (last["watermark"] or "")[11:19] if not (last["watermark"] or "").startswith("1970") else ""
    return [
        f"{total['rows']:,}",
        f"{last['rows_per_second']:,.0f}",
        f"{waiting:,}",
        _bar(1 - waiting / most if most else 1.0),
        watermark,
        f"{last['state_rows']:,}",
        f"[yellow]{total['late']:,}[/]" if total["late"] else "0",
        f"[red]{total['dead']:,}[/]" if total["dead"] else "0",
        f"{last['batch']} in {last['duration_ms'].get('triggerExecution', 0) / 1000:.1f} s",
    ]


def _bar(share: float) -> str:
    full = round(share * _BAR)
    colour = "green" if share == 1 else "yellow"
    return f"[{colour}]{'━' * full}[/][dim]{'━' * (_BAR - full)}[/] {share:4.0%}"
