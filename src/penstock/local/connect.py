"""Kafka Connect with Debezium for PostgreSQL and MySQL, exactly-once sources on."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from penstock.broker.connection import java_options
from penstock.cdc.debezium import worker_secret
from penstock.cdc.places import note_place
from penstock.cdc.secrets import secrets_folder
from penstock.local.jars import locked
from penstock.local.logging import console_logging
from penstock.local.processes import Command
from penstock.local.service import Service, Site, get_json, properties

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from penstock.local.java import Java

__all__ = ["ConnectService"]

_PLUGINS = ("debezium-postgres", "debezium-mysql", "debezium-mariadb")
_QUIET = (
    "org.apache.kafka.common.config",
    "org.apache.kafka.clients",
    "org.apache.kafka.common.utils",
    "org.eclipse",
)


class ConnectService(Service):
    """The workers that run Debezium."""

    name: ClassVar = "connect"
    summary: ClassVar = "Kafka Connect with Debezium 3.6.1"
    version: ClassVar = "4.3.1"
    needs: ClassVar = ("kafka",)
    components: ClassVar = ("connect", *_PLUGINS)

    def address(self, site: Site) -> str:
        """The REST interface."""
        return f"http://127.0.0.1:{site.ports['connect']}"

    def ready(self, site: Site, seconds: float) -> bool:
        """The worker has joined its group and lists its connectors."""
        return get_json(f"{self.address(site)}/connectors", seconds) is not None

    def configure(self, site: Site, java: Java) -> Sequence[Command]:
        """A distributed worker; secrets reach it through its environment, never through the file."""
        config, folder = site.home.config("connect"), site.home.data("connect")
        folder.mkdir(parents=True, exist_ok=True)
        note_place("kafka", site.kafka.bootstrap, site.settings)
        security, secrets = java_options(site.kafka)
        variables = {key: worker_secret(key) for key in secrets}
        security |= {key: f"${{env:{variable}}}" for key, variable in variables.items()}
        worker = config / "worker.properties"
        properties(worker, self._settings(site, _plugins(site, folder / "plugins")) | _for_all_clients(security))
        log4j = console_logging(config / "log4j2.properties", _QUIET)
        flags = (f"-Dlog4j2.configurationFile={log4j}", _YOUNG)
        start = site.java(java, "connect", "512m", *flags, collector="Parallel")
        words = (*start, "-cp", site.jars.class_path("connect"), _MAIN, str(worker))
        environment = {variables[key]: value for key, value in secrets.items()}
        return [Command("connect", words, folder, environment)]

    def _settings(self, site: Site, plugins: Path) -> dict[str, object]:
        replicas = -1 if "kafka" in site.settings.external else 3 if site.brokers >= 3 else 1
        json = "org.apache.kafka.connect.json.JsonConverter"
        return {
            "bootstrap.servers": site.kafka.bootstrap,
            "group.id": "penstock-connect",
            "key.converter": json,
            "value.converter": json,
            "key.converter.schemas.enable": "false",
            "value.converter.schemas.enable": "false",
            "offset.storage.topic": "penstock-connect-offsets",
            "offset.storage.partitions": 4,
            "offset.storage.replication.factor": replicas,
            "config.storage.topic": "penstock-connect-configs",
            "config.storage.replication.factor": replicas,
            "status.storage.topic": "penstock-connect-status",
            "status.storage.partitions": 2,
            "status.storage.replication.factor": replicas,
            "offset.flush.interval.ms": 1000,
            "listeners": self.address(site),
            "plugin.path": plugins,
            "plugin.discovery": "service_load",
            "exactly.once.source.support": "enabled",
            "config.providers": "env,file",
            "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
            "config.providers.env.param.allowlist.pattern": "PENSTOCK_CONNECT_.*",
            "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
            "config.providers.file.param.allowed.paths": secrets_folder(site.settings),
            "scheduled.rebalance.max.delay.ms": 5000,
        }


# Records live as long as their transaction: a smaller part would copy them again and again in a snapshot.
_YOUNG = "-XX:NewRatio=1"
_MAIN = "org.apache.kafka.connect.cli.ConnectDistributed"


def _plugins(site: Site, folder: Path) -> Path:
    """A folder per plugin with links into the jar store."""
    for component in _PLUGINS:
        place = folder / component
        place.mkdir(parents=True, exist_ok=True)
        wanted = {jar.file_name: site.jars.path(jar) for jar in locked(component)}
        for old in place.iterdir():
            if wanted.get(old.name) != old.readlink():
                old.unlink()
        for name, target in wanted.items():
            if not (place / name).is_symlink():
                (place / name).symlink_to(target)
    return folder


def _for_all_clients(security: dict[str, str]) -> dict[str, object]:
    """A worker's own clients, and those of its connectors, take the same security."""
    prefixes = ("", "producer.", "consumer.", "admin.")
    return {f"{prefix}{key}": value for prefix in prefixes for key, value in security.items()}
