"""Apicurio as a schema registry with Confluent's API, its storage in Kafka."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar

from penstock.broker.connection import java_options
from penstock.errors import SetupError
from penstock.local.processes import Command
from penstock.local.service import Service, Site, get_json, properties, put_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.local.java import Java

__all__ = ["RegistryService"]

_SETTLE_SECONDS = 30.0


class RegistryService(Service):
    """The schema registry."""

    name: ClassVar = "registry"
    summary: ClassVar = "Apicurio schema registry, Confluent API"
    version: ClassVar = "3.0.9"
    needs: ClassVar = ("kafka",)
    components: ClassVar = ("registry",)

    def address(self, site: Site) -> str:
        """The root of Confluent's API."""
        return f"{_root(site)}/apis/ccompat/v7"

    def ready(self, site: Site, seconds: float) -> bool:
        """It has read to the end what it keeps in Kafka (until then it does not know its schemas), and answers."""
        asked = (f"{_root(site)}/health/ready", f"{self.address(site)}/subjects")
        return all(get_json(url, seconds) is not None for url in asked)

    def settle(self, site: Site) -> None:
        """Make BACKWARD the default once, as Confluent has it; what a person sets later stays."""
        if site.home.state().get("registry_default"):
            return
        deadline = time.monotonic() + _SETTLE_SECONDS
        while get_json(f"{self.address(site)}/config", 5) != {"compatibilityLevel": "BACKWARD"}:
            with suppress(OSError):  # its storage may still be busy with itself: asked again until it has taken it
                put_json(f"{self.address(site)}/config", {"compatibility": "BACKWARD"}, 5)
            if time.monotonic() > deadline:
                raise SetupError(
                    "The registry does not take its default compatibility.",
                    code="registry-default",
                    remedy="See what it says: penstock logs registry",
                )
            time.sleep(0.1)
        site.home.remember(registry_default="BACKWARD")

    def configure(self, site: Site, java: Java) -> Sequence[Command]:
        """Settings in a file beside it; secrets reach it through its environment."""
        folder = site.home.data("registry")
        security, secrets = java_options(site.kafka)
        variables = {key: f"PENSTOCK_REGISTRY_{key}".upper().replace(".", "_") for key in secrets}
        security |= {key: f"${{{variable}}}" for key, variable in variables.items()}
        values: dict[str, object] = {
            "quarkus.http.host": "127.0.0.1",
            "quarkus.http.port": site.ports["registry"],
            "quarkus.http.access-log.enabled": "false",
            "quarkus.log.console.format": "%d{yyyy-MM-dd HH:mm:ss,SSS} %-5p %m (%c{1})%n%e",
            "apicurio.ccompat.max-subjects": 1_000_000,  # else it lists a thousand and does not say so
            "apicurio.storage.kind": "kafkasql",
            "apicurio.kafkasql.bootstrap.servers": site.kafka.bootstrap,
            **{f"apicurio.kafka.common.{key}": value for key, value in security.items()},
        }
        properties(folder / "config" / "application.properties", values)
        jar = next(site.jars.unpacked("registry").rglob("apicurio-registry-app-*-runner.jar"))
        start = site.java(java, "registry", "256m", "-XX:TieredStopAtLevel=1")
        # Quarkus reads expressions in the values of variables too: a dollar stands for itself when doubled.
        environment = {variables[key]: value.replace("$", "$$") for key, value in secrets.items()}
        return [Command("registry", (*start, "-jar", str(jar)), folder, environment)]


def _root(site: Site) -> str:
    return f"http://127.0.0.1:{site.ports['registry']}"
