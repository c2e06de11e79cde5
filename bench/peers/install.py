"""The environments of the peers: made once, each of its own, in the cache; what can't be had is said and left out."""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from dataclasses import dataclass, field
from pathlib import Path

from penstock.local import ivy
from penstock.local.jars import JarStore
from penstock.local.java import find_java

__all__ = ["Installed", "installed"]

HERE = Path(__file__).parent
NAMES = ("penstock", "spark", "flink", "quix", "bytewax", "pathway")


@dataclass(frozen=True)
class Installed:
    """A peer that can be started."""

    name: str
    python: str
    peer: Path
    environment: dict[str, str] = field(default_factory=dict)


def installed(name: str) -> Installed | None:
    """A peer with its environment, made now if it is not there yet; None if it can't be had."""
    peer = HERE / name / "peer.py"
    wanted = HERE / name / "requirements.txt"
    if not wanted.exists():
        return Installed(name, sys.executable, peer)
    home = JarStore().folder / "peers" / name
    try:
        _environment(home, wanted)
        jars = _jars(home, HERE / name / "jars.txt")
    except subprocess.CalledProcessError as error:
        print(f"{name} is left out, it could not be installed: {(error.stderr or b'').decode()[-300:]}", flush=True)
        return None
    return Installed(name, str(home / "bin" / "python"), peer, {"PENSTOCK_PEER_JARS": str(jars)} if jars else {})


def _environment(home: Path, wanted: Path) -> None:
    done = home / "requirements.txt"
    if done.exists() and done.read_text(encoding="utf-8") == wanted.read_text(encoding="utf-8"):
        return
    print(f"installing {home.name}…", flush=True)
    venv.create(home, clear=True, with_pip=True)
    words = [str(home / "bin" / "pip"), "install", "-q", "--disable-pip-version-check", "-r", str(wanted)]
    subprocess.run(words, check=True, capture_output=True)
    done.write_text(wanted.read_text(encoding="utf-8"), encoding="utf-8")


def _jars(home: Path, wanted: Path) -> Path | None:
    """The folder with the jars that a list names."""
    if not wanted.exists():
        return None
    named = [ivy.Coordinate.parse(f"{line}@jar") for line in wanted.read_text(encoding="utf-8").split()]
    folder = home / "jars"
    if not all((folder / one.file_name).exists() for one in named):
        module, cache = home / "ivy.xml", home / "ivy"
        ivy.module_file(module, named)
        words = ivy.command(find_java().path, settings=ivy.settings_file(), module=module, cache=cache)
        subprocess.run(words, check=True, capture_output=True)
        folder.mkdir(exist_ok=True)
        for one in named:
            shutil.copy(ivy.cached(cache, one), folder)
    return folder
