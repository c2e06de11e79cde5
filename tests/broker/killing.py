"""A worker in a process of its own that ends by kill -9, whatever it is doing."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

_SCRIPT = Path(__file__).with_name("workers.py")


class Worker:
    """One of the programs in workers.py; leaving the block kills it."""

    def __init__(self, *words: str) -> None:
        self.process = subprocess.Popen([sys.executable, _SCRIPT, *words], stdout=subprocess.PIPE, text=True)
        self._longest = threading.Timer(60, self.process.kill)
        self._longest.start()

    def wait_for(self, word: str) -> None:
        """Wait until it says that word."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.strip() == word:
                return
        raise AssertionError(f"the worker ended with {self.process.wait()} before it said {word!r}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._longest.cancel()
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
