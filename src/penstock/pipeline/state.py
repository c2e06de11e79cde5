"""The folder of a pipeline: checkpoints, progress records, who runs it. Read by other processes too."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from penstock.errors import StateError
from penstock.pipeline.declare import ALL
from penstock.pipeline.keyed.versions import unreadable
from penstock.pipeline.plan import STORES
from penstock.pipeline.progress import older

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from penstock.pipeline.plan import Plan, Query

__all__ = ["PipelineState", "all_pipelines", "kept_of_windows"]

_NEWEST = "ends"
_WINDOWS = {"plain": ("start", "end"), _NEWEST: ("end",)}  # what is kept of windows, by the word of the plan


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

    def owners(self, plan: Plan) -> dict[str, str]:
        """For each source and flow the one query that counts and publishes its dead rows: the one that did before."""
        # Only a query that has all that a process gives out can tell of the rows that it could not use.
        owners = {query.root: query.name for query in plan.queries if plan.graph.quarantines(query.root)}
        for query in plan.queries:
            for stage in self._plan(query.name).get("owns", []):
                if stage in (*query.sources, *query.flows):
                    owners.setdefault(stage, query.name)
        for query in plan.queries:
            for stage in (*query.sources, *query.flows):
                owners.setdefault(stage, query.name)
        return owners

    def adopt(self, plan: Plan, query: Query, owners: dict[str, str], *, keep_state: bool = False) -> None:
        """Refuse a checkpoint that was made for something else; remember what ours is made for otherwise."""
        graph = plan.graph
        ours = {
            "sources": {name: source.connector.target() for name in query.sources if (source := graph.source(name))},
            "sinks": sorted(sink.connector.target() for sink in query.sinks),
            "mode": query.mode,
            "state": list(query.state),
            "store": query.store,
            "idle": sorted(
                one.name for one in graph.sources if one.name in query.sources and one.time and one.time.idle
            ),
            "keyed": {
                name.removesuffix(ALL): process.remembers()
                for name in query.flows
                if name.endswith(ALL) and (process := graph.flow(name).process) is not None
            },
            "owns": sorted(stage for stage, owner in owners.items() if owner == query.name),
        }
        path = self.query(query.name) / "plan.json"
        begun = self.checkpoint(query.name).exists()
        windows = self._plan(query.name).get("windows") if begun else _NEWEST
        if windows:
            ours["windows"] = windows
        if not begun:
            self._refuse_renamed(plan, query)
        elif path.exists() and not keep_state:
            changes = list(_changes(self._plan(query.name), ours))
            if changes:
                raise StateError(
                    f"Query {query.name!r} can't go on from its checkpoint: {'; '.join(changes)}.",
                    code="plan-changed",
                    place=str(query.sinks[0].place),
                    remedy="Change it back; or, if it is what a process remembers, raise its version and write"
                    " migrate; or keep the checkpoint and let Spark try (run --keep-state); or start over by removing"
                    f" {self.query(query.name)}.",
                )
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(".new")  # the live view and other commands may read it at any moment
        fresh.write_text(json.dumps(ours, indent=2), encoding="utf-8")
        fresh.replace(path)

    def _plan(self, name: str) -> dict[str, Any]:
        return _planned(self.query(name))

    def _refuse_renamed(self, plan: Plan, query: Query) -> None:
        """A query that is new, but whose sink another one has written that is gone, is most likely the same renamed."""
        here = {one.name for one in plan.queries}
        targets = {sink.connector.target() for sink in query.sinks if sink.connector.exclusive}
        for name in self.queries():
            if name not in here and self.checkpoint(name).exists() and targets & set(self._plan(name)["sinks"]):
                raise StateError(
                    f"{', '.join(sorted(targets))} was written by query {name!r} before, which is {query.name!r} now.",
                    code="query-renamed",
                    place=str(query.sinks[0].place),
                    remedy=f"To go on, rename the folder {self.query(name)} to {query.name}; to write all rows again,"
                    " remove it.",
                )

    def forget(self, name: str) -> None:
        """Remove all that is known of a query."""
        shutil.rmtree(self.query(name), ignore_errors=True)

    def progress(self, query: str) -> list[dict[str, Any]]:
        """All progress records of a query, oldest first; a last line that was cut off is left out."""
        newest = self.query(query) / "progress.jsonl"
        records = []
        for path in (older(newest), newest):
            for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
                try:
                    records.append(json.loads(line))
                except ValueError:
                    continue
        return records

    def queries(self) -> list[str]:
        """The queries that were ever started."""
        return sorted(path.parent.name for path in self.folder.glob("*/plan.json"))


def kept_of_windows(query: Path) -> Sequence[str]:
    """What a query keeps of its windows as plain times, from the folder of the query; older ones keep them whole."""
    return _WINDOWS.get(_planned(query).get("windows", ""), ())


def _planned(query: Path) -> dict[str, Any]:
    path = query / "plan.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


def all_pipelines(home: Path) -> list[PipelineState]:
    """Every pipeline that was ever run in a project."""
    return [PipelineState(home, path.name) for path in sorted((home / "state").glob("*")) if path.is_dir()]


def _changes(theirs: dict[str, Any], ours: dict[str, Any]) -> Iterator[str]:
    """What is not as it was when the checkpoint was made; a sink that was taken away is no matter."""
    added = set(ours["sinks"]) - set(theirs["sinks"])
    if added:
        yield f"{', '.join(sorted(added))} is new and would miss the rows before (give that sink query='a_name')"
    for key, what in (
        ("sources", "it reads"),
        ("mode", "its rows go out as"),
        ("state", "it keeps"),
        ("idle", "idle sources are"),
    ):
        if theirs[key] != ours[key]:
            yield f"{what} {_told(ours[key])} now, {_told(theirs[key])} then"
    if ours["state"] and ours["store"] != (then := theirs.get("store", "disk")):
        yield f"its state is {STORES[ours['store']]} now, {STORES[then]} then"
    for name, then in theirs.get("keyed", {}).items():
        if name in ours["keyed"]:
            yield from (f"of {name}, {one}" for one in unreadable(then, ours["keyed"][name]))


def _told(value: Any) -> str:
    if isinstance(value, dict):
        value = [f"{name} from {target}" for name, target in value.items()]
    return ", ".join(value) or "nothing" if isinstance(value, list) else str(value)
