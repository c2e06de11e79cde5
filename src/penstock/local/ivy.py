"""Jars out of a Java registry, by the Ivy that PySpark ships: no Maven, no host named here."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Coordinate", "cached", "command", "module_file", "run", "settings_file"]

_CLASSIFIER = "{http://ant.apache.org/ivy/maven}classifier"
_SETTINGS = Path(__file__).with_name("ivy-settings.xml")


@dataclass(frozen=True, order=True)
class Coordinate:
    """One artifact of a Java registry."""

    group: str
    artifact: str
    version: str
    classifier: str = ""
    extension: str = "jar"

    @property
    def file_name(self) -> str:
        """The name it is kept under."""
        tail = f"-{self.classifier}" if self.classifier else ""
        return f"{self.artifact}-{self.version}{tail}.{self.extension}"

    def __str__(self) -> str:
        tail = f":{self.classifier}" if self.classifier else ""
        return f"{self.group}:{self.artifact}:{self.version}{tail}@{self.extension}"

    @classmethod
    def parse(cls, text: str) -> Coordinate:
        """Read `group:artifact:version[:classifier]@extension`."""
        name, _, extension = text.partition("@")
        group, artifact, version, *classifier = name.split(":")
        return cls(group, artifact, version, "".join(classifier), extension)


def settings_file() -> Path:
    """The user's Ivy settings (PENSTOCK_IVY_SETTINGS), else ours, which knows the public Java registry."""
    named = os.environ.get("PENSTOCK_IVY_SETTINGS")
    if named is None:
        return _SETTINGS
    if not Path(named).is_file():
        raise SetupError(
            f"PENSTOCK_IVY_SETTINGS names {named}, which is not a file.",
            code="ivy-settings",
            remedy="Point it at an ivysettings.xml or unset it.",
        )
    return Path(named)


def module_file(path: Path, wanted: Iterable[Coordinate]) -> None:
    """Write an Ivy file that asks for exactly these artifacts."""
    root = ElementTree.Element("ivy-module", version="2.0")
    ElementTree.SubElement(root, "info", organisation="penstock", module="jars")
    modules = ElementTree.SubElement(root, "dependencies")
    for one in sorted(wanted):
        dependency = ElementTree.SubElement(
            modules, "dependency", org=one.group, name=one.artifact, rev=one.version, transitive="false"
        )
        artifact = {"name": one.artifact, "type": one.extension, "ext": one.extension}
        if one.classifier:
            artifact[_CLASSIFIER] = one.classifier
        ElementTree.SubElement(dependency, "artifact", artifact)
    path.parent.mkdir(parents=True, exist_ok=True)
    ElementTree.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)


def command(java: Path, *, settings: Path, module: Path, cache: Path) -> list[str]:
    """The command that fetches what a module file names into a cache."""
    return [
        *(str(java), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-jar", str(_ivy_jar())),
        *("-settings", str(settings), "-ivy", str(module), "-cache", str(cache)),
    ]


def cached(cache: Path, one: Coordinate) -> Path:
    """Where Ivy's cache keeps an artifact; it gets this name only when it is there in full."""
    return cache / one.group / one.artifact / f"{one.extension}s" / one.file_name


def run(arguments: list[str], log: Path) -> subprocess.Popen[bytes]:
    """Start Ivy with its words in a log file."""
    with log.open("wb") as out:
        return subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)


def _ivy_jar() -> Path:
    spec = importlib.util.find_spec("pyspark")
    folder = Path(spec.origin).parent / "jars" if spec and spec.origin else Path()
    for jar in sorted(folder.glob("ivy-*.jar")):
        return jar
    raise SetupError(
        "PySpark and the Ivy it ships were not found.",
        code="pyspark-missing",
        remedy="Install it again: pip install --force-reinstall penstock",
    )
