"""What goes wrong on a laptop: each fault ends in one clear sentence, and nothing is left behind or lost."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import psycopg
import pytest

from penstock.broker import Consumer, Producer, Topics, fold, read
from penstock.local.progress import Silent
from penstock.local.stop import wipe
from tests.conftest import Project, wait_until
from tests.local.test_stack import call

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from penstock.settings import Kafka


def assert_one_sentence(done: subprocess.CompletedProcess[str], said: str) -> None:
    assert done.returncode not in (0, None)
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert sum(line.startswith("error: ") for line in done.stderr.splitlines()) == 1


def test_kill_9_of_every_service_loses_nothing(platform: Project, kafka: Kafka, topic: Callable[..., str]) -> None:
    settings = platform.settings
    name = topic("killed", partitions=2)
    with Producer(kafka) as producer:
        for number in range(500):
            producer.send(name, str(number), str(number % 7))
    with Consumer(kafka, f"{name}-group", [name]) as consumer:
        for seen, record in enumerate(consumer, 1):
            consumer.done(record)
            if seen == 200:
                break
    committed = Topics(kafka).committed(name, f"{name}-group")
    schema = {"schema": '{"type":"record","name":"R","fields":[{"name":"n","type":"int"}]}'}
    registered = call(f"{settings.registry.url}/subjects/{name}-value/versions", schema, "POST")["id"]
    with psycopg.connect(settings.postgres.url, autocommit=True) as database:
        database.execute(f'CREATE TABLE "{name}" AS SELECT n FROM generate_series(1, 1000) n')
    call(f"{settings.opensearch.url}/{name}/_doc/1", {"word": "kept"}, "PUT")

    for process in platform.processes().values():
        process.signal(signal.SIGKILL)
        assert process.wait(20)
    assert platform.processes() == {}
    done = platform.run("up")
    assert done.returncode == 0, done.stderr

    assert sorted(int(record.value or b"") for record in read(kafka, name)) == list(range(500))
    assert Topics(kafka).committed(name, f"{name}-group") == committed
    assert sum(committed.values()) == 200
    assert call(f"{settings.registry.url}/subjects/{name}-value/versions/latest")["id"] == registered
    with psycopg.connect(settings.postgres.url) as database:
        assert database.execute(f'SELECT count(*) FROM "{name}"').fetchone() == (1000,)
    assert call(f"{settings.opensearch.url}/{name}/_doc/1")["_source"] == {"word": "kept"}
    assert len(fold(kafka, name)) == 7


@pytest.mark.parametrize("victim", ["kafka", "postgres", "opensearch", "registry", "connect"])
def test_kill_9_of_one_service_and_up_brings_it_back_beside_the_others(platform: Project, victim: str) -> None:
    before = {name: process.pid for name, process in platform.processes().items()}
    platform.processes()[victim].signal(signal.SIGKILL)
    done = platform.run("up")
    assert done.returncode == 0, done.stderr
    after = {name: process.pid for name, process in platform.processes().items()}
    assert after.keys() == before.keys()
    assert {name for name in after if after[name] != before[name]} == {victim}
    assert {one.state for one in platform.stack.status()} == {"up"}


def test_a_taken_port_moves_on_and_is_remembered(project: Project) -> None:
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        holder.listen(1)
        port = holder.getsockname()[1]
        (project.folder / "penstock.toml").write_text(f"[local.ports]\npostgres = {port}\n", encoding="utf-8")
        assert_one_sentence(
            project.run("up", "postgres"), f"Port {port}, which penstock.toml fixes for postgres, is taken"
        )
        assert project.processes() == {}
    assert project.run("up", "postgres").returncode == 0
    assert project.settings.postgres.port == port


def test_up_twice_at_once_starts_everything_once(project: Project) -> None:
    pair = [
        subprocess.Popen(project.command("up", "kafka"), cwd=project.folder, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    said = [one.communicate(timeout=120)[1] for one in pair]
    assert [one.returncode for one in pair] == [0, 0], said
    assert sum("is at work in" in words for words in said) == 1
    assert set(project.processes()) == {"kafka"}


def test_many_may_look_at_the_folder_at_once(project: Project) -> None:
    home = project.stack.home
    with ThreadPoolExecutor(4) as pool:
        for look in [pool.submit(home.prepare) for _ in range(1_000)]:
            look.result()
    assert list(home.folder.iterdir()) == []


def test_up_that_waited_for_a_wipe_finds_its_folders(project: Project) -> None:
    home = project.stack.home
    home.prepare()
    home.lay_out()
    with home.locked(print):
        up = subprocess.Popen(project.command("up", "kafka"), cwd=project.folder, stderr=subprocess.PIPE, text=True)
        assert up.stderr is not None
        assert "is at work in" in up.stderr.readline()
        wipe(home)
    said = up.communicate(timeout=120)[1]
    assert up.returncode == 0, said
    assert home.temporary.is_dir()


def test_down_with_nothing_up(project: Project) -> None:
    done = project.run("down")
    assert (done.returncode, done.stdout) == (0, "Nothing was running.\n")


def test_a_program_that_looks_like_ours_is_never_killed(project: Project) -> None:
    project.stack.up(("postgres",), Silent())
    words = [sys.executable, "-c", "import time; time.sleep(600)", "kafka.Kafka", str(project.home)]
    mark = {"PENSTOCK_PROCESS": f"{project.home}-other:kafka"}
    stranger = subprocess.Popen(words, env={**os.environ, **mark}, cwd=project.home)
    try:
        ours = project.processes()["postgres"]
        impostor = type(ours)(
            "postgres", stranger.pid, ours.mark
        )  # our mark with a number that another program has now
        assert impostor.signal(signal.SIGKILL) is False
        assert impostor.wait(0.1) is True
        assert project.run("down").stdout == "Stopped: postgres.\n"
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_ctrl_c_in_the_middle_of_up_leaves_nothing(project: Project) -> None:
    up = subprocess.Popen(project.command("up"), cwd=project.folder, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: {"kafka", "opensearch"} <= set(project.processes()))
    up.send_signal(signal.SIGINT)
    _, said = up.communicate(timeout=60)
    assert up.returncode == 130
    assert said.endswith("Stopped.\n")
    assert project.processes() == {}


def test_a_failed_up_stops_what_it_started_and_leaves_what_ran(project: Project) -> None:
    project.stack.up(("postgres",), Silent())
    (project.folder / "penstock.toml").write_text('[local.heap]\nopensearch = "2m"\n', encoding="utf-8")
    assert_one_sentence(project.run("up", "kafka", "opensearch"), "opensearch ended while it was starting")
    assert set(project.processes()) == {"postgres"}


@pytest.mark.parametrize(
    ("options", "said"),
    [("size=8m", "the services need 512 MiB"), ("ro,size=1g", "can't be written (Read-only file system)")],
)
def test_a_full_or_read_only_folder_is_refused(project: Project, options: str, said: str) -> None:
    script = 'mount -t tmpfs -o "$1" penstock "$2" && cd "$2" && exec "$3" -m penstock up kafka'
    words = ["unshare", "--mount", "--map-root-user", "sh", "-c", script]
    done = subprocess.run(
        [*words, "sh", options, str(project.folder), sys.executable],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert_one_sentence(done, said)


def test_a_disk_that_fills_up_during_the_start_is_named(project: Project, tmp_path: Path) -> None:
    from penstock.local.logs import explain_failure

    log = tmp_path / "kafka.log"
    log.write_text("old: No space left on device\nERROR something else\n", encoding="utf-8")
    assert "disk is full" in str(explain_failure("kafka", log, "ended"))
    assert "something else" in str(explain_failure("kafka", log, "ended", since=len("old: No space left on device")))
