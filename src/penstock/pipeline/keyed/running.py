"""Aggregates of a window that moves on: values are taken in at its end and let go at its beginning, in one order."""

from __future__ import annotations

from collections import Counter, deque
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Counted", "Different", "Newest", "Running", "Summed", "SummedDecimals", "SummedReals"]

_WIDE = Context(prec=100)
_LONG = 1 << 63
_DIGITS = 38
_SMALLEST = 1074  # every double is a whole multiple of 2 to the power of minus this


class Running(Protocol):
    """An aggregate as it stands; no value is null."""

    def take(self, values: Sequence[Any]) -> None:
        """Values that came."""

    def drop(self, values: Sequence[Any]) -> None:
        """Values that came first of those that are there, and go."""

    def told(self) -> Any:
        """What it is now, as JSON has it."""


class Counted:
    """How many values there are."""

    def __init__(self) -> None:
        self._count = 0

    def take(self, values: Sequence[Any]) -> None:
        """Count them."""
        self._count += len(values)

    def drop(self, values: Sequence[Any]) -> None:
        """Count them no more."""
        self._count -= len(values)

    def told(self) -> int:
        """The count."""
        return self._count


class Summed:
    """The sum of whole numbers; null where a LONG can't hold it."""

    def __init__(self) -> None:
        self._total = 0

    def take(self, values: Sequence[Any]) -> None:
        """Add them."""
        self._total += sum(map(self._whole, values))

    def drop(self, values: Sequence[Any]) -> None:
        """Take them away again."""
        self._total -= sum(map(self._whole, values))

    def told(self) -> Any:
        """The sum."""
        return self._total if -_LONG <= self._total < _LONG else None

    def _whole(self, value: Any) -> int:
        """A value as a number of units, so that no addition rounds."""
        return int(value)


class SummedDecimals(Summed):
    """The sum of decimals, told as texts; null where 38 digits can't hold it."""

    def __init__(self, scale: int) -> None:
        super().__init__()
        self._scale = scale

    def told(self) -> str | None:
        """The sum, with all its digits."""
        fits = abs(self._total) < 10**_DIGITS
        return f"{_WIDE.scaleb(Decimal(self._total), -self._scale):f}" if fits else None

    def _whole(self, value: str) -> int:
        return int(_WIDE.scaleb(Decimal(value), self._scale))


class SummedReals(Summed):
    """The sum of floating-point numbers, rounded once: neither their order nor what was there before changes it."""

    def __init__(self) -> None:
        super().__init__()
        self._odd: Counter[str] = Counter()  # NaN and the infinities

    def take(self, values: Sequence[Any]) -> None:
        """Add them."""
        super().take([one for one in values if not isinstance(one, str)])
        self._odd.update(one for one in values if isinstance(one, str))

    def drop(self, values: Sequence[Any]) -> None:
        """Take them away again."""
        super().drop([one for one in values if not isinstance(one, str)])
        self._odd.subtract(one for one in values if isinstance(one, str))

    def told(self) -> float | str:
        """The sum, in the words of Spark if it is none."""
        odd = {one for one, count in self._odd.items() if count}
        if odd:
            return odd.pop() if len(odd) == 1 else "NaN"
        try:
            return self._total / (1 << _SMALLEST)
        except OverflowError:
            return "Infinity" if self._total > 0 else "-Infinity"

    def _whole(self, value: float) -> int:
        number, parts = float(value).as_integer_ratio()
        return number << (_SMALLEST + 1 - parts.bit_length())


class Different:
    """How many different values there are."""

    def __init__(self) -> None:
        self._counts: Counter[Any] = Counter()

    def take(self, values: Sequence[Any]) -> None:
        """Count each."""
        self._counts.update(values)

    def drop(self, values: Sequence[Any]) -> None:
        """Forget those that are not there any more."""
        for one in values:
            self._counts[one] -= 1
            if not self._counts[one]:
                del self._counts[one]

    def told(self) -> int:
        """How many are left."""
        return len(self._counts)


class Newest:
    """The last so many values."""

    def __init__(self, size: int) -> None:
        self._count = 0
        self._last: deque[Any] = deque(maxlen=size)

    def take(self, values: Sequence[Any]) -> None:
        """The newest push the oldest out."""
        self._count += len(values)
        self._last.extend(values)

    def drop(self, values: Sequence[Any]) -> None:
        """Those that were pushed out already go first."""
        self._count -= len(values)
        while len(self._last) > self._count:
            self._last.popleft()

    def told(self) -> list[Any]:
        """The values, the newest last."""
        return list(self._last)
