"""The one renderer: tables for people, JSON for programs, progress while work goes on."""

from __future__ import annotations

import dataclasses
import functools
import json
import sys
import time
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import TracebackType
    from typing import Self

    from rich.progress import Progress, TaskID

    from penstock.errors import PenstockError

__all__ = ["command_options", "counted", "json_of", "show", "show_error", "show_json", "table", "working"]

_PLAIN_EVERY_SECONDS = 2.0


def command_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command `--json` and `--profile`, and hand it the settings."""

    @click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
    @click.option("--profile", metavar="NAME", help="Use this profile of penstock.toml.")
    @functools.wraps(function)
    def run(*args: Any, profile: str | None, **kwargs: Any) -> Any:
        from penstock.settings import load

        return function(*args, settings=load(profile=profile), **kwargs)

    return run


def show(text: str) -> None:
    """Print a line of result."""
    click.echo(text)


def counted(number: int, one: str, several: str = "") -> str:
    """So many of a thing: `1 row`, `2 rows`."""
    return f"{number} {one if number == 1 else several or f'{one}s'}"


def show_json(value: Any) -> None:
    """Print a result as JSON."""
    click.echo(json_of(value))


def json_of(value: Any) -> str:
    """A value as one line of JSON."""
    return json.dumps(value, default=_plain, ensure_ascii=False)


def show_error(error: PenstockError) -> None:
    """Say on stderr what is wrong and what to do; with `--json` on stdout, as JSON."""
    if "--json" in sys.argv:
        show_json(error.as_dict())
        return
    click.echo(f"{click.style('error:', fg='red', bold=True)} {error}", err=True)


def table(head: Sequence[str], rows: Iterable[Sequence[object]], colours: dict[str, str] | None = None) -> None:
    """Print rows in columns; a cell that is a key of `colours` is coloured on a terminal."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(line[at]) for line in [list(head), *cells]) for at in range(len(head))]
    click.echo(click.style("  ".join(name.ljust(width) for name, width in zip(head, widths, strict=True)), bold=True))
    for row in cells:
        padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        styled = [
            click.style(text, fg=colours[cell]) if colours and cell in colours else text
            for cell, text in zip(row, padded, strict=True)
        ]
        click.echo("  ".join(styled).rstrip())


def working(*, quiet: bool = False) -> _Plain | _Bars:
    """Progress for work over two seconds: bars on a terminal, a line now and then elsewhere, none with JSON."""
    return _Bars() if sys.stderr.isatty() and not quiet else _Plain(quiet=quiet)


class _Plain:
    """Progress as lines on stderr, at most one per task and two seconds."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._said: dict[str, tuple[float, str]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def say(self, sentence: str) -> None:
        """Print a sentence."""
        if not self._quiet:
            click.echo(sentence, err=True)

    def update(self, task: str, done: float, total: float, note: str = "") -> None:
        """Print how far a task is, if the last time was long ago or it has ended."""
        at, last = self._said.get(task, (0.0, ""))
        line = f"{task}: {note or 'done'}"
        ended = done >= total
        if line != last and (ended or time.monotonic() - at > _PLAIN_EVERY_SECONDS):
            self._said[task] = (time.monotonic(), line)
            self.say(line)


class _Bars:
    """Progress as bars on a terminal; what has ended stays as a line."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as RichProgress

        self._bars: Progress = RichProgress(
            SpinnerColumn(finished_text="✓"),
            TextColumn("{task.description:<12}"),
            BarColumn(24),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
            console=Console(stderr=True),
        )
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def say(self, sentence: str) -> None:
        """Print a sentence above the bars."""
        self._bars.console.print(sentence, highlight=False)

    def update(self, task: str, done: float, total: float, note: str = "") -> None:
        """Move a task's bar."""
        if task not in self._tasks:
            self._tasks[task] = self._bars.add_task(task, total=total, note=note)
        self._bars.update(self._tasks[task], completed=done, total=total, note=note)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if hasattr(value, "items"):
        return dict(value)
    return str(value)
