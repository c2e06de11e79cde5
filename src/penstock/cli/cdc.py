"""`penstock cdc …`: captures of databases."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from penstock.cli.render import command_options, show, show_json, table, working

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.cdc import Capture
    from penstock.cdc.captures import Captures, CaptureStatus
    from penstock.settings import Settings

_COLOURS = {"running": "green", "paused": "yellow", "failed": "red", "absent": "bright_black", "lost": "red"}
_FILE = click.option("--file", "file", metavar="FILE", help="A Python file that declares it with ps.capture(…).")


@click.group()
def cdc() -> None:
    """Changes out of databases, by Debezium on Kafka Connect.

    A capture is declared in penstock.toml, or in Python with ps.capture(…):

    \b
      [captures.shop]
      tables = ["public.customers", "public.orders"]

    \b
    Example:
      penstock cdc create shop         slot, publication, connector; snapshot, then every change
      penstock topics tail shop.public.customers --from 0
      penstock cdc slots               how far behind, how much log the database keeps
    """


@cdc.command()
@click.argument("name")
@click.option("--snapshot-again", is_flag=True, help="Forget how far it was: all rows come again, then changes.")
@_FILE
@command_options
def create(name: str, snapshot_again: bool, file: str | None, as_json: bool, settings: Settings) -> None:
    """Create a capture, or bring one to what is declared now; tables that are new are snapshotted.

    \b
    Example:
      penstock cdc create shop
      penstock cdc create shop --snapshot-again     after its slot was lost
    """
    capture = _capture(settings, name, file)
    with working(quiet=as_json) as progress, _captures(settings) as captures:
        progress.say(f"Creating {name} for {capture.database(settings)} …")
        _show([captures.create(capture, snapshot_again=snapshot_again)], as_json)


@cdc.command(name="list")
@command_options
def list_captures(as_json: bool, settings: Settings) -> None:
    """The captures of penstock.toml and how they are.

    \b
    Example:
      penstock cdc list
    """
    from penstock.cdc import find_capture

    with _captures(settings) as captures:
        found = [captures.status(find_capture(settings, name)) for name in settings.captures]
        others = captures.others(set(settings.captures))
    if not found and not as_json:
        show("No captures: declare one with [captures.NAME] in penstock.toml.")
    else:
        _show(found, as_json)
    if others and not as_json:
        show(f"Other connectors: {', '.join(others)}.")


@cdc.command()
@click.argument("name", required=False)
@_FILE
@command_options
def status(name: str | None, file: str | None, as_json: bool, settings: Settings) -> None:
    """How a capture is, with what it said when it failed; exit code 1 if one is not well.

    \b
    Example:
      penstock cdc status shop
    """
    with _captures(settings) as captures:
        found = [captures.status(one) for one in _chosen(settings, name, file)]
    _show(found, as_json)
    if any(one.state == "failed" for one in found):
        raise SystemExit(1)


@cdc.command()
@click.argument("name")
@_FILE
@command_options
def pause(name: str, file: str | None, as_json: bool, settings: Settings) -> None:
    """Let a capture rest; the database keeps its log for it.

    \b
    Example:
      penstock cdc pause shop
    """
    _apply(lambda captures, one: captures.pause(one), settings, name, file, as_json)


@cdc.command()
@click.argument("name")
@_FILE
@command_options
def resume(name: str, file: str | None, as_json: bool, settings: Settings) -> None:
    """Let a paused capture go on where it was.

    \b
    Example:
      penstock cdc resume shop
    """
    _apply(lambda captures, one: captures.resume(one), settings, name, file, as_json)


@cdc.command()
@click.argument("name")
@_FILE
@command_options
def restart(name: str, file: str | None, as_json: bool, settings: Settings) -> None:
    """Start a capture's connector and task anew, with the password as it is now.

    \b
    Example:
      penstock cdc restart shop
    """
    _apply(lambda captures, one: captures.restart(one), settings, name, file, as_json)


@cdc.command()
@click.argument("name")
@click.argument("tables", nargs=-1, required=True, metavar="TABLE...")
@_FILE
@command_options
def snapshot(name: str, tables: tuple[str, ...], file: str | None, as_json: bool, settings: Settings) -> None:
    """Ask for the rows of tables as they are now, while changes go on.

    \b
    Example:
      penstock cdc snapshot shop public.customers
    """
    with _captures(settings) as captures:
        captures.snapshot(_capture(settings, name, file), tables)
    if as_json:
        show_json({"capture": name, "asked": tables})
    else:
        show(f"Asked for {', '.join(tables)}: the rows come between the changes.")


@cdc.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@_FILE
@command_options
def delete(name: str, yes: bool, file: str | None, as_json: bool, settings: Settings) -> None:
    """Remove a capture: its connector, slot and publication; its topics stay.

    \b
    Example:
      penstock cdc delete shop --yes
    """
    capture = _capture(settings, name, file)
    if not yes:
        where = capture.database(settings)
        click.confirm(f"Remove capture {name} with slot and publication {capture.slot} in {where}?", abort=True)
    with _captures(settings) as captures:
        captures.delete(capture)
    if as_json:
        show_json({"deleted": name})
    else:
        show(f"Removed {name}; its topics {', '.join(capture.topic(one) for one in capture.tables)} stay.")


@cdc.command()
@click.argument("name", required=False)
@_FILE
@command_options
def slots(name: str | None, file: str | None, as_json: bool, settings: Settings) -> None:
    """How far each capture is behind its database's log, how much log is held for it, and what becomes of that.

    \b
    Example:
      penstock cdc slots
    """
    with _captures(settings) as captures:
        found = [captures.slot(one) for one in _chosen(settings, name, file)]
    if as_json:
        show_json({"slots": found})
        return
    rows = [
        (
            one.capture,
            one.slot,
            one.state,
            one.confirmed or "",
            _bytes(one.behind_bytes),
            "" if one.behind_seconds is None else f"{one.behind_seconds:g} s",
            _bytes(one.held_bytes),
        )
        for one in found
    ]
    table(("CAPTURE", "SLOT", "STATE", "CONFIRMED", "BEHIND", "LAST SIGN", "LOG HELD"), rows, _COLOURS)
    for one in found:
        show(f"{one.capture}: {one.outlook}")


@cdc.command()
@click.argument("name", required=False)
@_FILE
@command_options
def watch(name: str | None, file: str | None, as_json: bool, settings: Settings) -> None:
    """Restart captures that fail, ever later, until Ctrl-C; `penstock run` does the same for those that it reads.

    \b
    Example:
      penstock cdc watch
    """
    from penstock.cdc.supervisor import Supervisor

    chosen = _chosen(settings, name, file)
    with working(quiet=as_json) as progress:
        progress.say(f"Watching {', '.join(one.name for one in chosen)}; Ctrl-C ends it.")
        said = show_json if as_json else lambda told: show(f"{told['capture']}: {told['said']}")
        Supervisor(settings, chosen, said).run()


def _apply(
    step: Callable[[Captures, Capture], CaptureStatus], settings: Settings, name: str, file: str | None, as_json: bool
) -> None:
    with _captures(settings) as captures:
        _show([step(captures, _capture(settings, name, file))], as_json)


def _captures(settings: Settings) -> Captures:
    from penstock.cdc import Captures

    return Captures(settings)


def _capture(settings: Settings, name: str, file: str | None) -> Capture:
    from penstock.cdc import find_capture

    if file is None:
        return find_capture(settings, name)
    from penstock.pipeline.load import load_capture

    return load_capture(Path(file), name)


def _chosen(settings: Settings, name: str | None, file: str | None) -> list[Capture]:
    return [_capture(settings, one, file) for one in ([name] if name else settings.captures)]


def _show(found: list[CaptureStatus], as_json: bool) -> None:
    if as_json:
        show_json({"captures": found})
        return
    rows = [(one.name, one.state, one.database, ", ".join(one.topics)) for one in found]
    table(("CAPTURE", "STATE", "DATABASE", "TOPICS"), rows, _COLOURS)
    for one in found:
        if one.reading:
            show(f"{one.name}: reads the rows of {', '.join(one.reading)} between the changes.")
        if one.said:
            show(f"{one.name}: {one.said}")
        if one.remedy:
            show(f"{one.name}: {one.remedy}")
        if one.trace:
            show(one.trace)


def _bytes(count: int | None) -> str:
    if count is None:
        return ""
    return f"{count} B" if count < 1 << 10 else f"{count >> 10} KiB" if count < 1 << 20 else f"{count >> 20} MiB"
