"""The command `penstock`: a list of nouns, each loaded when it is used."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from typing import Any

import click

from penstock import __version__
from penstock.errors import PenstockError

__all__ = ["main"]

_COMMANDS = {
    "init": ("penstock.cli.init:init", "Write a project to begin with."),
    "check": ("penstock.cli.pipelines:check", "Check a pipeline without running it."),
    "explain": ("penstock.cli.pipelines:explain", "Show what a pipeline will run."),
    "run": ("penstock.cli.pipelines:run", "Run a pipeline."),
    "rebuild": ("penstock.cli.rebuild:rebuild", "Build a sink anew from the log, beside the old one."),
    "stop": ("penstock.cli.pipelines:stop", "Stop a running pipeline."),
    "list": ("penstock.cli.pipelines:list_pipelines", "The pipelines of this project."),
    "state": ("penstock.cli.state:state", "What the queries of a pipeline remember: list, show."),
    "up": ("penstock.cli.services:up", "Start local services and what they need."),
    "down": ("penstock.cli.services:down", "Stop all local services of this project."),
    "status": ("penstock.cli.services:status", "What runs where, and what to do about what does not."),
    "logs": ("penstock.cli.services:logs", "What a service printed."),
    "doctor": ("penstock.cli.doctor:doctor", "Check this machine, the jars, the ports and the settings."),
    "topics": (
        "penstock.cli.topics:topics",
        "Kafka topics: list, create, describe, alter, delete, tail, produce, size.",
    ),
    "schemas": (
        "penstock.cli.schemas:schemas",
        "Schemas of topics: register, list, show, check, diff, delete, mode.",
    ),
    "cdc": (
        "penstock.cli.cdc:cdc",
        "Changes out of databases: create, status, pause, resume, delete, slots.",
    ),
    "jars": ("penstock.cli.jars:jars", "Fetch the jars of the local services ahead of time."),
}


class _Lazy(click.Group):
    """A group that imports a command only when it is called: `--help` stays quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, _, name = _COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in _COMMANDS.items()])


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, message="penstock %(version)s")
def penstock() -> None:
    """Kafka, Debezium, a schema registry and Spark as one product.

    \b
    Example:
      penstock up                      real services on this machine
      penstock topics create orders    a topic on them
      penstock status                  what runs where
    """


def main() -> None:
    """Run the command line; a mistake is one sentence and an exit code, never a traceback."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        penstock.main(standalone_mode=False)
    except PenstockError as error:
        from penstock.cli.render import show_error

        show_error(error)
        sys.exit(error.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("Stopped.", err=True)
        sys.exit(130)
    except BrokenPipeError:
        _drop_output()


def _interrupt(*_: Any) -> None:
    """An end from outside is as orderly as Ctrl-C."""
    raise KeyboardInterrupt


def _drop_output() -> None:
    """The reader of our output went away (`| head`): end quietly."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(0)
