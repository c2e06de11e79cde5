"""`make chaos`: at least a hundred kills of everything, into every sink; the table goes into docs/guarantees.md."""

from __future__ import annotations

import argparse
import itertools
import json
import platform as machine
import tempfile
import time
import uuid
from pathlib import Path

from bench.pages import put
from penstock.local.jars import JarStore
from penstock.local.progress import Silent
from tests.conftest import Project
from tests.guarantees.campaign import POINTS, Campaign, Outcome


def storm(campaign: Campaign, kills: int) -> None:
    """Points of the protocol in turns, with kills at random, of workers and of services in between."""
    services = itertools.cycle((("kafka", None), ("postgres", None), ("kafka", 8.0), ("postgres", 8.0)))
    points = itertools.cycle(POINTS)
    for number in range(kills):
        began = time.monotonic()
        if number % 10 == 9:
            campaign.kill_service(*next(services))
        elif number % 10 == 4:
            campaign.kill_workers()
        elif number % 3 == 0:
            campaign.die_at_random()
        else:
            campaign.die_at(next(points), campaign.chance.randint(1, 6))
        took = time.monotonic() - began
        print(f"kill {number + 1} of {kills} after {took:.0f} s: {dict(campaign.outcome.kills)}", flush=True)


def table(outcome: Outcome, control: Outcome, rows: int) -> str:
    """The result for the docs."""
    lines = ["| killed | times |", "|---|---|"]
    lines += [f"| {what} | {count} |" for what, count in sorted(outcome.kills.items())]
    lines += ["", "| sink | rows missing | rows twice |", "|---|---|---|"]
    lines += [f"| {sink} | {outcome.missing[sink]} | {outcome.double[sink]} |" for sink in outcome.missing]
    lines += [
        f"| Kafka, control run without marks | {control.missing['kafka']} | {control.double['kafka']} |",
        "",
        f"{rows:,} rows, keys out of order: {outcome.disordered}. Python {machine.python_version()}, 2 cores.",
    ]
    return "\n".join(lines)


def main() -> None:
    """Run it, write the table, end with the result."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--kills", type=int, default=100)
    words.add_argument("--docs", type=Path, default=Path(__file__).parents[2] / "docs" / "guarantees.md")
    given = words.parse_args()
    JarStore().ensure(["spark"], Silent())
    with tempfile.TemporaryDirectory() as place:
        project = Project(Path(place) / "platform")
        project.stack.up(("kafka", "postgres", "opensearch"), Silent())
        try:
            control = Campaign(project, uuid.uuid4().hex[:6], every_sink=False)
            for _ in range(3):
                control.die_at("all written", 1, "numbers", FORGET="1")
            seen = control.finish(FORGET="1")
            campaign = Campaign(project, uuid.uuid4().hex[:6])
            storm(campaign, given.kills)
            outcome = campaign.finish()
        finally:
            project.stack.down(Silent(), remove_data=True)
    told = table(outcome, seen, campaign.sent)
    print(told, flush=True)
    if given.docs.exists():
        put(given.docs, "chaos", [told])
    result = {
        "kills": outcome.kills.total(),
        "missing": sum(outcome.missing.values()),
        "double": sum(outcome.double.values()),
        "control_double": seen.double["kafka"],
    }
    print("RESULT", json.dumps(result))
    assert not result["missing"]
    assert not result["double"]
    assert not outcome.disordered
    assert result["control_double"]


if __name__ == "__main__":
    main()
