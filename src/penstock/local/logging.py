"""Log4j settings for the Java services: plain lines on the console, which the stack keeps in a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.local.service import properties

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["console_logging"]


def console_logging(path: Path, quiet: tuple[str, ...] = ()) -> Path:
    """Write log4j2 settings that print at INFO, and these loggers only at WARN."""
    values = {
        "status": "error",
        "shutdownHook": "disable",  # else the lines of an orderly shutdown are lost
        "appender.console.type": "Console",
        "appender.console.name": "console",
        "appender.console.layout.type": "PatternLayout",
        "appender.console.layout.pattern": "%d{yyyy-MM-dd HH:mm:ss,SSS} %-5p %m (%c{1})%n",
        "rootLogger.level": "info",
        "rootLogger.appenderRef.console.ref": "console",
    }
    for number, name in enumerate(quiet):
        values[f"logger.quiet{number}.name"] = name
        values[f"logger.quiet{number}.level"] = "warn"
    properties(path, values)
    return path
