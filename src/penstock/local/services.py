"""The services there are; the order of the list is the start order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import DeclarationError
from penstock.local.connect import ConnectService
from penstock.local.kafka import KafkaService
from penstock.local.opensearch import OpenSearchService
from penstock.local.postgres import PostgresService
from penstock.local.registry import RegistryService
from penstock.settings import KAFKA_NODES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.local.service import Service
    from penstock.settings import Settings

__all__ = ["MOST_BROKERS", "SERVICES", "process_owner", "with_needs"]

MOST_BROKERS = len(KAFKA_NODES)
SERVICES: tuple[Service, ...] = (
    KafkaService(),
    PostgresService(),
    OpenSearchService(),
    RegistryService(),
    ConnectService(),
)


def process_owner(name: str) -> Service:
    """The service that a process, by its name, is part of."""
    for service in SERVICES:
        if name in service.processes(MOST_BROKERS):
            return service
    raise _unknown(name)


def with_needs(names: Sequence[str], settings: Settings) -> list[Service]:
    """These services (all if none is named) and what they need below them, in start order."""
    known = {service.name: service for service in SERVICES}
    wanted: set[str] = set()
    queue = list(names) or [name for name in known if name not in settings.external]
    while queue:
        name = queue.pop()
        if name not in known:
            raise _unknown(name)
        if name in settings.external and name in names:
            raise DeclarationError(
                f"Profile {settings.profile!r} points {name} at an existing one.",
                code="service-external",
                remedy=f"Leave {name} out, or choose the local profile: --profile local",
            )
        if name not in wanted and name not in settings.external:
            wanted.add(name)
            queue.extend(known[name].needs)
    return [service for service in SERVICES if service.name in wanted]


def _unknown(name: str) -> DeclarationError:
    known = ", ".join(service.name for service in SERVICES)
    return DeclarationError(f"There is no service {name!r}.", code="service-unknown", remedy=f"Services: {known}.")
