"""`penstock`, but it dies with all its children where it is told to: DIE_AT="all sent#3" is the third time there,
DIE_AT="all sent#3@orders" the third time of the query `orders`.

With FORGET=1 it takes no notice of what sinks remember: the control run, which must be seen to write rows twice.
"""

from __future__ import annotations

import os
import signal

from penstock.cli.main import main
from penstock.connectors.writing import Batch
from penstock.pipeline import commit


def dying(point: str, times: int, query: str) -> None:
    """Let the process die when it reaches a point for the n-th time."""
    left = times

    def reached(batch: Batch, name: str) -> None:
        nonlocal left
        if name == point and query in ("", batch.folder.parent.name):
            left -= 1
            if left == 0:
                os.killpg(0, signal.SIGKILL)

    setattr(Batch, "reached", reached)  # noqa: B010


if __name__ == "__main__":
    if where := os.environ.get("DIE_AT"):
        name, _, rest = where.partition("#")
        number, _, query = rest.partition("@")
        dying(name, int(number), query)
    if os.environ.get("FORGET"):
        setattr(commit, "is_due", lambda *told, **how: True)  # noqa: B010
    main()
