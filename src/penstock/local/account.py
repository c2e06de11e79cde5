"""The account for services that refuse to run as root, and what it must be able to reach."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import pwd
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import SetupError

if TYPE_CHECKING:
    from penstock.local.home import Home

__all__ = ["Account", "unprivileged_account"]

_NAME = "penstock"
_KEPT_OUTSIDE = Path("/var/lib/penstock")


class Account:
    """An unprivileged user of this machine; a no-op when we are not root ourselves."""

    def __init__(self, entry: pwd.struct_passwd | None) -> None:
        self.entry = entry

    def own(self, folder: Path) -> Path:
        """Make a folder that this account owns, with all that is in it."""
        folder.mkdir(parents=True, exist_ok=True)
        if self.entry is not None:
            for path in (folder, *folder.rglob("*")):
                os.chown(path, self.entry.pw_uid, self.entry.pw_gid, follow_symlinks=False)
        return folder

    def data(self, home: Home, name: str) -> Path:
        """A data folder that this account owns and reaches; moved out, behind a link, where home is closed to it."""
        folder = home.data(name)
        if self.entry is None or self.reaches(home.folder):
            return self.own(folder)
        if not folder.is_symlink():
            _KEPT_OUTSIDE.mkdir(parents=True, exist_ok=True)
            folder.symlink_to(tempfile.mkdtemp(prefix=f"{home.project.name}-{name}-", dir=_KEPT_OUTSIDE))
        return self.own(folder.resolve())

    def reaches(self, path: Path) -> bool:
        """Whether this account may walk to a path."""
        if self.entry is None:
            return True
        return all(_may_enter(folder, self.entry) for folder in (path, *path.parents) if folder.is_dir())

    def readable(self, tree: Path, cache: Path) -> Path:
        """The tree itself if this account reaches it, else a copy of it in the cache."""
        if self.reaches(tree):
            return tree
        copy = cache / "copies" / hashlib.sha256(str(tree).encode()).hexdigest()[:12]
        if not copy.is_dir():
            fresh = copy.with_name(f"{copy.name}.{os.getpid()}")
            shutil.copytree(tree, fresh, symlinks=True)
            with contextlib.suppress(OSError):  # another process was first: its copy is as good
                fresh.rename(copy)
            shutil.rmtree(fresh, ignore_errors=True)
        return copy


def unprivileged_account() -> Account:
    """Ourselves for an ordinary user; for root a system user of ours, made on first need."""
    if os.geteuid() != 0:
        return Account(None)
    try:
        return Account(_made(_NAME))
    except (OSError, subprocess.CalledProcessError, KeyError) as error:
        said = error.stderr.strip() if isinstance(error, subprocess.CalledProcessError) else str(error)
        raise SetupError(
            f"PostgreSQL and OpenSearch refuse to run as root, and the user {_NAME!r} could not be made ({said}).",
            code="account-missing",
            remedy=f"Make that user (`useradd --system {_NAME}`) or run penstock as an ordinary user.",
        ) from error


def _made(name: str) -> pwd.struct_passwd:
    """A system user; of two that need it at once the second waits, as `useradd` would refuse it."""
    with contextlib.suppress(KeyError):
        return pwd.getpwnam(name)
    _KEPT_OUTSIDE.mkdir(parents=True, exist_ok=True)
    with (_KEPT_OUTSIDE / "lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
        nowhere = ["--no-create-home", "--home-dir", "/nonexistent", "--shell", "/bin/false"]
        subprocess.run(["useradd", "--system", *nowhere, name], check=True, capture_output=True, text=True)
    return pwd.getpwnam(name)


def _may_enter(folder: Path, entry: pwd.struct_passwd) -> bool:
    found = folder.stat()
    if found.st_uid == entry.pw_uid:
        return bool(found.st_mode & stat.S_IXUSR)
    if found.st_gid == entry.pw_gid:
        return bool(found.st_mode & stat.S_IXGRP)
    return bool(found.st_mode & stat.S_IXOTH)
