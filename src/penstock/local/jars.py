"""The jars of each component: locked by SHA-256, fetched once per user, kept in one checked store."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import tarfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import SetupError
from penstock.local import ivy
from penstock.local.java import find_java

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterable, Iterator

    from penstock.local.progress import Progress

__all__ = ["Jar", "JarStore", "components", "locked"]

_LOCKS = Path(__file__).with_name("lock")
_MIB = 1 << 20


@dataclass(frozen=True, order=True)
class Jar:
    """One locked artifact."""

    coordinate: ivy.Coordinate
    sha256: str
    size: int

    @property
    def file_name(self) -> str:
        """The name it has in the store."""
        return self.coordinate.file_name


def components() -> list[str]:
    """The names of everything that has a lock."""
    return sorted(path.stem for path in _LOCKS.glob("*.txt"))


def locked(component: str) -> tuple[Jar, ...]:
    """The jars a component is made of."""
    lines = (_LOCKS / f"{component}.txt").read_text(encoding="utf-8").splitlines()
    rows = (line.split() for line in lines if not line.startswith("#"))
    return tuple(Jar(ivy.Coordinate.parse(name), digest, int(size)) for name, digest, size in rows)


def default_cache() -> Path:
    """The user's cache; for root a place that the accounts of the services can read too."""
    if named := os.environ.get("PENSTOCK_CACHE"):
        return Path(named)
    if home := os.environ.get("XDG_CACHE_HOME"):
        return Path(home) / "penstock"
    return Path("/var/cache/penstock") if os.geteuid() == 0 else Path.home() / ".cache" / "penstock"


class JarStore:
    """Where this user's jars are kept."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or default_cache()
        self.jars = self.folder / "jars"
        self.classes = self.folder / "classes"

    def path(self, jar: Jar) -> Path:
        """Where a jar is, or will be."""
        return self.jars / jar.file_name

    def paths(self, component: str) -> list[Path]:
        """Where all jars of a component are."""
        return [self.path(jar) for jar in locked(component)]

    def class_path(self, component: str) -> str:
        """All jars of a component, as Java's -cp takes them."""
        return os.pathsep.join(map(str, self.paths(component)))

    def damaged(self, names: Iterable[str]) -> list[Jar]:
        """The jars of these components whose bytes are not the locked ones (reads every byte)."""
        present = [jar for jar in _distinct(names) if self.path(jar).is_file()]
        return [jar for jar in present if _digest(self.path(jar)) != jar.sha256]

    def missing(self, names: Iterable[str]) -> list[Jar]:
        """The jars of these components that are not here in full length."""
        return [jar for jar in _distinct(names) if not self._whole(jar)]

    def ensure(self, names: Iterable[str], progress: Progress) -> None:
        """Fetch what is missing of these components; a jar that is here is never fetched again."""
        names = tuple(names)
        if not self.missing(names):
            return
        java = find_java().path
        with self._locked():
            missing = self.missing(names)
            for jar in missing:
                if self.path(jar).exists():
                    progress.say(f"{jar.file_name} is truncated in {self.jars}; fetching it again.")
                    self.path(jar).unlink()
            _Fetch(self, java, _shares(names, missing), progress).run()

    def unpacked(self, component: str) -> Path:
        """The folder that a component's archive holds, unpacked once."""
        (jar,) = locked(component)
        target = self.folder / "unpacked" / f"{component}-{jar.sha256[:12]}"
        if not target.is_dir():
            fresh = target.with_name(f"{target.name}.{os.getpid()}")
            shutil.rmtree(fresh, ignore_errors=True)
            with tarfile.open(self.path(jar)) as archive:
                archive.extractall(fresh, filter="data")
            with contextlib.suppress(OSError):  # another process was first: its copy is as good
                fresh.rename(target)
            shutil.rmtree(fresh, ignore_errors=True)
        return target

    def take(self, fetched: Path, jar: Jar) -> None:
        """Move a fetched jar into the store if its bytes are the locked ones."""
        if _digest(fetched) != jar.sha256:
            fetched.unlink()
            raise SetupError(
                f"{jar.coordinate} came with other bytes than the locked ones.",
                code="jar-corrupt",
                remedy="Run the command again; if it stays so, check the registry that your Ivy settings name.",
            )
        fetched.replace(self.path(jar))

    def _whole(self, jar: Jar) -> bool:
        try:
            return self.path(jar).stat().st_size == jar.size
        except FileNotFoundError:
            return False

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            self.jars.mkdir(parents=True, exist_ok=True)
            handle = (self.folder / "lock").open("w")
        except OSError as error:
            raise SetupError(
                f"The jar cache {self.folder} can't be written ({error.strerror}).",
                code="cache-unwritable",
                remedy="Free or open that folder, or name another one in PENSTOCK_CACHE.",
            ) from error
        with handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield


class _Fetch:
    """One Ivy per component, side by side, with the bytes that arrived as progress."""

    def __init__(self, store: JarStore, java: Path, shares: dict[str, list[Jar]], progress: Progress) -> None:
        self.store = store
        self.java = java
        self.shares = shares
        self.progress = progress
        self.total = sum(jar.size for share in shares.values() for jar in share)

    def run(self) -> None:
        running = {name: self._start(name) for name in self.shares}
        try:
            while any(process.poll() is None for process in running.values()):
                self._report()
                time.sleep(0.2)
            for name, process in running.items():
                self._collect(name, process.returncode)
        finally:
            for process in running.values():
                process.kill()
                process.wait()
        self.progress.update("jars", self.total, self.total)

    def _folder(self, name: str) -> Path:
        return self.store.folder / "fetching" / name

    def _start(self, name: str) -> subprocess.Popen[bytes]:
        folder = self._folder(name)
        ivy.module_file(folder / "ivy.xml", (jar.coordinate for jar in self.shares[name]))
        arguments = ivy.command(
            self.java,
            settings=ivy.settings_file(),
            module=folder / "ivy.xml",
            cache=folder / "cache",
        )
        return ivy.run(arguments, folder / "ivy.log")

    def _report(self) -> None:
        arrived = sum(_size_of(self._folder(name) / "cache", share) for name, share in self.shares.items())
        note = f"{arrived // _MIB} of {self.total // _MIB} MiB"
        self.progress.update("jars", min(arrived, self.total - 1), self.total, note)

    def _collect(self, name: str, code: int) -> None:
        folder = self._folder(name)
        absent = []
        for jar in self.shares[name]:
            fetched = ivy.cached(folder / "cache", jar.coordinate)
            if fetched.is_file():
                self.store.take(fetched, jar)
            else:
                absent.append(jar)
        if absent:
            raise SetupError(
                f"{len(absent)} jar(s) of {name} could not be fetched, {absent[0].coordinate} among them"
                f" (Ivy ended with {code}, its words are in {folder / 'ivy.log'}).",
                code="jars-unreachable",
                remedy="Check the network, or name your registry in an Ivy settings file: PENSTOCK_IVY_SETTINGS.",
            )
        shutil.rmtree(folder)


def _distinct(names: Iterable[str]) -> list[Jar]:
    return sorted({jar for name in names for jar in locked(name)})


def _shares(names: Iterable[str], missing: list[Jar]) -> dict[str, list[Jar]]:
    """Give each missing jar to the first component that asks for it."""
    left = set(missing)
    shares: dict[str, list[Jar]] = {}
    for name in names:
        if share := sorted(left & set(locked(name))):
            shares[name] = share
            left -= set(share)
    return shares


def _size_of(cache: Path, share: list[Jar]) -> int:
    arrived = 0
    for jar in share:
        for path in ivy.cached(cache, jar.coordinate).parent.glob("*"):
            with contextlib.suppress(FileNotFoundError):
                arrived += path.stat().st_size
    return arrived


def _digest(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
