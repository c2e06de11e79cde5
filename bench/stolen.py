"""How much of a virtual machine's time its host gave to others: what explains a figure that can't be repeated."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

__all__ = ["Stolen"]

_STEAL = 7  # its column, after the name


class Stolen:
    """The share of the time between two moments, once it is over."""

    share = 0.0

    def __enter__(self) -> Self:
        self._before = _ticks()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        passed = [now - then for now, then in zip(_ticks(), self._before, strict=True)]
        self.share = round(passed[_STEAL] / max(1, sum(passed)), 3)


def _ticks() -> list[int]:
    """What the cores have done since the machine started; guests are counted within the first two."""
    return [int(one) for one in Path("/proc/stat").read_text(encoding="ascii").partition("\n")[0].split()[1:9]]
