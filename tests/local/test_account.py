"""Who the services run as: root gives up its privileges where it must, an ordinary user needs none."""

from __future__ import annotations

import multiprocessing
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import penstock
from penstock.local import account, processes
from penstock.local.account import Account
from penstock.local.home import Home
from penstock.local.jars import JarStore
from penstock.local.progress import Silent

if TYPE_CHECKING:
    from multiprocessing.synchronize import Barrier

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
    nobody = Account(pwd.getpwnam("nobody"))
    outside = nobody.data(home, "postgres")
    try:
        assert home.data("postgres").is_symlink()
        assert nobody.reaches(outside)
        assert outside.stat().st_uid == pwd.getpwnam("nobody").pw_uid
        assert nobody.data(home, "postgres") == outside
    finally:
        shutil.rmtree(outside)


def make_users(names: list[str], both: Barrier) -> None:
    for name in names:
        account._NAME = name
        both.wait(60)
        assert account.unprivileged_account().entry is not None


@as_root
def test_two_that_need_the_account_at_once_get_it() -> None:
    names, work = [f"penstock-{uuid.uuid4().hex[:8]}" for _ in range(5)], multiprocessing.get_context("spawn")
    both = work.Barrier(4)
    makers = [work.Process(target=make_users, args=(names, both)) for _ in range(4)]
    try:
        for maker in makers:
            maker.start()
        for maker in makers:
            maker.join(60)
        assert [maker.exitcode for maker in makers] == [0, 0, 0, 0]
        known = [one.pw_name for one in pwd.getpwall()]
        assert [known.count(name) for name in names] == [1, 1, 1, 1, 1]
    finally:
        for name in names:
            while subprocess.run(["userdel", name], check=False, capture_output=True).returncode == 0:
                pass


def reachable_python() -> str | None:
    nobody = Account(pwd.getpwnam("nobody"))
    if not all(nobody.reaches(Path(path)) for path in (penstock.__file__, pytest.__file__)):
        return None
    system = f"/usr/bin/python3.{sys.version_info.minor}"
    for path in (sys.executable, system):
        if Path(path).exists() and nobody.reaches(Path(path).resolve()) and nobody.reaches(Path(path)):
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
