"""`make demo`: the orders platform, running for real; Ctrl-C stops it, the next start goes on from there.

`MINUTES=3` ends by itself and audits: every derived system must equal the source. `CHAOS=1` kills a random part every
20 seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
from pathlib import Path

HERE = Path(__file__).parent


def main() -> int:
    """Run the demo; services that ran before it still run after it."""
    asked = threading.Event()
    _note_signals(asked)
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--minutes", type=float, help="end after so long, and audit")
    words.add_argument("--chaos", action="store_true", help="kill a random part every 20 seconds")
    given = words.parse_args()
    from alone import Alone

    from penstock.cli.render import show, show_error, working
    from penstock.errors import PenstockError
    from penstock.local.stack import Stack
    from penstock.settings import load

    stack = Stack(load(HERE, profile="local"))
    alone = Alone(stack.home.folder / "demo")
    if not alone.wait(asked):
        return 0
    ours = alone.claims(running=any(one.pids for one in stack.status()))
    code, result = 0, None
    try:
        if not asked.is_set():
            with working() as progress:
                stack.up((), progress)
        if not asked.is_set():
            from living import Platform

            result = Platform(stack, asked, chaos=given.chaos).run(given.minutes)
    except KeyboardInterrupt:  # while the services were starting
        show("")
    except PenstockError as error:
        show_error(error)
        code = error.exit_code
    finally:
        if ours:
            with working() as progress:
                stack.down(progress)
            show("All services are stopped; the next `make demo` goes on with what is in examples/orders/.penstock.")
        alone.release()
    if result is not None:
        show(f"RESULT {json.dumps(result)}")
        return 0 if result["audit"] == "pass" else 1
    return code


def _note_signals(asked: threading.Event) -> None:
    """A Ctrl-C is only noted, from the first moment on, and looked at where nothing is half done."""

    def note(number: int, _: object) -> None:
        asked.set()
        if number == signal.SIGHUP:  # the terminal is gone, and with it whoever would read
            for stream in (1, 2):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, note)


if __name__ == "__main__":
    sys.exit(main())
