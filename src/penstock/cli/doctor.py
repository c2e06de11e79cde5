"""`penstock doctor`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from penstock.cli.render import command_options, show, show_json

if TYPE_CHECKING:
    from penstock.settings import Settings

_MARKS = {"ok": ("✓", "green"), "note": ("!", "yellow"), "wrong": ("✗", "red")}


@click.command()
@command_options
def doctor(as_json: bool, settings: Settings) -> None:
    """Check this machine, the jars, the ports and the settings; exit code 1 if something must be mended.

    \b
    Example:
      penstock doctor
    """
    from penstock.local.doctor import examine

    findings = examine(settings)
    if as_json:
        show_json({"findings": findings})
    else:
        for one in findings:
            mark, colour = _MARKS[one.verdict]
            show(f"{click.style(mark, fg=colour)} {one.question}: {one.answer}")
            if one.remedy:
                show(f"    {one.remedy}")
    if any(one.verdict == "wrong" for one in findings):
        raise SystemExit(1)
