"""All connectors by their names; each is loaded when it is first asked for."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.connectors.base import Connector

__all__ = ["CONNECTORS", "connector"]

CONNECTORS = {
    "Changes": "penstock.connectors.changes",
    "Console": "penstock.connectors.console",
    "Delta": "penstock.connectors.delta",
    "Files": "penstock.connectors.files",
    "Generated": "penstock.connectors.generated",
    "Http": "penstock.connectors.http",
    "Iceberg": "penstock.connectors.iceberg",
    "Kafka": "penstock.connectors.kafka",
    "Memory": "penstock.connectors.memory",
    "OpenSearch": "penstock.connectors.opensearch",
    "Postgres": "penstock.connectors.postgres",
}


def connector(name: str) -> type[Connector]:
    """The class of a connector."""
    found: type[Connector] = getattr(importlib.import_module(CONNECTORS[name]), name)
    return found
