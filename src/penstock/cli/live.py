"""What a running pipeline does, seen live: a table on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import signal
import sys
import threading
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from penstock.cli.render import show, working

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.table import Table

    from penstock.pipeline.run import Running

__all__ = ["Recent", "watch"]

_LOOK_SECONDS = 0.5
_BAR = 10
_NOTES = 5
_WIDE = 110
_HEADS = ("QUERY", "ROWS/S", "BEHIND", "CAUGHT UP", "WATERMARK", "LATE", "DEAD", "ROWS", "STATE", "BATCH")
_WHERE_WIDE = ("ROWS", "STATE", "BATCH")


def watch(
    running: Running, *, quiet: bool, recent: Recent | None = None, enough: threading.Event | None = None
) -> None:
    """Show each query until all have ended, or it is `enough`; below the table stands what `recent` was told.

    A signal to end raises KeyboardInterrupt between two looks, never in a call into Spark.
    """
    with _signals() as asked:

        def over() -> bool:
            return running.wait(_LOOK_SECONDS) or asked.is_set() or (enough is not None and enough.is_set())

        if sys.stderr.isatty() and not quiet:
            _table(running, recent or Recent(), over)
        else:
            _lines(running, over, quiet=quiet)
    if asked.is_set():
        raise KeyboardInterrupt


@contextmanager
def _signals() -> Iterator[threading.Event]:
    """Whether we were asked to end, by Ctrl-C or from outside."""
    asked = threading.Event()
    before = {
        number: signal.signal(number, lambda *_: asked.set())
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


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

    told: dict[str, str] = {}
    noted = 0
    with working(quiet=quiet) as progress:
        while not over():
            for name, said in running.waits().items():
                if told.get(name) != said:
                    click.echo(f"{name} waits for {said}", err=True)
            told = running.waits()
            for note in running.notes[noted:]:
                click.echo(note, err=True)
            noted = len(running.notes)
            for name, last in running.latest.items():
                waiting = behind(last)
                note = f"batch {last['batch']}, {last['rows_per_second']:.0f} rows/s, {waiting} behind"
                progress.update(name, last["rows"], last["rows"] + waiting + 1, note)


def _table(running: Running, recent: Recent, over: Callable[[], bool]) -> None:
    from rich.console import Console, Group
    from rich.live import Live
    from rich.text import Text

    most: dict[str, int] = {}
    console = Console(stderr=True)
    with Live(console=console, refresh_per_second=4, transient=False) as live:
        ended = False
        while not ended:
            ended = over()
            notes = running.notes[-_NOTES:]
            waits = "".join(f"\n{name} waits for {said}" for name, said in running.waits().items())
            waits += "".join(f"\n{note}" for note in notes)
            below = Text(f"\n{recent.text()}" if recent.text() else "")
            live.update(Group(_drawn(running, most, console.width), Text(waits, style="yellow"), below))


def _drawn(running: Running, most: dict[str, int], width: int) -> Table:
    from rich.table import Table

    from penstock.pipeline.progress import behind

    table = Table(title=f"pipeline {running.plan.name}", title_justify="left", box=None, header_style="bold")
    heads = [head for head in _HEADS if width >= _WIDE or head not in _WHERE_WIDE]
    for head in heads:
        table.add_column(head, justify="left" if head in ("CAUGHT UP", "WATERMARK", "BATCH") else "right", no_wrap=True)
    table.columns[0].justify = "left"
    totals = running.totals()
    for query in running.plan.queries:
        last = running.latest.get(query.name)
        if last is None:
            table.add_row(query.name, "starting")
            continue
        waiting = behind(last)
        most[query.name] = max(most.get(query.name, 0), waiting)
        cells = _cells(query.name, last, totals[query.name], waiting, most[query.name])
        table.add_row(*(cells[head] for head in heads))
    return table


def _cells(name: str, last: dict[str, Any], total: dict[str, int], waiting: int, most: int) -> dict[str, str]:
    watermark = last["watermark"] or ""
    return {
        "QUERY": name,
        "ROWS/S": f"{last['rows_per_second']:,.0f}",
        "BEHIND": f"{waiting:,}",
        "CAUGHT UP": _bar(1 - waiting / most if most else 1.0),
        "WATERMARK": "" if watermark.startswith("1970") else watermark[11:19],
        "LATE": f"[yellow]{total['late']:,}[/]" if total["late"] else "0",
        "DEAD": f"[red]{total['dead']:,}[/]" if total["dead"] else "0",
        "ROWS": f"{total['rows']:,}",
        "STATE": f"{last['state_rows']:,}",
        "BATCH": f"{last['batch']} in {last['duration_ms'].get('triggerExecution', 0) / 1000:.1f} s",
    }


def _bar(share: float) -> str:
    full = round(share * _BAR)
    colour = "green" if share == 1 else "yellow"
    return f"[{colour}]{'━' * full}[/][dim]{'─' * (_BAR - full)}[/] {share:4.0%}"
