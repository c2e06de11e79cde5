"""Marks that may stand between the rows that a source is given."""

from __future__ import annotations

from enum import Enum

__all__ = ["CRASH", "END", "PAUSE", "Mark"]


class Mark(Enum):
    """What happens between two rows."""

    PAUSE = "the batch ends here"
    CRASH = "the process loses everything but the checkpoint"
    END = "event time moves past everything: all windows close"


PAUSE, CRASH, END = Mark.PAUSE, Mark.CRASH, Mark.END
