"""Words on the command line that stand for something: a duration, a start in a topic, a setting."""

from __future__ import annotations

import re
import time
from datetime import datetime
from typing import Any

import click

from penstock.broker.replay import EARLIEST, LATEST, Start

__all__ = ["DURATION", "START", "pairs"]

_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


class _Duration(click.ParamType[int]):
    """`7d`, `12h`, `30m`, `45s`, `500ms`, as milliseconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        if value == "forever":
            return -1
        match = re.fullmatch(r"(\d+)(ms|s|m|h|d|w)", value)
        if match is None:
            self.fail(f"{value!r} is not a duration; write 7d, 12h, 30m, 45s, 500ms or forever.", param, ctx)
        return int(match[1]) * _UNITS[match[2]]


class _Start(click.ParamType[Start]):
    """Where to begin in a topic."""

    name = "start"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Start:
        if isinstance(value, Start):
            return value
        if value in ("earliest", "latest"):
            return EARLIEST if value == "earliest" else LATEST
        if re.fullmatch(r"\d+", value):
            return Start(offset=int(value))
        if re.fullmatch(r"-\d+", value):
            return Start(last=-int(value))
        if match := re.fullmatch(r"(\d+)(ms|s|m|h|d|w)", value):
            return Start(time_ms=int(time.time() * 1000) - int(match[1]) * _UNITS[match[2]])
        try:
            return Start(time_ms=int(datetime.fromisoformat(value).astimezone().timestamp() * 1000))
        except ValueError:
            self.fail(
                f"{value!r} is not a start; write earliest, latest, an offset (1500), the last rows (-20),"
                " how long ago (15m) or a time (2026-01-31T10:00).",
                param,
                ctx,
            )


DURATION = _Duration()
START = _Start()


def pairs(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """Read `name=value` words."""
    found = {}
    for word in values:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"{word!r} is not name=value.")
        found[name] = value
    return found
