"""Every error a person can meet, sorted by what its reader does next.

PenstockError
├── DeclarationError      fix the pipeline, the settings or the command; says where
├── TransientError        the outside was away; trying again is right
├── CommitUnknownError    a commit's outcome was not heard; verified before work goes on
├── StateError            what is on disk does not fit; needs a migration or a wipe
└── SetupError            the machine lacks something: Java, a free port, a jar, disk space
"""

from __future__ import annotations

__all__ = [
    "CommitUnknownError",
    "DeclarationError",
    "PenstockError",
    "SetupError",
    "StateError",
    "TransientError",
]


class PenstockError(Exception):
    """One sentence of what is wrong, where, and one sentence of remedy."""

    exit_code = 1

    def __init__(self, problem: str, *, code: str, remedy: str, place: str | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.code = code
        self.remedy = remedy
        self.place = place

    def __str__(self) -> str:
        where = f"{self.place}: " if self.place else ""
        return f"{where}{self.problem} {self.remedy}"

    def as_dict(self) -> dict[str, str | None]:
        """What `--json` prints of this error."""
        return {"error": self.code, "place": self.place, "problem": self.problem, "remedy": self.remedy}


class DeclarationError(PenstockError):
    """Something that was written down must be written differently."""

    exit_code = 2


class TransientError(PenstockError):
    """The outside was away or busy; the same call may succeed later."""


class CommitUnknownError(PenstockError):
    """A commit was sent and its outcome was not heard."""


class StateError(PenstockError):
    """Data on disk does not fit what was asked for."""


class SetupError(PenstockError):
    """The machine lacks something that is needed here."""
