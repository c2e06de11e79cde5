"""The tutorial as a newcomer follows it: every file is written, every command is run, what is shown is seen.

A fence of docs/tutorial.md says what it is. `sh` is run. `text` after it are lines that it printed, in any order; `…`
is anything. Every other one is a file, named on the line before by `<!-- file: NAME -->` or `<!-- append: NAME -->`.
"""

from __future__ import annotations

import os
import random
import re
import shlex
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.local.progress import Silent
from tests.conftest import Project, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"
FENCE = re.compile(
    r"(?:^<!-- (?P<verb>\w+): (?P<name>\S+) -->\n)?^```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
SECONDS = 180.0
PORTS = ("kafka", "kafka-controller", "postgres", "registry", "connect")


@dataclass(frozen=True)
class Block:
    """One fence: commands, what they print, or a file."""

    line: int
    kind: str
    verb: str | None
    name: str | None
    text: str


def blocks(page: str) -> list[Block]:
    """The fences of a page; one that says nothing about itself fails."""
    found = [
        Block(page[: one.start()].count("\n") + 1, one["kind"], one["verb"], one["name"], one["text"])
        for one in FENCE.finditer(page)
    ]
    before = ""
    for one in found:
        known = one.verb is None if one.kind in ("sh", "text") else one.verb in ("file", "append")
        assert known, f"line {one.line}: nobody knows what this is: {one}"
        assert one.kind != "text" or before == "sh", f"line {one.line}: no commands before what they print"
        before = one.kind
    assert page.count("```") == 2 * len(found), "a fence that is not at the beginning of its line"
    assert page.count("<!--") == sum(one.verb is not None for one in found), "a mark without a fence"
    return found


class Newcomer:
    """Follows the page in a folder, as in one terminal."""

    def __init__(self, folder: Path) -> None:
        self.start = self.folder = folder
        self._log, self._place = folder / "printed.txt", folder / "folder.txt"

    @property
    def project(self) -> Project:
        """What `penstock init` made."""
        return Project(self.start / "shop")

    def follow(self, block: Block, printed: str) -> str:
        """Do what a block says; what is printed from there on."""
        if block.kind == "sh":
            return self.run(block)
        if block.kind == "text":
            missing = not_printed(block.text, printed)
            assert not missing, f"line {block.line}: not printed:\n{missing}\nbut:\n{printed}"
        else:
            path = self.folder / str(block.name)
            before = path.read_text(encoding="utf-8") + "\n\n" if block.verb == "append" else ""
            path.write_text(before + block.text, encoding="utf-8")
        return ""

    def run(self, block: Block) -> str:
        """Run commands; what they printed."""
        script = f"set -euo pipefail\ncd {shlex.quote(str(self.folder))}\n{block.text}\npwd > {self._place}\n"
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        with self._log.open("wb") as log:
            process = subprocess.Popen(
                ["bash", "-c", script],
                env={**os.environ, "PATH": path},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
            try:
                code: int | None = process.wait(SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                code = None
        printed = self._log.read_text(encoding="utf-8")
        ended = f"ended with {code}" if code is not None else f"did not end within {SECONDS:.0f} s"
        assert code == 0, f"line {block.line} {ended}:\n{block.text}\n{printed}"
        self.folder = Path(self._place.read_text(encoding="utf-8").strip())
        return printed

    def processes(self) -> list[int]:
        """What works in the folder, or below it."""
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if (path / "cwd").readlink().is_relative_to(self.start):
                    found.append(int(path.name))
        return found


def not_printed(shown: str, printed: str) -> list[str]:
    """The lines shown that were not printed, each as often as it is shown; white space counts as one."""
    left = [" ".join(line.split()) for line in printed.splitlines()]
    missing = []
    for line in shown.splitlines():
        pattern = re.compile(".*".join(map(re.escape, " ".join(line.split()).split("…"))))
        found = next((one for one in left if pattern.fullmatch(one)), None)
        if found is None:
            missing.append(line)
        else:
            left.remove(found)
    return missing


@pytest.fixture
def newcomer(tmp_path: Path) -> Iterator[Newcomer]:
    """Someone in an empty folder; whatever they started is gone after the test."""
    made = Newcomer(tmp_path.resolve())
    yield made
    made.project.stack.down(Silent(), remove_data=True)
    for pid in made.processes():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_the_tutorial(newcomer: Newcomer) -> None:
    printed = ""
    for number, block in enumerate(blocks(PAGE.read_text(encoding="utf-8"))):
        printed = newcomer.follow(block, printed)
        if number == 0:
            choose_ports(newcomer.project)
    assert newcomer.project.processes() == {}
    wait_until(lambda: not newcomer.processes(), what="nothing is left running")


def choose_ports(project: Project) -> None:
    """Of our own, so that no other test takes one while its service is down; and less work for small batches."""
    first = random.randrange(30_000, 32_000, 10)
    lines = ["", "[local.ports]", *(f"{name} = {first + number}" for number, name in enumerate(PORTS))]
    lines += ["[spark]", '"spark.sql.shuffle.partitions" = 1', ""]
    with (project.folder / "penstock.toml").open("a", encoding="utf-8") as file:
        file.write("\n".join(lines))


@pytest.mark.parametrize(
    "page",
    [
        "```python\nprint()\n```\n",
        "<!-- keep: a.py -->\n```python\nprint()\n```\n",
        "```\nls\n```\n",
        "```text\nout\n```\n",
        "<!-- file: a.sh -->\n```sh\nls\n```\n",
        "<!-- file: a.py -->\n\ntext\n",
        "- a list\n  ```sh\n  ls\n  ```\n",
    ],
)
def test_nothing_on_the_page_escapes(page: str) -> None:
    with pytest.raises(AssertionError):
        blocks(page)


def test_what_is_shown_must_be_printed() -> None:
    printed = "kafka   up  9092\n1  Ada\n1  Ada\n"
    assert not_printed("1 Ada\nkafka up …\n1 Ada\n", printed) == []
    assert not_printed("1 Ada\n1 Ada\n1 Ada\nkafka\n", printed) == ["1 Ada", "kafka"]
