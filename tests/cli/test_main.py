"""The command line as a stranger meets it."""

from __future__ import annotations

import json
import secrets
import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import Project

COMMANDS = (
    ("up",),
    ("down",),
    ("status",),
    ("logs",),
    ("doctor",),
    ("jars",),
    *(("topics", verb) for verb in ("list", "create", "describe", "alter", "delete", "tail", "produce", "size")),
)


def said(done: subprocess.CompletedProcess[str]) -> str:
    assert "Traceback" not in done.stdout + done.stderr
    return done.stderr


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_helps_with_an_example_and_offers_json(project: Project, words: tuple[str, ...]) -> None:
    done = project.run(*words, "--help")
    assert done.returncode == 0
    assert "Example:" in done.stdout
    assert "--json" in done.stdout


def test_a_typo_is_answered_in_a_sentence(project: Project) -> None:
    done = project.run("statsu")
    assert done.returncode == 2
    assert "No such command 'statsu'" in said(done)
    done = project.run("up", "kafak")
    assert done.returncode == 2
    assert "There is no service 'kafak'. Services: kafka, postgres, opensearch, registry, connect." in said(done)


def test_errors_are_json_when_json_is_asked_for(project: Project) -> None:
    done = project.run("up", "kafak", "--json")
    assert done.returncode == 2
    assert json.loads(done.stdout) == {
        "error": "service-unknown",
        "place": None,
        "problem": "There is no service 'kafak'.",
        "remedy": "Services: kafka, postgres, opensearch, registry, connect.",
    }


def test_status_of_a_fresh_folder_is_down_and_makes_nothing(project: Project) -> None:
    done = project.run("status", "--json")
    assert done.returncode == 0
    assert {one["state"] for one in json.loads(done.stdout)["services"]} == {"down"}
    assert not project.home.exists()


def test_topics_without_kafka_say_how_to_start_it(project: Project) -> None:
    (project.folder / "penstock.toml").write_text("[profiles.p.kafka]\nbootstrap = '127.0.0.1:1'\n", encoding="utf-8")
    done = project.run("topics", "list", "--profile", "p")
    assert done.returncode == 1
    assert "Kafka at 127.0.0.1:1 does not answer" in said(done)
    assert "penstock up kafka" in said(done)


def test_status_and_logs_of_a_running_platform(platform: Project) -> None:
    done = platform.run("status")
    assert done.returncode == 0
    services = done.stdout.split("\n\n")[0]  # other tests leave pipelines, which have a table of their own
    assert [line.split()[:2] for line in services.splitlines()[1:]] == [
        [name, "up"] for name in ("kafka", "postgres", "opensearch", "registry", "connect")
    ]
    assert "\x1b[" not in done.stdout
    lines = json.loads(platform.run("logs", "kafka", "-n", "5", "--json").stdout)["lines"]
    assert len(lines) == 5


def test_logs_follow_shows_new_lines(platform: Project) -> None:
    follow = subprocess.Popen(
        platform.command("logs", "postgres", "-f", "-n", "1"), cwd=platform.folder, stdout=subprocess.PIPE, text=True
    )
    try:
        assert follow.stdout is not None
        follow.stdout.readline()
        log = platform.home / "logs" / "postgres.log"
        with log.open("a", encoding="utf-8") as out:
            out.write("a line for the follower\n")
        while follow.stdout.readline() != "a line for the follower\n":
            pass
    finally:
        follow.terminate()
        follow.communicate(timeout=20)


def test_doctor_finds_what_is_wrong(project: Project, platform: Project) -> None:
    taken = platform.settings.postgres.port
    (project.folder / "penstock.toml").write_text(f"[local.ports]\npostgres = {taken}\n", encoding="utf-8")
    done = project.run("doctor", "--json")
    assert done.returncode == 0, done.stdout
    verdicts = {one["question"]: one["verdict"] for one in json.loads(done.stdout)["findings"]}
    assert verdicts["Java"] == "ok"
    assert verdicts["ports"] == "note"  # the shared platform holds one of ours
    done = project.run("doctor", env={"JAVA_HOME": str(project.folder)})
    assert done.returncode == 1
    assert "✗ Java: Java was not found" in done.stdout


def test_wipe_asks_first(project: Project) -> None:
    done = project.run("down", "--wipe", text="n\n")
    assert done.returncode == 130
    assert "Remove all topics, tables" in done.stdout + said(done)


def test_wipe_leaves_nothing(project: Project) -> None:
    for name in ("data", "state", "lake", "schemas", "secrets"):  # a schema's id means another one in a new registry
        (project.home / name / "one").mkdir(parents=True)
    assert project.run("down", "--wipe", "--yes").returncode == 0
    assert [one.name for one in project.home.iterdir() if one.name != "lock"] == []


def test_size_gives_its_reasons(project: Project) -> None:
    done = project.run("topics", "size", "--throughput", "80", "--consumers", "4")
    assert done.stdout.splitlines()[0] == "16 partitions"
    assert "moves keys" in done.stdout
    assert (
        json.loads(project.run("topics", "size", "--throughput", "9", "--consumers", "5", "--json").stdout)[
            "partitions"
        ]
        == 10
    )


def test_a_topic_from_birth_to_end(platform: Project, topic: Callable[..., str]) -> None:
    name = topic().replace("topic", "shell")
    run = platform.run
    made = run("topics", "create", name, "--partitions", "3", "--retention", "7d", "--compression", "zstd", "--json")
    assert json.loads(made.stdout)["config"] == {"compression.type": "zstd", "retention.ms": "604800000"}
    rows = "".join(f'{{"id": {number % 10}, "n": {number}}}\n' for number in range(50)) + '{"id": 3}\n' * 50
    sent = run("topics", "produce", name, "--key-field", "id", text=rows)
    assert sent.stdout == f"Sent 100 record(s) to {name}.\n"
    tailed = run("topics", "tail", name, "--from", "earliest", "--no-follow", "--json").stdout.splitlines()
    assert len(tailed) == 100
    assert {json.loads(line)["value"]["id"] for line in tailed} == set(range(10))
    assert run("topics", "tail", name, "--from", "-1", "--no-follow", "--format", "raw").stdout.count("\n") == 3
    assert run("topics", "tail", name, "--from", "1h", "-n", "7").stdout.count("\n") == 7
    described = json.loads(run("topics", "describe", name, "--json").stdout)
    assert described["sampled"] == 100
    assert [one["key"] for one in described["hot_keys"]] == ["3"]
    assert json.loads(run("topics", "alter", name, "--compact", "--unset", "retention.ms", "--json").stdout)[
        "config"
    ] == {
        "cleanup.policy": "compact",
        "compression.type": "zstd",
    }
    asked = run("topics", "alter", name, "--partitions", "6", text="n\n")
    assert asked.returncode == 130
    assert "moves keys" in asked.stderr
    assert run("topics", "alter", name, "--partitions", "6", "--yes").returncode == 0
    assert run("topics", "produce", name, "--tombstone", "--key", "3").returncode == 0
    listed = {one["name"]: one for one in json.loads(run("topics", "list", "--json").stdout)["topics"]}
    assert listed[name]["partitions"] == 6
    assert listed[name]["records"] == 101
    assert run("topics", "delete", name, text="n\n").returncode == 130
    assert run("topics", "delete", name, "--yes").stdout == f"Removed {name}.\n"
    gone = run("topics", "describe", name)
    assert gone.returncode == 2
    assert f"There is no topic '{name}'." in said(gone)


def test_a_topic_that_is_not_there_yet_is_waited_for(platform: Project, topic: Callable[..., str]) -> None:
    name = topic().replace("topic", "awaited")
    gone = platform.run("topics", "tail", name, "--no-follow")
    assert gone.returncode == 2
    assert f"There is no topic '{name}'." in said(gone)
    words = ("topics", "tail", name, "--from", "latest", "-n", "1", "--format", "raw")
    with subprocess.Popen(
        platform.command(*words), cwd=platform.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as tail:
        try:
            assert tail.stderr is not None
            assert tail.stderr.readline().endswith("Waiting for it; Ctrl-C ends.\n")
            assert platform.run("topics", "create", name).returncode == 0
            assert platform.run("topics", "produce", name, "--value", "first").returncode == 0
            assert tail.communicate(timeout=60)[0] == "first\n"
        finally:
            tail.kill()
    assert tail.returncode == 0


def test_mistakes_with_topics_are_sentences(platform: Project, topic: Callable[..., str]) -> None:
    name = topic("mistakes")
    for words, told in (
        (("create", name), "already exists"),
        (("create", "x" * 300), "longer than the max"),
        (("create", "bad name!"), "bad name!"),
        (("create", f"{name}-2", "--replication", "5"), "replication factor"),
        (("create", f"{name}-2", "--config", "no.such=1"), "no.such"),
        (("create", f"{name}-2", "--retention", "soon"), "write 7d, 12h"),
        (("describe", name[:-1]), f"Did you mean '{name}'?"),
        (("tail", name, "--from", "yesterday"), "write earliest, latest"),
        (("alter", name), "Nothing to change"),
        (("alter", name, "--partitions", "1", "--yes"), "can only add"),
        (("produce", name, "--key-field", "id", "--value", "no json"), "no field 'id'"),
    ):
        done = platform.run("topics", *words)
        assert done.returncode == 2, (words, done.stderr)
        assert told.lower() in said(done).lower(), (words, done.stderr)


def test_a_9_mb_message_is_refused_with_the_remedy_and_fits_after_it(
    platform: Project, topic: Callable[..., str]
) -> None:
    name = topic("large")
    large = secrets.token_hex(4_500_000)
    refused = platform.run("topics", "produce", name, text=large)
    assert refused.returncode == 2
    assert "larger than the topic takes" in said(refused)
    assert platform.run("topics", "alter", name, "--config", "max.message.bytes=10000000").returncode == 0
    assert platform.run("topics", "produce", name, text=large).returncode == 0
    assert len(platform.run("topics", "tail", name, "--no-follow", "--format", "raw").stdout) == len(large) + 1
