"""`penstock jars`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from penstock.cli.render import command_options, show, show_json, working

if TYPE_CHECKING:
    from penstock.local.jars import JarStore
    from penstock.local.progress import Progress
    from penstock.settings import Settings


@click.command()
@command_options
def jars(as_json: bool, settings: Settings) -> None:
    """Fetch the jars of all local services into this user's cache; what is there is kept.

    Spark's classes are recorded there too, once, so that Spark starts in half the time.

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
        record_classes(store, progress)
    count = len({jar for name in names for jar in locked(name)})
    if as_json:
        show_json({"folder": str(store.folder), "jars": count})
        return
    show(f"All {count} jars are in {store.folder}.")


def record_classes(store: JarStore, progress: Progress) -> None:
    """See that there is an archive of Spark's classes, made once for this Java and this Spark."""
    from penstock.pipeline.class_archive import archive_of, make_archive

    jars = store.paths("spark")
    if archive_of(store.classes, jars).exists():
        return
    progress.update("spark", 0, 1, "recording its classes, once: it starts in half the time afterwards")
    if not make_archive(store.classes, jars):
        progress.say("Spark's classes could not be recorded: it starts without, a few seconds later.")
