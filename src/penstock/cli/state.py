"""`penstock state …`: what the queries of a pipeline remember."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from penstock.cli.render import command_options, show, show_json, table

if TYPE_CHECKING:
    from penstock.settings import Settings


@click.group()
def state() -> None:
    """What queries remember: windows, joins, keys and their timers.

    \b
    Example:
      penstock state list
      penstock state show bank fraud --key 4711
    """


@state.command(name="list")
@command_options
def list_state(as_json: bool, settings: Settings) -> None:
    """The queries that keep state, with how much.

    \b
    Example:
      penstock state list --json
    """
    from penstock.pipeline.state import all_pipelines

    rows: list[dict[str, Any]] = []
    for one in all_pipelines(settings.home):
        for query in one.queries():
            last = (one.progress(query) or [{}])[-1]
            if last.get("state_rows") or (one.checkpoint(query) / "state").is_dir():
                rows.append(
                    {
                        "pipeline": one.pipeline,
                        "query": query,
                        "rows": last.get("state_rows", 0),
                        "memory_bytes": last.get("state_bytes", 0),
                        "checkpoint_bytes": sum(
                            file.stat().st_size for file in one.checkpoint(query).rglob("*") if file.is_file()
                        ),
                    }
                )
    if as_json:
        show_json({"state": rows})
    elif rows:
        table([name.upper() for name in rows[0]], [tuple(one.values()) for one in rows])
    else:
        show("No query of this project keeps state.")


@state.command(name="show")
@click.argument("pipeline")
@click.argument("query")
@click.option("--key", help="Only this key; values of several columns with commas between.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=20, show_default=True, help="Rows of each operator.")
@command_options
def show_state(pipeline: str, query: str, key: str | None, limit: int, as_json: bool, settings: Settings) -> None:
    """Print what a query remembers of its keys, as it was after its last batch.

    \b
    Example:
      penstock state show bank fraud --key 4711
    """
    from penstock.cli.pipelines import open_context
    from penstock.pipeline.plan import Graph
    from penstock.pipeline.state import PipelineState
    from penstock.pipeline.state_rows import refuse_without_state, state_rows

    checkpoint = PipelineState(settings.home, pipeline).checkpoint(query)
    refuse_without_state(checkpoint)
    context = open_context(Graph(pipeline, (), (), (), ()), settings, quiet=as_json)
    found = list(state_rows(context.spark, checkpoint, key, limit))
    if as_json:
        show_json({"state": found})
    elif found:
        told = [
            (one["operator"], json.dumps(one["key"], default=str), json.dumps(one["value"], default=str))
            for one in found
        ]
        table(("OPERATOR", "KEY", "VALUE"), told)
    else:
        show(f"{query} remembers nothing{f' of {key}' if key else ''}.")
