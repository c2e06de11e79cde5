"""Apicurio as a schema registry with Confluent's API, its storage in Kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from penstock.broker.connection import java_options
from penstock.local.processes import Command
from penstock.local.service import Service, Site, get_json, properties
from penstock.settings import Secret

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.local.java import Java

__all__ = ["RegistryService"]


class RegistryService(Service):
    """The schema registry."""

    name: ClassVar = "registry"
    summary: ClassVar = "Apicurio schema registry, Confluent API"
    version: ClassVar = "3.0.9"
    needs: ClassVar = ("kafka",)
    components: ClassVar = ("registry",)

    def address(self, site: Site) -> str:
        """The root of Confluent's API."""
        return f"http://127.0.0.1:{site.ports['registry']}/apis/ccompat/v7"

    def ready(self, site: Site, seconds: float) -> bool:
        """It lists its subjects."""
        return get_json(f"{self.address(site)}/subjects", seconds) is not None

    def configure(self, site: Site, java: Java) -> Sequence[Command]:
        """Settings in a file beside it; secrets reach it through its environment."""
        folder = site.home.data("registry")
        secrets: dict[str, str] = {}
        values: dict[str, object] = {
            "quarkus.http.host": "127.0.0.1",
            "quarkus.http.port": site.ports["registry"],
            "apicurio.storage.kind": "kafkasql",
            "apicurio.kafkasql.bootstrap.servers": site.kafka.bootstrap,
            "apicurio.rules.global.compatibility": "BACKWARD",
        }
        for key, value in java_options(site.kafka).items():
            name = f"apicurio.kafka.common.{key}"
            if isinstance(value, Secret):
                variable = f"PENSTOCK_REGISTRY_{key}".upper().replace(".", "_")
                secrets[variable] = value.reveal()
                values[name] = f"${{{variable}}}"
            else:
                values[name] = value
        properties(folder / "config" / "application.properties", values)
        jar = next(site.jars.unpacked("registry").rglob("apicurio-registry-app-*-runner.jar"))
        start = site.java(java, "registry", "256m", "-XX:TieredStopAtLevel=1")
        return [Command("registry", (*start, "-jar", str(jar)), folder, secrets)]
