"""The schema ids that a source has met, and from which offsets on each of them counts.

An id that the registry does not know when a row with it is there is foreign: such rows, up to where the topic ends at
that time, are dead letters for good, also when the id is given to a schema later. So a batch that is read once more has
the same dead rows as the first time.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["SchemaIds"]

Offsets = dict[str, int]


@dataclass
class SchemaIds:
    """What is known of a source's ids; `asked` is how far the topics went when the registry was last asked."""

    path: Path | None = None
    since: dict[int, Offsets] = field(default_factory=dict)
    asked: Offsets = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path | None) -> SchemaIds:
        """What earlier runs have met."""
        if path is None or not path.exists():
            return cls(path)
        told = json.loads(path.read_text(encoding="utf-8"))
        return cls(path, {int(number): offsets for number, offsets in told["since"].items()}, told["asked"])

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
        told = {"since": {str(number): offsets for number, offsets in self.since.items()}, "asked": self.asked}
        fresh.write_text(json.dumps(told), encoding="utf-8")
        fresh.replace(self.path)
