"""What is known of the running platform: read from progress records and Kafka, never from the pipeline's process."""

from __future__ import annotations

import json
import time
from collections import Counter, deque
from datetime import datetime
from typing import TYPE_CHECKING, Any

from penstock.broker import Topics
from penstock.errors import PenstockError
from penstock.pipeline.freshness import worst
from penstock.pipeline.state import PipelineState

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.settings import Settings

_KEPT_SECONDS = 600.0
_RATE_SECONDS = 15.0

Ends = dict[str, dict[str, int]]  # by topic and partition


class Query:
    """One query of the pipeline: its last record and its sums."""

    def __init__(self, folder: Path) -> None:
        plan = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
        self.name = folder.name
        self.topics = [target.removeprefix("kafka:") for target in plan["sources"].values()]
        self.sinks: list[str] = plan["sinks"]
        self.last: dict[str, Any] = {}
        self.rows = self.late = 0
        self.dead: Counter[str] = Counter()
        self._path = folder / "progress.jsonl"
        self._read = 0
        self._recent: deque[tuple[float, int]] = deque()

    def look(self) -> None:
        """Take the records that are new."""
        try:
            if self._path.stat().st_size < self._read:
                self._read = 0  # it has grown large and was begun anew
            with self._path.open("rb") as file:
                file.seek(self._read)
                for line in file:
                    if line.endswith(b"\n"):
                        self._read += len(line)
                        self._take(json.loads(line))
        except FileNotFoundError:
            return

    def _take(self, record: dict[str, Any]) -> None:
        self.last = record
        self.rows += record["rows"]
        self.late += record["late"]
        self._recent.append((_ended(record), record["rows"]))
        for stage, causes in record["dead"].items():
            for cause, count in causes.items():
                said = "not decoded" if cause == "dead" else cause
                self.dead[f"{stage.removesuffix('__outputs')}: {said}"] += count

    def rate(self) -> float:
        """Rows a second lately."""
        since = time.time() - _RATE_SECONDS
        while self._recent and self._recent[0][0] < since:
            self._recent.popleft()
        return sum(rows for _, rows in self._recent) / _RATE_SECONDS

    def done(self) -> Ends:
        """Up to where it has read each topic."""
        found: Ends = {}
        for source in self.last.get("sources", []):
            if isinstance(source["end"], dict):
                found |= source["end"]
        return found

    def fresh_ms(self) -> list[int] | None:
        """How old a change of a captured table was when it arrived, p50 and p99."""
        return worst(self.last)


class Watch:
    """All queries, and where their topics end."""

    def __init__(self, settings: Settings) -> None:
        self._state = PipelineState(settings.home, "orders")
        self._topics = Topics(settings.kafka)
        self._ends: deque[tuple[float, Ends]] = deque()
        self.queries: dict[str, Query] = {}

    def look(self) -> None:
        """Look at everything once more."""
        for name in self._state.queries():
            self.queries.setdefault(name, Query(self._state.query(name)))
        for one in self.queries.values():
            one.look()
        now = time.monotonic()
        try:
            self._ends.append((now, {name: self._ends_of(name) for name in self._wanted()}))
        except PenstockError:  # Kafka is away: what was known stays
            return
        while self._ends and now - self._ends[0][0] > _KEPT_SECONDS:
            self._ends.popleft()

    def behind(self, query: Query) -> tuple[int, str]:
        """How many rows wait for a query, and how long the first of them has; with a + if it was there before us."""
        if not self._ends:
            return 0, "0 s"
        done, (_, newest) = query.done(), self._ends[-1]
        rows = _missing(done, newest, query.topics)
        if not rows:
            return 0, "0 s"
        for at, ends in reversed(self._ends):
            if not _missing(done, ends, query.topics):
                return rows, f"{time.monotonic() - at:.0f} s"
        return rows, f"{time.monotonic() - self._ends[0][0]:.0f} s+"

    def caught_up(self) -> bool:
        """Whether every query has read all there is."""
        return bool(self.queries) and all(one.last and not self.behind(one)[0] for one in self.queries.values())

    def _wanted(self) -> set[str]:
        return {topic for one in self.queries.values() for topic in one.topics}

    def _ends_of(self, topic: str) -> dict[str, int]:
        return {str(part): at for part, at in self._topics.end_offsets(topic, committed=True).items()}


def _ended(record: dict[str, Any]) -> float:
    """When the batch of a record was done."""
    took: int = record["duration_ms"].get("triggerExecution", 0)
    return datetime.fromisoformat(record["time"]).timestamp() + took / 1000


def _missing(done: Ends, ends: Ends, topics: list[str]) -> int:
    return sum(
        max(0, at - done.get(topic, {}).get(part, 0)) for topic in topics for part, at in ends.get(topic, {}).items()
    )
