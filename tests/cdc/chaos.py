"""Ten minutes of random changes with every process killed in turn; part of `make chaos`."""

from __future__ import annotations

import argparse
import itertools
import json
import tempfile
import time
from pathlib import Path

from penstock.local.jars import JarStore
from penstock.local.progress import Silent
from tests.cdc.mirrors import Mirrors
from tests.conftest import Project, wait_until

SERVICES = ("connect", "postgres", "kafka", "opensearch")


def main() -> None:
    """Kill, then compare every derived system with the database, row for row."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--minutes", type=float, default=10.0)
    given = words.parse_args()
    JarStore().ensure(["spark"], Silent())
    with tempfile.TemporaryDirectory() as place:
        project = Project(Path(place) / "platform")
        project.stack.up(("kafka", "postgres", "connect", "opensearch"), Silent())
        try:
            mirrors = Mirrors(project)
            mirrors.begin()
            wait_until(mirrors.arrived, 120)
            deadline, kills = time.monotonic() + given.minutes * 60, 0
            for service in itertools.cycle((*SERVICES, "driver")):
                mirrors.go_on(1000)
                if time.monotonic() > deadline:
                    break
                if service == "driver":
                    mirrors.kill_driver()
                else:
                    mirrors.kill_service(service)
                kills += 1
                print(f"kill {kills}: {service}, after {mirrors.transactions} transactions", flush=True)
            mirrors.finish()
        finally:
            project.stack.down(Silent(), remove_data=True)
    result = {"minutes": given.minutes, "cdc_kills": kills, "transactions": mirrors.transactions, "different": 0}
    print("RESULT", json.dumps(result))


if __name__ == "__main__":
    main()
