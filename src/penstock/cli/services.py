"""`penstock up | down | status | logs`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from penstock.cli.render import command_options, show, show_json, table, working

if TYPE_CHECKING:
    from penstock.local.stack import ServiceStatus
    from penstock.settings import Settings

_COLOURS = {"up": "green", "down": "bright_black", "in part": "yellow", "not answering": "yellow"}


@click.command()
@click.argument("services", nargs=-1, metavar="[SERVICE]...")
@click.option("--brokers", type=click.Choice(["1", "3"]), help="Kafka nodes; 3 replicate to each other.")
@command_options
def up(services: tuple[str, ...], brokers: str | None, as_json: bool, settings: Settings) -> None:
    """Start local services (all if none is named) and what they need.

    Services: kafka, postgres, opensearch, registry, connect. Data stays in .penstock/ of the project folder.

    \b
    Example:
      penstock up                    all of them
      penstock up connect            Kafka Connect with Debezium, and Kafka below it
      penstock up kafka --brokers 3  three brokers, replication 3, min.insync.replicas 2
    """
    from penstock.local.stack import Stack

    with working(quiet=as_json) as progress:
        found = Stack(settings).up(services, progress, int(brokers) if brokers else None)
    _show_services(found, as_json)


@click.command()
@click.option("--wipe", is_flag=True, help="Remove all their data too.")
@click.option("--yes", is_flag=True, help="Do not ask before --wipe.")
@command_options
def down(wipe: bool, yes: bool, as_json: bool, settings: Settings) -> None:
    """Stop all local services of this project; their data stays unless wiped.

    \b
    Example:
      penstock down
      penstock down --wipe --yes
    """
    from penstock.local.stack import Stack

    if wipe and not yes:
        click.confirm(
            f"Remove all topics, tables, schemas, indices and pipelines' state in {settings.home}?", abort=True
        )
    with working(quiet=as_json) as progress:
        stopped = Stack(settings).down(progress, remove_data=wipe)
    if as_json:
        show_json({"stopped": stopped, "wiped": wipe})
        return
    show(f"Stopped: {', '.join(stopped)}." if stopped else "Nothing was running.")
    if wipe:
        show(f"Removed all data in {settings.home}.")


@click.command()
@command_options
def status(as_json: bool, settings: Settings) -> None:
    """Show what runs where, and how far pipelines are; exit code 1 if something that runs is not well.

    \b
    Example:
      penstock status
      penstock status --json
    """
    from penstock.cli.pipelines import pipeline_rows, show_pipelines
    from penstock.local.stack import Stack

    found, rows = Stack(settings).status(), pipeline_rows(settings)
    if as_json:
        show_json({"services": found, "queries": rows})
    else:
        _show_services(found, as_json)
        if rows:
            show("")
            show_pipelines(rows)
    if any(one.remedy for one in found):
        raise SystemExit(1)


@click.command()
@click.argument("service")
@click.option("-f", "--follow", is_flag=True, help="Go on with new lines until Ctrl-C.")
@click.option("-n", "--lines", default=100, show_default=True, help="How many lines from the end.")
@command_options
def logs(service: str, follow: bool, lines: int, as_json: bool, settings: Settings) -> None:
    """Show what a service (or one of its processes, say kafka-2) printed.

    \b
    Example:
      penstock logs connect -f
    """
    from penstock.local.home import Home
    from penstock.local.logs import follow as new_lines
    from penstock.local.logs import last_lines
    from penstock.local.services import process_owner

    process_owner(service)
    log = Home(settings.project, settings.home).log(service)
    found, end = last_lines(log, lines)
    if as_json and not follow:
        show_json({"service": service, "lines": found})
        return
    if not found and not follow:
        show(f"{service} has printed nothing here yet.")
    for line in found:
        show(line)
    if follow:
        for line in new_lines(log, end):
            show(line)


def _show_services(found: list[ServiceStatus], as_json: bool) -> None:
    if as_json:
        show_json({"services": found})
        return
    rows = [
        (
            one.name,
            one.state,
            one.address,
            one.version,
            f"{one.memory_bytes >> 20} MiB" if one.pids else "",
            _pids(one),
        )
        for one in found
    ]
    table(("SERVICE", "STATE", "ADDRESS", "VERSION", "MEMORY", "PID"), rows, _COLOURS)
    for one in found:
        if one.remedy:
            show(f"{one.name}: {one.state}. {one.remedy}")


def _pids(one: ServiceStatus) -> str:
    return ", ".join(map(str, one.pids))
