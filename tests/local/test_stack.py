"""The services themselves: what starts, what it listens on, what survives a stop."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from typing import TYPE_CHECKING, Any

import psycopg

from penstock.broker import Producer, Topics, read
from penstock.local.progress import Silent
from tests.conftest import Project, own_ports, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.settings import Kafka


def call(url: str, body: Any = None, method: str = "GET") -> Any:
    data = None if body is None else json.dumps(body).encode()
    head = {"Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(url, data, head, method=method), timeout=30) as answer:
        return json.load(answer)


def listening(pids: set[int]) -> set[str]:
    """The addresses that processes listen on, as the kernel tells them."""
    out = subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True, check=True).stdout
    lines = [line for line in out.splitlines() if any(f"pid={pid}," in line for pid in pids)]
    return {line.split()[3].rpartition(":")[0] for line in lines}


def test_all_services_are_the_promised_ones(platform: Project) -> None:
    settings = platform.settings
    assert {one.name: one.state for one in platform.stack.status()} == dict.fromkeys(
        ("kafka", "postgres", "opensearch", "registry", "connect"), "up"
    )
    with psycopg.connect(settings.postgres.url) as database:
        assert database.execute("SHOW wal_level").fetchone() == ("logical",)
        version = database.execute("SHOW server_version").fetchone()
        assert version is not None
        assert version[0].startswith("18")
    assert call(settings.opensearch.url)["version"]["number"] == "2.19.1"
    assert call(settings.connect.url)["version"] == "4.3.1"
    plugins = {one["class"]: one["version"] for one in call(f"{settings.connect.url}/connector-plugins")}
    assert plugins == {
        "io.debezium.connector.postgresql.PostgresConnector": "3.6.1.Final",
        "io.debezium.connector.mysql.MySqlConnector": "3.6.1.Final",
        "io.debezium.connector.mariadb.MariaDbConnector": "3.5.0.Final",
    }
    assert call(f"{settings.registry.url}/config") == {"compatibilityLevel": "BACKWARD"}


def test_everything_listens_on_loopback_only(platform: Project) -> None:
    pids = {process.pid for process in platform.processes().values()}
    assert listening(pids) <= {"127.0.0.1", "[::ffff:127.0.0.1]"}
    assert listening(pids)


def test_only_what_is_needed_is_started_and_data_survives_down_and_up(project: Project) -> None:
    # less than what Kafka begins with usually: a heap that was chosen bounds that too
    heap = '[local.heap]\nkafka = "192m"\n'
    ports = own_ports("kafka", "kafka-controller", "registry")
    (project.folder / "penstock.toml").write_text(heap + ports, encoding="utf-8")
    stack = project.stack
    stack.up(("registry",), Silent())
    assert set(project.processes()) == {"kafka", "registry"}
    state = project.home / "state.json"
    remembered = json.loads(state.read_text())["ports"]
    Topics(project.settings.kafka).create("kept")
    with Producer(project.settings.kafka) as producer:
        producer.send("kept", {"n": 1}, "key")
    schema = {"schema": '{"type":"record","name":"R","fields":[{"name":"n","type":"int"}]}'}
    call(f"{project.settings.registry.url}/subjects/kept-value/versions", schema, "POST")
    assert stack.down(Silent()) == ["kafka", "registry"]
    assert project.processes() == {}
    (project.folder / "penstock.toml").write_text(heap, encoding="utf-8")
    project.stack.up(("registry",), Silent())
    assert json.loads(state.read_text())["ports"] == remembered
    assert [record.json() for record in read(project.settings.kafka, "kept")] == [{"n": 1}]
    assert call(f"{project.settings.registry.url}/subjects") == ["kept-value"]
    project.stack.down(Silent(), remove_data=True)
    assert not (project.home / "data").exists()
    assert not state.exists()


def test_three_brokers_replicate_and_survive_the_loss_of_any_one(project: Project) -> None:
    brokers = ("kafka", "kafka-2", "kafka-3")
    ports = own_ports(*brokers, *(f"{name}-controller" for name in brokers))
    (project.folder / "penstock.toml").write_text(ports, encoding="utf-8")
    project.stack.up(("kafka",), Silent(), brokers=3)
    kafka = project.settings.kafka
    assert len(kafka.bootstrap.split(",")) == 3
    topics = Topics(kafka)
    topics.create("replicated", partitions=3)
    made = topics.describe("replicated")
    assert made.replication == 3
    sent = 0
    for victim in brokers:
        process = project.processes()[victim]
        process.signal(9)
        assert process.wait(20)
        assert _state(project) == "in part"
        with Producer(kafka) as producer:
            for _ in range(100):
                producer.send("replicated", str(sent), str(sent))
                sent += 1
        project.stack.up(("kafka",), Silent())
        wait_until(lambda: all(len(one.in_sync) == 3 for one in topics.describe("replicated").partitions))
    assert sorted(int(record.value or b"") for record in read(kafka, "replicated")) == list(range(sent))
    refused = project.run("up", "kafka", "--brokers", "1")
    assert refused.returncode == 1
    assert "made for 3 broker(s), not 1. Use --brokers 3" in refused.stderr


def _state(project: Project) -> str:
    return next(one.state for one in project.stack.status() if one.name == "kafka")


def test_debezium_captures_a_table_and_its_java_client_places_keys_as_we_do(
    platform: Project, kafka: Kafka, topic: Callable[..., str]
) -> None:
    from penstock.broker import java_partition

    settings = platform.settings
    name = topic("capture").replace("-", "_")
    with psycopg.connect(settings.postgres.url, autocommit=True) as database:
        database.execute(f"CREATE TABLE {name} (id int PRIMARY KEY, word text)")
        database.execute(f"INSERT INTO {name} SELECT n, 'word ' || n FROM generate_series(1, 200) n")
    config = {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "database.hostname": settings.postgres.host,
        "database.port": str(settings.postgres.port),
        "database.user": settings.postgres.user,
        "database.password": "any",
        "database.dbname": settings.postgres.database,
        "plugin.name": "pgoutput",
        "slot.name": name,
        "publication.name": name,
        "publication.autocreate.mode": "filtered",
        "table.include.list": f"public.{name}",
        "topic.prefix": "shop",
        "topic.creation.default.partitions": "5",
        "topic.creation.default.replication.factor": "1",
        "exactly.once.support": "required",
    }
    captured = f"shop.public.{name}"
    call(f"{settings.connect.url}/connectors", {"name": name, "config": config}, "POST")
    try:
        wait_until(lambda: captured in Topics(kafka).names() and Topics(kafka).describe(captured).records >= 200)
        records = list(read(kafka, captured))
        assert {record.json()["after"]["id"] for record in records} == set(range(1, 201))
        assert {record.partition for record in records} == set(range(5))
        for record in records:
            assert record.partition == java_partition(record.key or b"", 5)
    finally:
        request = urllib.request.Request(f"{settings.connect.url}/connectors/{name}", method="DELETE")
        urllib.request.urlopen(request, timeout=30).close()


def test_the_stack_is_the_same_for_every_process_of_the_project(platform: Project) -> None:
    code = (
        "from penstock.local.stack import Stack; from penstock.settings import load; print(len(Stack(load()).status()))"
    )
    below = platform.folder / "pipelines"
    below.mkdir(exist_ok=True)
    done = subprocess.run([sys.executable, "-c", code], cwd=below, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "5"
    assert not (below / ".penstock").exists()
