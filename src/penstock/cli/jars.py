"""`penstock jars`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from penstock.cli.render import command_options, show, show_json, working

if TYPE_CHECKING:
    from penstock.settings import Settings


@click.command()
@command_options
def jars(as_json: bool, settings: Settings) -> None:
    """Fetch the jars of all local services into this user's cache; what is there is kept.

    \b
    Example:
      penstock jars
      PENSTOCK_IVY_SETTINGS=ivysettings.xml penstock jars    from a registry of your own
    """
    from penstock.local.jars import JarStore, components, locked

    store = JarStore()
    names = components()
    with working(quiet=as_json) as progress:
        store.ensure(names, progress)
    count = len({jar for name in names for jar in locked(name)})
    if as_json:
        show_json({"folder": str(store.folder), "jars": count})
        return
    show(f"All {count} jars are in {store.folder}.")
