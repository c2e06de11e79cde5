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
from typing import Any

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
    audits = given.minutes is not None
    code, result = int(audits), {"audit": "stopped"} if audits else None
    if not alone.wait(asked):
        return _ended(code, result)
    ours = alone.claims(running=any(one.pids for one in stack.status()))
    try:
        if not asked.is_set():
            with working() as progress:
                stack.up((), progress)
        if not asked.is_set():
            from living import Platform

            audit = Platform(stack, asked, chaos=given.chaos).run(given.minutes)
            if audit is not None:
                code, result = int(audit["audit"] != "pass"), audit
    except KeyboardInterrupt:  # while the services were starting
        show("")
    except PenstockError as error:
        if not asked.is_set():  # a Ctrl-C ends also what we have started and wait for
            show_error(error)
            code, result = error.exit_code, {"audit": "fail"} if audits else None
    finally:
        if ours:
            with working() as progress:
                stack.down(progress)
            show(f"All services are stopped; the next start goes on with what is in {stack.home.folder}.")
        alone.release()
    return _ended(code, result)


def _ended(code: int, result: dict[str, Any] | None) -> int:
    """The last line, if an audit was asked for: without one that passes the code is not 0."""
    if result is not None:
        print(f"RESULT {json.dumps(result)}", flush=True)
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
