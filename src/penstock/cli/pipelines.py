"""`penstock check | explain | run | stop | list`: a pipeline from its file to its end."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock.cli.render import command_options, counted, show, show_json, table, working

if TYPE_CHECKING:
    from penstock.connectors.base import Context
    from penstock.pipeline.plan import Graph, Plan
    from penstock.settings import Settings

_FILE = click.argument("file", type=click.Path(path_type=Path))


@click.command()
@_FILE
@click.option("--quick", is_flag=True, help="Only the declarations, without Spark: under two seconds.")
@command_options
def check(file: Path, quick: bool, as_json: bool, settings: Settings) -> None:
    """Check a pipeline: names, options, time, guarantee; then columns, types and state through Spark's analyzer.

    \b
    Example:
      penstock check orders.py
      penstock check orders.py --quick
    """
    from penstock.pipeline.declare import ALL

    graph = _graph(file)
    columns: dict[str, str] = {}
    if not quick:
        columns = {query.name: query.columns for query in _plan(graph, settings, quiet=as_json)[0].queries}
    if as_json:
        show_json({"pipeline": graph.name, "ok": True, "columns": columns, "warnings": graph.warnings})
        return
    for name, text in columns.items():
        show(f"{name}: {text}")
    for warning in graph.warnings:
        show(f"{click.style('warning', fg='yellow')}: {warning}")
    flows = [one for one in graph.flows if not one.name.endswith(ALL)]  # those that were written
    parts = (("source", graph.sources), ("flow", flows), ("sink", graph.sinks))
    show(f"{graph.name} is well: {', '.join(counted(len(found), noun) for noun, found in parts)}.")


@click.command()
@_FILE
@click.option("--mermaid", is_flag=True, help="As a Mermaid graph.")
@command_options
def explain(file: Path, mermaid: bool, as_json: bool, settings: Settings) -> None:
    """Show what will run: flows, queries, latency and what blocks real-time, the guarantee of each sink.

    \b
    Example:
      penstock explain orders.py
    """
    plan, _ = _plan(_graph(file), settings, quiet=as_json or mermaid)
    if as_json:
        show_json(plan.as_dict())
    else:
        show(plan.as_mermaid() if mermaid else plan.as_text())


@click.command()
@_FILE
@click.option("--until-caught-up", is_flag=True, help="End when all that is there now is processed.")
@click.option("--every", metavar="DURATION", help="A batch at most this often: '10 seconds'.")
@click.option("--master", metavar="URL", help="A Spark master; this machine's cores if not given.")
@click.option("--keep-state", is_flag=True, help="Go on from the checkpoint of a pipeline that has changed.")
@click.option("--adopt", is_flag=True, help="Let sinks that remember nothing of a query begin where its checkpoint is.")
@command_options
def run(
    file: Path,
    until_caught_up: bool,
    every: str | None,
    master: str | None,
    keep_state: bool,
    adopt: bool,
    as_json: bool,
    settings: Settings,
) -> None:
    """Run a pipeline; Ctrl-C stops it after the batch it is in.

    \b
    Example:
      penstock run orders.py
      penstock run orders.py --until-caught-up --json
    """
    from penstock.cli.live import watch
    from penstock.pipeline.arenas import few_arenas
    from penstock.pipeline.run import start

    few_arenas()
    plan, context = _plan(_graph(file), settings, master=master, quiet=as_json, code=file)
    running = start(plan, context, until_caught_up=until_caught_up, every=every, keep_state=keep_state, adopt=adopt)
    for name, learnt in running.learnt.items():
        click.echo(learnt.sentence(name), err=True)
    try:
        watch(running, quiet=as_json)
    except KeyboardInterrupt:
        click.echo("Stopping after this batch…", err=True)
    finally:
        running.stop()
    records = running.totals()
    if as_json:
        show_json({"pipeline": plan.name, "queries": records})
        return
    for name, one in records.items():
        done = f"{counted(one['rows'], 'row')} in {counted(one['batches'], 'batch', 'batches')}"
        show(f"{name}: {done}, {one['dead']} dead, {one['late']} late")


@click.command()
@click.argument("pipeline")
@command_options
def stop(pipeline: str, as_json: bool, settings: Settings) -> None:
    """Stop a running pipeline after the batch it is in.

    \b
    Example:
      penstock stop orders
    """
    from penstock.errors import DeclarationError
    from penstock.pipeline.state import PipelineState

    state = PipelineState(settings.home, pipeline)
    pid = state.owner()
    if pid is None:
        raise DeclarationError(
            f"Pipeline {pipeline!r} does not run here.", code="not-running", remedy="See: penstock list"
        )
    os.kill(pid, signal.SIGTERM)
    with working(quiet=as_json) as progress:
        began = time.monotonic()
        while state.owner() == pid:
            progress.update(pipeline, time.monotonic() - began, 120, "stopping")
            time.sleep(0.2)
        progress.update(pipeline, 1, 1, "stopped")
    if as_json:
        show_json({"stopped": pipeline})
        return
    show(f"Stopped {pipeline}.")


@click.command("list")
@command_options
def list_pipelines(as_json: bool, settings: Settings) -> None:
    """List the pipelines that run or ran in this project.

    \b
    Example:
      penstock list --json
    """
    rows = pipeline_rows(settings)
    if as_json:
        show_json({"queries": rows})
        return
    if not rows:
        show("No pipeline has run here yet. Run one: penstock run FILE")
        return
    show_pipelines(rows)


def pipeline_rows(settings: Settings) -> list[dict[str, Any]]:
    """What is known of the queries of a project's pipelines, from the records beside their checkpoints."""
    from penstock.pipeline.freshness import worst
    from penstock.pipeline.progress import behind
    from penstock.pipeline.state import all_pipelines

    rows: list[dict[str, Any]] = []
    for state in all_pipelines(settings.home):
        owner = state.owner()
        for name in state.queries():
            last = (state.progress(name) or [{}])[-1]
            rows.append(
                {
                    "pipeline": state.pipeline,
                    "query": name,
                    "state": "running" if owner else "stopped",
                    "batch": last.get("batch"),
                    "behind": behind(last) if last else None,
                    "fresh_ms": worst(last),
                    "watermark": last.get("watermark"),
                    "time": last.get("time"),
                }
            )
    return rows


def show_pipelines(rows: list[dict[str, Any]]) -> None:
    """One line per query; how fresh captured changes are in its sinks as p50 / p99."""
    head = ("pipeline", "query", "state", "batch", "behind", "fresh_ms", "watermark", "time")
    shown = [{**one, "fresh_ms": " / ".join(map(str, one["fresh_ms"] or ()))} for one in rows]
    table(
        [name.upper() for name in head],
        [[one[name] if one[name] is not None else "" for name in head] for one in shown],
    )


def _graph(file: Path) -> Graph:
    from penstock.pipeline.compile import declared
    from penstock.pipeline.load import load_pipeline

    return declared(load_pipeline(file))


def _plan(
    graph: Graph, settings: Settings, *, master: str | None = None, quiet: bool = False, code: Path | None = None
) -> tuple[Plan, Context]:
    from penstock.pipeline.compile import compile_graph

    context = open_context(graph, settings, master=master, quiet=quiet, code=code)
    return compile_graph(graph, context), context


def open_context(
    graph: Graph, settings: Settings, *, master: str | None = None, quiet: bool = False, code: Path | None = None
) -> Context:
    """Start Spark for a pipeline, with the jars and the Python code that it needs where it runs."""
    from penstock.cli.jars import record_classes
    from penstock.connectors.base import Context
    from penstock.local.jars import JarStore
    from penstock.local.java import find_java
    from penstock.pipeline.session import open_session

    find_java()
    store = JarStore()
    with working(quiet=quiet) as progress:
        store.ensure(["spark"], progress)
        record_classes(store, progress)
        progress.update("spark", 0, 1, "starting")
        spark = open_session(
            graph.name,
            store.paths("spark"),
            master=master,
            options=settings.spark,
            realtime=any(sink.latency == "realtime" for sink in graph.sinks),
            code=code.resolve().parent if code else None,
            classes=store.classes,
        )
        progress.update("spark", 1, 1, "up")
    return Context(spark, settings)
