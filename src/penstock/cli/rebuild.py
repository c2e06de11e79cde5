"""`penstock rebuild`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from penstock.cli.render import command_options, show, show_json, working

if TYPE_CHECKING:
    from penstock.settings import Settings


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("sink")
@command_options
def rebuild(file: Path, sink: str, as_json: bool, settings: Settings) -> None:
    """Build a sink anew from the log, beside the old one, and let it take the old one's place when it has caught up.

    The pipeline may run meanwhile; at the end it is waited for until it is stopped. SINK is a table or index as
    `penstock explain` prints it.

    \b
    Example:
      penstock rebuild mirror.py lake.customers
    """
    from penstock.cli.pipelines import open_context
    from penstock.pipeline.compile import compile_graph, declared
    from penstock.pipeline.load import load_pipeline
    from penstock.pipeline.rebuild import rebuild as build_anew

    graph = declared(load_pipeline(file))
    context = open_context(graph, settings, quiet=as_json, code=file)
    with working(quiet=as_json) as progress:
        done = build_anew(compile_graph(graph, context), context, sink, progress.say)
    if as_json:
        show_json(done)
        return
    show(f"{done.target} is built anew up to batch {done.batch} of {done.query}, in {done.seconds:g} s.")
