"""The folder of a pipeline: checkpoints, progress records, who runs it. Read by other processes too."""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from penstock.errors import StateError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock.pipeline.plan import Plan, Query

__all__ = ["PipelineState", "all_pipelines"]


class PipelineState:
    """`state/<pipeline>/` in a project's home: it goes with the data that it points into."""

    def __init__(self, home: Path, pipeline: str) -> None:
        self.pipeline = pipeline
        self.folder = home / "state" / pipeline

    def query(self, name: str) -> Path:
        """A query's own folder."""
        return self.folder / name

    def checkpoint(self, name: str) -> Path:
        """A query's checkpoint."""
        return self.query(name) / "checkpoint"

    def owner(self) -> int | None:
        """The process that runs the pipeline now, if any."""
        try:
            with (self.folder / "running").open("r+") as handle:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    return int(handle.read() or 0) or None
        except OSError:
            pass
        return None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Be the only process that runs this pipeline here."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "running").open("a+") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                handle.seek(0)
                raise StateError(
                    f"Pipeline {self.pipeline!r} runs already (pid {handle.read()}).",
                    code="already-running",
                    remedy=f"Stop it first: penstock stop {self.pipeline}",
                ) from None
            handle.truncate(0)
            handle.write(str(os.getpid()))
            handle.flush()
            yield
            handle.truncate(0)

    def adopt(self, plan: Plan, query: Query) -> None:
        """Refuse a checkpoint that was made for other sources or another sink; remember ours otherwise."""
        sources = {name: source.connector.target() for name in query.sources if (source := plan.source(name))}
        ours = {"sources": sources, "sink": query.sink.connector.target(), "mode": query.mode(plan)}
        path = self.query(query.name) / "plan.json"
        if path.exists() and self.checkpoint(query.name).exists():
            theirs = json.loads(path.read_text(encoding="utf-8"))
            changed = [key for key in ours if theirs.get(key) != ours[key]]
            if changed:
                raise StateError(
                    f"Query {query.name!r} was started before with another {' and '.join(changed)}:"
                    f" {', '.join(f'{theirs.get(key)} then, {ours[key]} now' for key in changed)}.",
                    code="plan-changed",
                    place=str(query.sink.place),
                    remedy="Change it back, give the flow another name, or start it over by removing"
                    f" {self.query(query.name)}.",
                )
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(ours, indent=2), encoding="utf-8")

    def progress(self, query: str) -> list[dict[str, Any]]:
        """All progress records of a query, oldest first; a last line that was cut off is left out."""
        path = self.query(query) / "progress.jsonl"
        if not path.exists():
            return []
        records = []
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                records.append(json.loads(line))
            except ValueError:
                continue
        return records

    def queries(self) -> list[str]:
        """The queries that were ever started."""
        return sorted(path.parent.name for path in self.folder.glob("*/plan.json"))


def all_pipelines(home: Path) -> list[PipelineState]:
    """Every pipeline that was ever run in a project."""
    return [PipelineState(home, path.name) for path in sorted((home / "state").glob("*")) if path.is_dir()]
