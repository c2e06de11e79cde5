"""Who the services run as: root gives up its privileges where it must, an ordinary user needs none."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import penstock
from penstock.local import processes
from penstock.local.account import Account
from penstock.local.home import Home
from penstock.local.jars import JarStore
from penstock.local.progress import Silent

if TYPE_CHECKING:
    from tests.conftest import Project

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


def owner(process: processes.Process) -> str:
    return pwd.getpwuid(Path(f"/proc/{process.pid}").stat().st_uid).pw_name


@as_root
def test_root_runs_postgres_and_opensearch_as_another_user(platform: Project) -> None:
    owners = {name: owner(process) for name, process in platform.processes().items()}
    assert owners["postgres"] == owners["opensearch"] == "penstock"
    assert owners["kafka"] == "root"


@as_root
def test_a_folder_that_is_closed_to_the_account_keeps_its_data_behind_a_link(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    home = Home(closed, closed / ".penstock")
    home.prepare()
    home.lay_out()
    account = Account(pwd.getpwnam("nobody"))
    outside = account.data(home, "postgres")
    try:
        assert home.data("postgres").is_symlink()
        assert account.reaches(outside)
        assert outside.stat().st_uid == pwd.getpwnam("nobody").pw_uid
        assert account.data(home, "postgres") == outside
    finally:
        shutil.rmtree(outside)


def reachable_python() -> str | None:
    account = Account(pwd.getpwnam("nobody"))
    if not all(account.reaches(Path(path)) for path in (penstock.__file__, pytest.__file__)):
        return None
    system = f"/usr/bin/python3.{sys.version_info.minor}"
    for path in (sys.executable, system):
        if Path(path).exists() and account.reaches(Path(path).resolve()) and account.reaches(Path(path)):
            return path
    return None


@as_root
@pytest.mark.skipif(reachable_python() is None, reason="no Python here that an ordinary user may run")
def test_an_ordinary_user_needs_no_rights(tmp_path: Path) -> None:
    JarStore().ensure(("kafka", "opensearch"), Silent())
    folder = Path(tempfile.mkdtemp(prefix="penstock-ordinary-"))
    nobody = pwd.getpwnam("nobody")
    os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "PENSTOCK_CACHE": str(JarStore().folder),
    }

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [reachable_python() or "", "-m", "penstock", *words],
            cwd=folder,
            env=environment,
            user=nobody.pw_uid,
            group=nobody.pw_gid,
            extra_groups=[],
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )

    try:
        done = run("up", "kafka", "postgres", "opensearch")
        assert done.returncode == 0, done.stderr
        found = processes.find(folder / ".penstock")
        assert {name: owner(process) for name, process in found.items()} == dict.fromkeys(
            ("kafka", "postgres", "opensearch"), "nobody"
        )
    finally:
        run("down")
        shutil.rmtree(folder)
    assert processes.find(folder / ".penstock") == {}
