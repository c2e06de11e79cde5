"""Is this machine fit for the local services? One finding per question, with the remedy."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.errors import PenstockError, SetupError
from penstock.local import ports, processes
from penstock.local.account import unprivileged_account
from penstock.local.home import Home
from penstock.local.jars import JarStore, components
from penstock.local.java import find_java
from penstock.local.postgres import installed_binaries
from penstock.local.services import MOST_BROKERS, SERVICES

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.settings import Settings

__all__ = ["Finding", "examine"]

_MEMORY_NEEDED = 2 << 30


@dataclass(frozen=True)
class Finding:
    """The answer to one question: ok, note (worth knowing) or wrong (must be mended)."""

    question: str
    verdict: str
    answer: str
    remedy: str = ""


def examine(settings: Settings) -> list[Finding]:
    """Ask everything, and go on where an answer is bad."""
    questions: dict[str, Callable[[Settings], Finding | str]] = {
        "Python": _python,
        "Java": _java,
        "settings": _settings,
        "project folder": _folder,
        "memory": _memory,
        "account": _account,
        "PostgreSQL": _postgres,
        "jars": _jars,
        "ports": _ports,
        "processes": _processes,
    }
    return [_ask(question, answer, settings) for question, answer in questions.items()]


def _ask(question: str, answer: Callable[[Settings], Finding | str], settings: Settings) -> Finding:
    try:
        found = answer(settings)
    except PenstockError as error:
        return Finding(question, "wrong", error.problem, error.remedy)
    return found if isinstance(found, Finding) else Finding(question, "ok", found)


def _python(settings: Settings) -> str:
    return f"{sys.version.split()[0]} in {sys.prefix}"


def _java(settings: Settings) -> str:
    java = find_java()
    return f"{java.version} at {java.path}"


def _settings(settings: Settings) -> str:
    outside = ", ".join(sorted(settings.external)) or "none"
    for secret in (settings.kafka.password, settings.kafka.key_password, settings.postgres.password):
        if secret is not None:
            secret.reveal()
    return f"profile {settings.profile!r}; existing services used: {outside}"


def _folder(settings: Settings) -> str:
    Home(settings.project, settings.home).prepare()
    return f"{settings.home}, {shutil.disk_usage(settings.home).free >> 30} GiB free"


def _memory(settings: Settings) -> Finding | str:
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with open("/proc/meminfo", encoding="ascii") as lines:  # noqa: PTH123 - a line of /proc
        for line in lines:
            if line.startswith("MemAvailable:"):
                free = int(line.split()[1]) << 10
    text = f"{free >> 20} MiB available"
    if free >= _MEMORY_NEEDED:
        return text
    return Finding("memory", "note", text, "All services together want about 2 GiB: start only those you need.")


def _account(settings: Settings) -> str:
    entry = unprivileged_account().entry
    return f"root, and {entry.pw_name!r} for PostgreSQL and OpenSearch" if entry else "an ordinary user"


def _postgres(settings: Settings) -> str:
    return str(installed_binaries())


def _jars(settings: Settings) -> Finding | str:
    store = JarStore()
    names = components()
    if damaged := store.damaged(names):
        for jar in damaged:
            store.path(jar).unlink()
        raise SetupError(
            f"{len(damaged)} jar(s) were damaged and are removed, {damaged[0].file_name} among them.",
            code="jar-corrupt",
            remedy="Fetch them again: penstock jars",
        )
    if missing := store.missing(names):
        size = sum(jar.size for jar in missing) >> 20
        return Finding(
            "jars", "note", f"{len(missing)} jars ({size} MiB) are not here yet", "Fetch them: penstock jars"
        )
    return f"all there and unharmed in {store.folder}"


def _ports(settings: Settings) -> Finding | str:
    home = Home(settings.project, settings.home)
    state = home.state()
    running = processes.find(home.folder)
    taken = []
    for service in SERVICES:
        for name, usual in service.ports(state.get("brokers", 1)).items():
            port = settings.local.ports.get(name) or state.get("ports", {}).get(name, usual)
            if not set(service.processes(MOST_BROKERS)) & set(running) and not ports.is_free(port):
                taken.append(f"{port} ({name})")
    if taken:
        text = f"taken by other programs: {', '.join(taken)}"
        return Finding("ports", "note", text, "The next free ones are used; `penstock up` says which.")
    return "free, or ours"


def _processes(settings: Settings) -> str:
    running = processes.find(settings.home)
    return f"{', '.join(sorted(running))} running" if running else "none running"
