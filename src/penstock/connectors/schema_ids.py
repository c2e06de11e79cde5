"""The schema ids that a source has met, and from which offsets on each of them counts.

An id that the registry does not know when a row with it is there is foreign: all unknown rows up to where the topic
ends at that time, and rows of that id for a while after it, are dead letters for good, also when the id is given to a
schema later. So a batch that is read once more has the same dead rows as the first time, and whoever sends such rows on
and on does not make the query stand still for each of them.
"""

from __future__ import annotations

import json
import os
import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.errors import TransientError
from penstock.registry.client import project_registry
from penstock.registry.subjects import subject_of
from penstock.registry.wire import HEADER, split

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from penstock.connectors.base import Context
    from penstock.connectors.formats import Topical
    from penstock.registry.schema import Schema

__all__ = ["SchemaIds", "known_ids", "learn_schema"]

Offsets = dict[str, int]
_FOREIGN_SECONDS, _LONGER_SECONDS = 60.0, 600.0


@dataclass
class SchemaIds:
    """What is known of a source's ids.

    `asked` is how far the topics went when the registry was last asked, `foreign` up to which time, in milliseconds,
    the rows of an id are foreign.
    """

    path: Path | None = None
    since: dict[int, Offsets] = field(default_factory=dict)
    asked: Offsets = field(default_factory=dict)
    foreign: dict[int, int] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path | None) -> SchemaIds:
        """What earlier runs have met."""
        if path is None or not path.exists():
            return cls(path)
        told = json.loads(path.read_text(encoding="utf-8"))
        since = {int(number): offsets for number, offsets in told["since"].items()}
        return cls(path, since, told["asked"], {int(one): until for one, until in told.get("foreign", {}).items()})

    def add(self, number: int) -> bool:
        """Take an id that the registry knows; rows of it that were foreign stay so."""
        if number in self.since:
            return False
        self.since[number] = dict(self.asked)
        return True

    def save(self) -> None:
        """Keep it beside the pipeline's state."""
        if self.path is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self.path.with_name(f"{self.path.name}.{os.getpid()}")
        told = {"since": self.since, "asked": self.asked, "foreign": self.foreign}
        fresh.write_text(json.dumps(told), encoding="utf-8")
        fresh.replace(self.path)


def known_ids(
    context: Context, topics: Sequence[str], target: str, strategy: str
) -> tuple[SchemaIds, dict[int, Schema]]:
    """The ids of a source: all versions of its topics' subjects, and what its rows have named; with their schemas."""
    ids = SchemaIds.load(_ids_file(context, target))
    registry = project_registry(context.settings)
    before = len(ids.since)
    try:
        if strategy == "topic":
            for topic in topics:
                for one in registry.history(subject_of(strategy, topic)):
                    ids.add(one.id)
                    registry.keep(one.id, one.schema)
    except TransientError:
        if not ids.since and context.state is not None:  # a check, and what was met before, do without
            raise
    if len(ids.since) != before:
        ids.save()
    found = {number: registry.by_id(number) for number in ids.since}
    return ids, {number: schema for number, schema in found.items() if schema is not None}


def learn_schema(context: Context, source: Topical, number: int) -> bool:
    """Ask the registry for an id that a row has named; what it does not know is foreign, up to where the topics end."""
    ids = SchemaIds.load(_ids_file(context, source.target()))
    registry = project_registry(context.settings)
    if registry.by_id(number) is not None:
        ids.add(number)
        ids.save()
        return True
    # First the ends, then the questions: whoever writes a row has registered its schema before. All ids up to there
    # are asked for, so that a foreign one takes none with it that was registered and not met yet.
    ends = source.ends(context)
    named = (split(one) for one in source.beginnings(context, ids.asked, ends, HEADER))
    for one in {told[0] for told in named if told} - set(ids.since):
        if registry.by_id(one) is not None:
            ids.add(one)
    ids.asked = ends
    met_before = number in ids.foreign
    ids.foreign[number] = int((time.time() + (_LONGER_SECONDS if met_before else _FOREIGN_SECONDS)) * 1000)
    ids.save()
    return False


def _ids_file(context: Context, target: str) -> Path | None:
    if context.state is None:
        return None
    return context.state / "schemas" / f"{re.sub(r'[^A-Za-z0-9._-]+', '-', target)}.json"
