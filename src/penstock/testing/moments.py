"""Times of a trial."""

from __future__ import annotations

from datetime import UTC, datetime

__all__ = ["DAY", "moment"]

DAY = datetime(2026, 1, 1, tzinfo=UTC)


def moment(when: str | datetime) -> datetime:
    """`10:00` on the day of the trial, or a whole ISO time."""
    if isinstance(when, datetime):
        return when
    if len(when) <= 8:
        return datetime.combine(DAY, datetime.strptime(when, "%H:%M" if len(when) == 5 else "%H:%M:%S").time(), UTC)
    made = datetime.fromisoformat(when)
    return made if made.tzinfo else made.replace(tzinfo=UTC)
