"""Apache Kafka in KRaft mode: one node, or three that replicate to each other."""

from __future__ import annotations

import subprocess
import uuid
from base64 import urlsafe_b64encode
from typing import TYPE_CHECKING, ClassVar

from penstock.broker.topics import broker_count
from penstock.errors import SetupError
from penstock.local.logging import console_logging
from penstock.local.processes import Command
from penstock.local.service import Service, Site, properties
from penstock.settings import KAFKA_NODES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from penstock.local.java import Java

__all__ = ["KafkaService"]

# What a busy broker comes to; the plain collector would fill all that it may have before it looks for garbage.
_USUAL_HEAP = "256m"
_QUIET = (
    "kafka.server.KafkaConfig",
    "org.apache.kafka.common.config.AbstractConfig",
    "org.apache.kafka.common.utils",
)


class KafkaService(Service):
    """The broker."""

    name: ClassVar = "kafka"
    summary: ClassVar = "Apache Kafka, KRaft"
    version: ClassVar = "4.3.1"
    components: ClassVar = ("kafka",)

    def ports(self, brokers: int) -> dict[str, int]:
        """A client port and a controller port per node."""
        names = self.processes(brokers)
        clients = {name: 9092 + 2 * number for number, name in enumerate(names)}
        return clients | {f"{name}-controller": 9093 + 2 * number for number, name in enumerate(names)}

    def processes(self, brokers: int) -> tuple[str, ...]:
        """`kafka` alone, or with `kafka-2` and `kafka-3`."""
        return KAFKA_NODES[:brokers]

    def address(self, site: Site) -> str:
        """The bootstrap list."""
        return site.kafka.bootstrap

    def ready(self, site: Site, seconds: float) -> bool:
        """All brokers are registered and answer."""
        return broker_count(site.kafka, seconds) == site.brokers

    def configure(self, site: Site, java: Java) -> Sequence[Command]:
        """Format new storage."""
        cluster = site.home.state().get("cluster") or cluster_id(uuid.uuid4().bytes)
        site.home.remember(brokers=site.brokers, cluster=cluster)
        return [self._node(site, java, number, cluster) for number in range(1, site.brokers + 1)]

    def _node(self, site: Site, java: Java, number: int, cluster: str) -> Command:
        name = self.processes(site.brokers)[number - 1]
        folder, config = site.home.data(name), site.home.config(name)
        folder.mkdir(parents=True, exist_ok=True)
        server = config / "server.properties"
        properties(server, self._settings(site, number, folder))
        log4j = console_logging(config / "log4j2.properties", _QUIET)
        class_path = site.jars.class_path("kafka")
        if not (folder / "meta.properties").exists():
            _format(java, class_path, server, cluster, log4j)
        begin = site.settings.local.heap.get("kafka", _USUAL_HEAP)  # never more than the heap that the user has chosen
        start = site.java(java, "kafka", "384m", f"-Xms{begin}", "-XX:MaxDirectMemorySize=256m", collector="G1")
        words = (*start, f"-Dlog4j2.configurationFile={log4j}", "-cp", class_path, "kafka.Kafka", str(server))
        return Command(name, words, folder)

    def _settings(self, site: Site, number: int, folder: Path) -> dict[str, object]:
        names = self.processes(site.brokers)
        name = names[number - 1]
        voters = (f"{i}@127.0.0.1:{site.ports[f'{one}-controller']}" for i, one in enumerate(names, 1))
        replicas, in_sync = (3, 2) if site.brokers >= 3 else (1, 1)
        return {
            "process.roles": "broker,controller",
            "node.id": number,
            "controller.quorum.voters": ",".join(voters),
            "listeners": f"PLAINTEXT://127.0.0.1:{site.ports[name]},"
            f"CONTROLLER://127.0.0.1:{site.ports[f'{name}-controller']}",
            "inter.broker.listener.name": "PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": folder,
            "num.partitions": 2,
            "default.replication.factor": replicas,
            "min.insync.replicas": in_sync,
            "offsets.topic.replication.factor": replicas,
            "offsets.topic.num.partitions": 8,
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": in_sync,
            "transaction.state.log.num.partitions": 8,
            "share.coordinator.state.topic.replication.factor": replicas,
            "share.coordinator.state.topic.min.isr": in_sync,
            "group.initial.rebalance.delay.ms": 0,
            "auto.create.topics.enable": "false",
            "controlled.shutdown.max.retries": 1,
            "log.cleaner.dedupe.buffer.size": 16 << 20,
            "log.segment.bytes": 256 << 20,
            "offsets.retention.minutes": 7 * 24 * 60,
        }


def cluster_id(random: bytes) -> str:
    """Kafka's spelling of a random id; a leading dash would be taken for an option."""
    spelt = urlsafe_b64encode(random).decode().rstrip("=")
    return "_" + spelt[1:] if spelt.startswith("-") else spelt


def _format(java: Java, class_path: str, server: Path, cluster: str, log4j: Path) -> None:
    words = [str(java.path), "-Xmx128m", "-XX:TieredStopAtLevel=1", f"-Dlog4j2.configurationFile={log4j}"]
    words += ["-cp", class_path, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(server)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:] or ["no words"]
        raise SetupError(
            f"Kafka could not format its storage ({said[0]}).",
            code="kafka-format",
            remedy="Look at the folder it names, or drop all local data: penstock down --wipe",
        )
