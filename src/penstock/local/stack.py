"""The local platform of one project: up, down, status."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.errors import StateError
from penstock.local import processes
from penstock.local.home import Home
from penstock.local.jars import JarStore
from penstock.local.service import Service, Site
from penstock.local.services import SERVICES, with_needs
from penstock.local.start import Start
from penstock.local.stop import stop, wipe

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.local.processes import Process
    from penstock.local.progress import Progress
    from penstock.settings import Settings

__all__ = ["ServiceStatus", "Stack"]


@dataclass(frozen=True)
class ServiceStatus:
    """What one service does now."""

    name: str
    summary: str
    version: str
    state: str
    address: str
    pids: tuple[int, ...]
    memory_bytes: int
    remedy: str


class Stack:
    """The services of one project on this machine."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.home = Home(settings.project, settings.home)
        self.jars = JarStore()

    def up(self, names: Sequence[str], progress: Progress, brokers: int | None = None) -> list[ServiceStatus]:
        """Start these services (all if none is named) with what they need; all of them answer on return."""
        chosen = with_needs(names, self.settings)
        self.home.prepare()
        with self.home.locked(progress.say):
            self.home.lay_out()
            count = self._brokers(brokers or self.settings.local.brokers)
            start = Start(
                chosen,
                home=self.home,
                jars=self.jars,
                settings=self.settings,
                brokers=count,
                progress=progress,
            )
            start.run(lambda ports: self._site(count, ports))
        return [one for one in self.status() if one.name in {service.name for service in chosen}]

    def down(self, progress: Progress, *, remove_data: bool = False) -> list[str]:
        """Stop all that runs here, dependants first, and return the names of what was stopped."""
        if not self.home.folder.is_dir():
            return []
        with self.home.locked(progress.say):
            running = processes.find(self.home.folder)
            stop(running.values(), progress, remove_data=remove_data)
            if remove_data:
                wipe(self.home)
        return sorted(running)

    def status(self) -> list[ServiceStatus]:
        """Every service that is not somebody else's, all asked at the same time."""
        running = processes.find(self.home.folder)
        site = self._site(self._brokers(None), {})
        own = [service for service in SERVICES if service.name not in self.settings.external]
        with ThreadPoolExecutor(max(len(own), 1)) as pool:
            return list(pool.map(lambda service: _status(service, site, running), own))

    def _brokers(self, asked: int | None) -> int:
        made_for = self.home.state().get("brokers")
        if asked and made_for and asked != made_for:
            raise StateError(
                f"Kafka's data here was made for {made_for} broker(s), not {asked}.",
                code="brokers-changed",
                remedy=f"Use --brokers {made_for}, or drop all local data first: penstock down --wipe",
            )
        return int(made_for or asked or 1)

    def _site(self, brokers: int, chosen: Mapping[str, int]) -> Site:
        usual = {name: port for service in SERVICES for name, port in service.ports(brokers).items()}
        known = {**usual, **self.home.state().get("ports", {}), **chosen}
        return Site(self.home, self.jars, self.settings, known, brokers)


def _status(service: Service, site: Site, running: Mapping[str, Process]) -> ServiceStatus:
    wanted = service.processes(site.brokers)
    alive = [running[name] for name in wanted if name in running]
    state, remedy = "down", ""
    if len(alive) == len(wanted):
        state = "up" if service.ready(site, 0.6) else "not answering"
        remedy = "" if state == "up" else f"It may still be starting; see: penstock logs {service.name}"
    elif alive:
        state, remedy = "in part", f"Start the rest again: penstock up {service.name}"
    return ServiceStatus(
        name=service.name,
        summary=service.summary,
        version=service.version,
        state=state,
        address=service.address(site),
        pids=tuple(process.pid for process in alive),
        memory_bytes=sum(process.memory() for process in alive),
        remedy=remedy,
    )
