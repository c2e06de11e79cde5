"""One OpenSearch node."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from penstock.errors import SetupError
from penstock.local.account import unprivileged_account
from penstock.local.logging import console_logging
from penstock.local.processes import Command
from penstock.local.service import Service, Site, get_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.local.java import Java

__all__ = ["OpenSearchService"]

_MAIN = "org.codelibs.opensearch.runner.OpenSearchRunner"
_LAST_PORT = 9299  # the runner takes no HTTP port above it


class OpenSearchService(Service):
    """The search index."""

    name: ClassVar = "opensearch"
    summary: ClassVar = "OpenSearch, one node"
    version: ClassVar = "2.19.1"
    components: ClassVar = ("opensearch",)

    def ports(self, brokers: int) -> dict[str, int]:
        """HTTP, and the transport that a single node wants too."""
        return {**super().ports(brokers), "opensearch-transport": 9300}

    def address(self, site: Site) -> str:
        """Its HTTP interface."""
        return f"http://127.0.0.1:{site.ports['opensearch']}"

    def ready(self, site: Site, seconds: float) -> bool:
        """The node has elected itself and its indices are at work."""
        health = get_json(f"{self.address(site)}/_cluster/health", seconds)
        return health is not None and health.get("status") in ("green", "yellow")

    def configure(self, site: Site, java: Java) -> Sequence[Command]:
        """Settings in the node's folder, which belongs to the account it runs as."""
        port = site.ports["opensearch"]
        if port > _LAST_PORT:
            raise SetupError(
                f"OpenSearch can't listen on port {port}.",
                code="opensearch-port",
                remedy=f"Free or fix one from 9200 to {_LAST_PORT}: local.ports.opensearch in penstock.toml.",
            )
        account = unprivileged_account()
        folder = account.data(site.home, "opensearch")
        config = folder / "config"
        settings = {
            "discovery.type": "single-node",
            "network.host": "127.0.0.1",
            "http.port": port,
            "transport.port": site.ports["opensearch-transport"],
            "action.auto_create_index": "true",
            "cluster.routing.allocation.disk.threshold_enabled": "false",
            "action.destructive_requires_name": "true",
        }
        config.mkdir(parents=True, exist_ok=True)
        lines = [f"{key}: {value}" for key, value in settings.items()]
        (config / "opensearch.yml").write_text("\n".join(lines) + "\n", encoding="utf-8")
        console_logging(config / "log4j2.properties")
        account.own(folder)
        words = [
            *site.java(java, "opensearch", "320m", "-XX:TieredStopAtLevel=1"),
            f"-Djava.io.tmpdir={folder}",
        ]
        words += [
            "-cp",
            site.jars.class_path("opensearch"),
            _MAIN,
            "-basePath",
            str(folder),
            "-confPath",
            str(config),
        ]
        words += ["-numOfNode", "1", "-baseHttpPort", str(port - 1), "-clusterName", "penstock"]
        return [Command("opensearch", tuple(words), folder, account=account)]
