"""What every local service is: configure, ready, where. Starting and stopping is the stack's work."""

from __future__ import annotations

import json
import signal
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.settings import KAFKA_NODES, USUAL_PORTS, Kafka

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from penstock.local.home import Home
    from penstock.local.jars import JarStore
    from penstock.local.java import Java
    from penstock.local.processes import Command
    from penstock.settings import Settings

__all__ = ["Service", "Site", "get_json", "properties", "put_json"]


@dataclass(frozen=True)
class Site:
    """What a service is configured from: the project's home, the jars, Java, the ports, the settings."""

    home: Home
    jars: JarStore
    settings: Settings
    ports: Mapping[str, int]
    brokers: int

    @property
    def kafka(self) -> Kafka:
        """The Kafka that the services above it use: the profile's, else the one beside them."""
        if "kafka" in self.settings.external:
            return self.settings.kafka
        nodes = KAFKA_NODES[: self.brokers]
        return Kafka(bootstrap=",".join(f"127.0.0.1:{self.ports[name]}" for name in nodes))

    def java(self, java: Java, service: str, heap: str, *flags: str, collector: str = "Serial") -> list[str]:
        """The start of a Java command with the heap that fits; `local.heap.<service>` wins."""
        chosen = self.settings.local.heap.get(service, heap)
        common = (f"-XX:+Use{collector}GC", "-XX:-UsePerfData", "-Djava.awt.headless=true", *_ONLY_THE_HOT)
        return [str(java.path), f"-Xmx{chosen}", *common, f"-Djava.io.tmpdir={self.home.temporary}", *flags]


# Beside pipelines on a few cores Java's second compiler is dear: it waits four times as long as it would.
_ONLY_THE_HOT = (
    "-XX:Tier4InvocationThreshold=20000",
    "-XX:Tier4MinInvocationThreshold=2400",
    "-XX:Tier4CompileThreshold=60000",
    "-XX:Tier4BackEdgeThreshold=160000",
)


class Service(ABC):
    """A part of the platform that can run on this machine."""

    name: ClassVar[str]
    summary: ClassVar[str]
    version: ClassVar[str]
    needs: ClassVar[tuple[str, ...]] = ()
    components: ClassVar[tuple[str, ...]] = ()
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM

    def ports(self, brokers: int) -> dict[str, int]:
        """The names of the ports it listens on, with the usual numbers."""
        return {self.name: USUAL_PORTS[self.name]}

    def processes(self, brokers: int) -> tuple[str, ...]:
        """The names of the processes it is made of."""
        return (self.name,)

    @abstractmethod
    def configure(self, site: Site, java: Java) -> Sequence[Command]:
        """Write what it reads at its start and return the commands that start it."""

    @abstractmethod
    def ready(self, site: Site, seconds: float) -> bool:
        """Whether it does its work now, asked for at most so many seconds."""

    def settle(self, site: Site) -> None:  # noqa: B027 - most services need nothing
        """What is left to do once it answers for the first time after a start."""

    @abstractmethod
    def address(self, site: Site) -> str:
        """Where a client finds it."""


def properties(path: Path, values: Mapping[str, Any]) -> None:
    """Write a Java properties file that only we can read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"{key}={_escaped(str(value))}" for key, value in values.items()]
    path.touch(mode=0o600)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def put_json(url: str, value: Any, seconds: float) -> None:
    """Send JSON to a local service."""
    head = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(value).encode(), head, method="PUT")  # noqa: S310
    with urllib.request.urlopen(request, timeout=seconds):  # noqa: S310 - always http on 127.0.0.1
        pass


def get_json(url: str, seconds: float) -> Any:
    """What a local service answers at a URL, or None while it does not."""
    try:
        with urllib.request.urlopen(url, timeout=seconds) as answer:  # noqa: S310 - always http on 127.0.0.1
            return json.load(answer)
    except (OSError, ValueError, urllib.error.URLError):
        return None
