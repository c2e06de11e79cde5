"""Starting: what runs stays, what is missing is started, and a failure stops what this start began."""

from __future__ import annotations

import signal
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock.local import ports, processes
from penstock.local.java import find_java
from penstock.local.logs import explain_failure, turn_over
from penstock.local.stop import stop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from penstock.local.home import Home
    from penstock.local.jars import JarStore
    from penstock.local.java import Java
    from penstock.local.processes import Process
    from penstock.local.progress import Progress
    from penstock.local.service import Service, Site
    from penstock.settings import Settings

__all__ = ["Start"]

_SECONDS = 180
_USUAL_SECONDS = 25
_INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Start:
    """One `up` of some services."""

    def __init__(
        self,
        services: list[Service],
        *,
        home: Home,
        jars: JarStore,
        settings: Settings,
        brokers: int,
        progress: Progress,
    ) -> None:
        self.services = services
        self.home = home
        self.jars = jars
        self.settings = settings
        self.brokers = brokers
        self.progress = progress
        self.began = time.monotonic()
        self.running = processes.find(home.folder)
        self.started: list[Process] = []
        self.log_began: dict[str, int] = {}
        self.interrupted = False
        self.spawning = False

    def run(self, make_site: Callable[[Mapping[str, int]], Site]) -> None:
        """Start what is missing and return when all of it answers."""
        absent = [one for one in self.services if not self._runs(one)]
        java = find_java() if absent else None
        if absent:
            self.jars.ensure([name for service in absent for name in service.components], self.progress)
        with ports.Claims() as claims:
            site = make_site(self._choose_ports(absent, claims))
            with self._heeding_interrupts():
                self._start(site, absent, java)

    def _start(self, site: Site, absent: list[Service], java: Java | None) -> None:
        try:
            for service in self.services:
                self._wait(site, [one for one in self.services if one.name in service.needs])
                if service in absent:
                    self.progress.update(service.name, 0, 1, "starting")
                    assert java is not None
                    for command in service.configure(site, java):
                        self._spawn(command)
            self._wait(site, self.services)
        except BaseException:
            with _undisturbed():
                stop(self.started, self.progress)
            raise

    def _runs(self, service: Service) -> bool:
        return all(name in self.running for name in service.processes(self.brokers))

    def _choose_ports(self, absent: list[Service], claims: ports.Claims) -> dict[str, int]:
        remembered = dict(self.home.state().get("ports", {}))
        kept = {name for name in self.running if name in remembered}
        wanted = {
            name: port
            for service in absent
            for name, port in service.ports(self.brokers).items()
            if name.removesuffix("-controller") not in kept
        }
        pinned = self.settings.local.ports
        chosen = ports.choose(wanted, claims, pinned=pinned, remembered=remembered, say=self.progress.say)
        self.home.remember(ports={**remembered, **chosen})
        return chosen

    def _spawn(self, command: processes.Command) -> None:
        if command.name in self.running:
            return
        log = self.home.log(command.name)
        turn_over(log)
        self.log_began[command.name] = log.stat().st_size if log.exists() else 0
        self.spawning = True
        self.started.append(processes.spawn(command, self.home.folder, log))
        self.spawning = False
        self._heed_interrupt()

    def _wait(self, site: Site, services: list[Service]) -> None:
        left = list(services)
        while left:
            for service in list(left):
                if service.ready(site, 1.0):
                    service.settle(site)
                    self.progress.update(service.name, 1, 1, "up")
                    left.remove(service)
                else:
                    self._look_after(service)
            if left:
                time.sleep(0.1)

    @contextmanager
    def _heeding_interrupts(self) -> Iterator[None]:
        """Remember Ctrl-C: never between a start and our note of it, and never lost in a library's callback."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def interrupt(*_: object) -> None:
            self.interrupted = True
            if not self.spawning:
                raise KeyboardInterrupt

        before = {number: signal.signal(number, interrupt) for number in _INTERRUPTS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _heed_interrupt(self) -> None:
        if self.interrupted:
            raise KeyboardInterrupt

    def _look_after(self, service: Service) -> None:
        self._heed_interrupt()
        waited = time.monotonic() - self.began
        self.progress.update(service.name, min(waited / _USUAL_SECONDS, 0.95), 1, f"starting, {waited:.0f} s")
        alive = processes.find(self.home.folder)
        for name in service.processes(self.brokers):
            if name not in alive:
                raise self._failure(name, "ended while it was starting")
            if waited > _SECONDS:
                raise self._failure(name, f"did not answer within {_SECONDS} s")

    def _failure(self, name: str, what: str) -> Exception:
        return explain_failure(name, self.home.log(name), what, self.log_began.get(name, 0))


@contextmanager
def _undisturbed() -> Iterator[None]:
    """A second Ctrl-C does not leave half of the services behind: stopping them ends by itself."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
