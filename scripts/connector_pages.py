"""Writes docs/connectors/ from what the connectors say of themselves; with --check only says whether that is needed."""

from __future__ import annotations

import dataclasses
import inspect
import sys
from pathlib import Path

from penstock.connectors.base import BatchSink, Connector, SinkConnector, SourceConnector, TableConnector
from penstock.connectors.catalogue import CONNECTORS, connector

FOLDER = Path(__file__).parents[1] / "docs" / "connectors"


def page(name: str, kind: type[Connector]) -> str:
    """One connector's page."""
    lines = [f"# ps.{name}", "", kind.summary, "", inspect.cleandoc(kind.__doc__ or ""), ""]
    lines += ["| option | type | usual |", "|---|---|---|"]
    for one in dataclasses.fields(kind):  # type: ignore[arg-type]
        if one.repr:
            lines.append(row(one))
    lines += ["", "## What it is", ""]
    if issubclass(kind, SourceConnector):
        lines.append("- A source." + (" A table to look up." if issubclass(kind, TableConnector) else ""))
    if issubclass(kind, SinkConnector):
        lines.append(f"- A sink, {kind.guarantee}: {kind.sentence}.")
        if issubclass(kind, BatchSink):
            lines.append("- It shares a query with other sinks of the same rows: they are computed once.")
        if kind.realtime:
            lines.append('- It can be written in real time (latency="realtime"), at least once.')
    return "\n".join(lines) + "\n"


def row(one: dataclasses.Field[object]) -> str:
    """One option."""
    kind = str(one.type).replace("|", "\\|")
    if one.default is not dataclasses.MISSING:
        usual = f"`{one.default!r}`"
    else:
        usual = "needed" if one.default_factory is dataclasses.MISSING else "`{}`"
    return f"| `{one.name}` | `{kind}` | {usual} |"


def main() -> int:
    """Write every page, or tell which are stale."""
    stale = []
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in CONNECTORS:
        path, text = FOLDER / f"{name.lower()}.md", page(name, connector(name))
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(path.name)
            if "--check" not in sys.argv:
                path.write_text(text, encoding="utf-8")
    if stale and "--check" in sys.argv:
        print(f"docs/connectors is stale ({', '.join(stale)}): run make docs", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
