"""The dead rows of streamed queries, published once Spark tells of their batch; other queries do it within theirs."""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, Any

from penstock.errors import CommitUnknownError, PenstockError, TransientError
from penstock.pipeline.failure import explained

if TYPE_CHECKING:
    from penstock.pipeline.live import Live

__all__ = ["Publisher"]

_TRIES = 5


class Publisher:
    """A thread that takes batch after batch, and tries again what failed in passing until all is `over`."""

    def __init__(self, over: threading.Event) -> None:
        self._over = over
        self._abandoned = False
        self._failed: PenstockError | None = None
        self._todo: queue.Queue[tuple[Live, dict[str, Any]] | None] = queue.Queue()
        self._thread = threading.Thread(target=self._work, name="dead-letters", daemon=True)

    @property
    def failed(self) -> PenstockError | None:
        """Why it can't go on; who has abandoned it need not know."""
        return None if self._abandoned else self._failed

    def start(self) -> None:
        """Begin with what was added so far."""
        self._thread.start()

    def add(self, live: Live, record: dict[str, Any]) -> None:
        """Publish the dead rows of a batch, in its turn."""
        self._todo.put((live, record))

    def settle(self) -> None:
        """Wait until all that was added is published."""
        self._todo.join()

    def abandon(self) -> None:
        """Leave what is not published yet to the next start."""
        self._abandoned = True

    def close(self) -> None:
        """End after what was added."""
        if self._thread.is_alive():
            self._todo.put(None)
            self._thread.join()

    def _work(self) -> None:
        while (item := self._todo.get()) is not None:
            try:
                # After a failure no later batch may move the mark past the one that failed: the next start does them.
                if not self._abandoned and self._failed is None:
                    self._publish(*item)
            except PenstockError as error:
                self._failed = error
            finally:
                self._todo.task_done()

    def _publish(self, live: Live, record: dict[str, Any]) -> None:
        for tries in range(_TRIES + 1):
            try:
                live.publish(record)
                return
            except Exception as error:
                told = error if isinstance(error, PenstockError) else explained(error, live.query)
                if tries == _TRIES or not isinstance(told, TransientError | CommitUnknownError):
                    raise told from error
                live.letters.close()
                self._over.wait(min(2.0**tries, 30.0))
