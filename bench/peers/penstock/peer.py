"""Our own side of the bench: the pipelines of examples/nexmark, in one session with the settings that we ship."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples" / "nexmark"
sys.path[0] = str(ROOT)

from bench.peers.lines import serve
from penstock import __version__
from penstock.connectors.base import Context
from penstock.local.jars import JarStore
from penstock.pipeline.compile import compile_pipeline
from penstock.pipeline.load import load_pipeline
from penstock.pipeline.run import start
from penstock.pipeline.session import open_session
from penstock.settings import load


class Peer:
    """One session for all requests."""

    def __init__(self, bootstrap: str) -> None:
        store = JarStore()
        self._spark = open_session("nexmark", store.paths("spark"), classes=store.classes)
        settings = load(project=EXAMPLES)
        self._settings = replace(settings, kafka=replace(settings.kafka, bootstrap=bootstrap))

    def run(self, request: dict[str, Any]) -> None:
        """One pipeline until it has caught up."""
        names = {f"NEXMARK_{table.upper()}": topic for table, topic in request["sources"].items()}
        os.environ |= {
            **names,
            "NEXMARK_ANSWER": request["sink"],
            "NEXMARK_FORMAT": request["format"],
            "NEXMARK_SIDE": request["side"],
            "NEXMARK_GUARANTEE": request.get("guarantee", "at-least-once"),
        }
        sys.modules.pop("topics", None)
        registry = replace(self._settings.registry, url=request["registry"] or self._settings.registry.url)
        settings = replace(self._settings, project=Path(request["folder"]), registry=registry)
        pipeline = load_pipeline(EXAMPLES / f"{request['query']}.py")
        context = Context(self._spark, settings)
        running = start(compile_pipeline(pipeline, context), context, until_caught_up=True)
        running.wait()
        running.close()
        if dead := sum(one["dead"] + one["late"] for one in running.totals().values()):
            raise RuntimeError(f"{dead} rows are dead or late")


if __name__ == "__main__":
    found = sorted((one.stem for one in EXAMPLES.glob("q[0-9]*.py")), key=lambda name: int(name[1:]))
    serve(__version__, found, Peer(sys.argv[1]).run)
