"""One demo at a time in a folder; a note tells the next one whose services they are that it finds."""

from __future__ import annotations

import fcntl
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import threading
    from pathlib import Path

_OURS = "started by the demo"


class Alone:
    """Held from the start of a demo to its end, however it ends."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(exist_ok=True)
        self._file = path.open("a+", encoding="utf-8")

    def wait(self, asked: threading.Event) -> bool:
        """Wait for a demo that is just stopping; False if we are asked to end before."""
        told = False
        while not asked.is_set():
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if not told:
                    print("Another demo runs here, or is just stopping: this one waits for it.", file=sys.stderr)
                told = True
                asked.wait(0.5)
            else:
                return True
        return False

    def claims(self, *, running: bool) -> bool:
        """Whether the services are the demo's to stop: none runs yet, or they are of a demo that was killed."""
        self._file.seek(0)
        ours = not running or self._file.read() == _OURS
        self._note(_OURS if ours else "")
        return ours

    def release(self) -> None:
        """Let the next one begin."""
        self._note("")
        self._file.close()

    def _note(self, text: str) -> None:
        self._file.truncate(0)
        self._file.write(text)
        self._file.flush()
