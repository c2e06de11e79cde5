"""How far a consumer is in each partition: handed out, done, committed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.broker.record import Record

__all__ = ["Place", "Progress"]

Place = tuple[str, int]


class Progress:
    """Of each partition the offsets that were handed out and are not committed, and how many of them are done."""

    def __init__(self) -> None:
        self._given: dict[Place, range] = {}
        self.done: dict[Place, int] = {}

    def give(self, record: Record) -> Record:
        """A record is handed out."""
        place = record.topic, record.partition
        first = self._given[place].start if place in self._given else record.offset
        self._given[place] = range(first, record.offset + 1)
        return record

    def finish(self, record: Record) -> bool:
        """A record is done, and all before it in its partition; False if it is not in anybody's hands."""
        place = record.topic, record.partition
        if record.offset not in self._given.get(place, ()):
            return False
        self.done[place] = max(record.offset + 1, self.done.get(place, 0))
        return True

    def settle(self, place: Place, offset: int) -> None:
        """All before an offset is committed."""
        given = self._given.get(place, range(0))
        if offset in given:
            self._given[place] = range(offset, given.stop)
        elif offset == given.stop:
            self._given.pop(place, None)
        if self.done.get(place) == offset:
            del self.done[place]

    def begun(self) -> dict[Place, int]:
        """Where work began that is not committed."""
        return {place: given.start for place, given in self._given.items()}

    def take_back(self) -> dict[Place, int]:
        """Count what is not done as not handed out, and say where that begins."""
        back = {place: self.done.get(place, given.start) for place, given in self._given.items()}
        back = {place: offset for place, offset in back.items() if offset in self._given[place]}
        for place, offset in back.items():
            self._given[place] = range(self._given[place].start, offset)
        return back

    def forget(self, place: Place) -> bool:
        """A partition is taken away or begins elsewhere; True if it was worked on."""
        self.done.pop(place, None)
        return bool(self._given.pop(place, ()))
