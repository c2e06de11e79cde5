"""A broker behind TLS and SASL: one profile opens it to the Python clients and to the Java services alike."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.broker import Producer, Topics, TransactionalProducer, read
from penstock.errors import SetupError
from penstock.local.jars import JarStore
from penstock.local.java import find_java
from penstock.local.ports import Claims, choose
from penstock.local.progress import Silent
from penstock.local.service import properties
from tests.conftest import Project, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
CANARY = "canary'pa$$ {word}"


@dataclass(frozen=True)
class Secured:
    """A running broker with one SASL_SSL door for strangers."""

    port: int
    ca_file: Path


def call(*words: object, **options: object) -> None:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    java, store = find_java().path, JarStore()
    store.ensure(["kafka"], Silent())
    keys, ca_file = folder / "keys.p12", folder / "ca.pem"
    keytool = java.resolve().with_name("keytool")
    common = ("-alias", "kafka", "-keystore", keys, "-storepass", "changeit")
    call(keytool, "-genkeypair", *common, "-keyalg", "RSA", "-dname", "CN=localhost", "-ext", "SAN=ip:127.0.0.1")
    call(keytool, "-exportcert", "-rfc", *common, "-file", ca_file)
    with Claims() as claims:
        ports = choose({"open": 19092, "tls": 19093, "controller": 19094}, claims, pinned={}, remembered={}, say=print)
    server = folder / "server.properties"
    properties(
        server,
        {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@127.0.0.1:{ports['controller']}",
            "listeners": f"PLAINTEXT://127.0.0.1:{ports['open']},SASL_SSL://127.0.0.1:{ports['tls']},"
            f"CONTROLLER://127.0.0.1:{ports['controller']}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL",
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "ssl.keystore.location": keys,
            "ssl.keystore.password": "changeit",
            "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": f"{_SCRAM} required;",
            "log.dirs": folder / "data",
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "group.initial.rebalance.delay.ms": 0,
        },
    )
    start: list[str | Path] = [java, "-Xmx256m", "-cp", store.class_path("kafka")]
    scram = f"SCRAM-SHA-512=[name=penstock,password={CANARY}]"
    call(
        *start, "kafka.tools.StorageTool", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAA", "-c", server, "--add-scram", scram
    )
    with (folder / "log").open("wb") as log:
        broker = subprocess.Popen([*start, "kafka.Kafka", server], stdout=log, stderr=subprocess.STDOUT)
    try:
        yield Secured(ports["tls"], ca_file)
    finally:
        broker.terminate()
        broker.wait(30)


@pytest.fixture
def profile(project: Project, secured: Secured, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("KAFKA_PASSWORD", CANARY)
    (project.folder / "penstock.toml").write_text(
        f"""
        profile = "secured"
        [profiles.secured.kafka]
        bootstrap = "127.0.0.1:{secured.port}"
        security_protocol = "SASL_SSL"
        sasl_mechanism = "SCRAM-SHA-512"
        username = "penstock"
        password = {{ env = "KAFKA_PASSWORD" }}
        ca_file = "{secured.ca_file}"
        """,
        encoding="utf-8",
    )
    return project


def test_python_clients_come_in(profile: Project) -> None:
    kafka = profile.settings.kafka
    wait_until(lambda: profile.run("topics", "list").returncode == 0, what="the secured broker answers")
    Topics(kafka).create("behind-tls")
    with Producer(kafka) as producer:
        producer.send("behind-tls", "one")
    transactional = TransactionalProducer(kafka, "behind-tls")
    with transactional.transaction():
        transactional.send("behind-tls", "two")
    assert [record.value for record in read(kafka, "behind-tls")] == [b"one", b"two"]


def test_a_wrong_password_is_one_sentence(profile: Project) -> None:
    done = profile.run("topics", "list", env={"KAFKA_PASSWORD": "wrong-canary"})
    assert done.returncode == 1
    assert "refuses us" in done.stderr
    assert "Check username, password and certificates" in done.stderr
    assert "canary" not in done.stderr + done.stdout
    text = (profile.folder / "penstock.toml").read_text().replace("KAFKA_PASSWORD", "KAFKA_NOWHERE")
    (profile.folder / "penstock.toml").write_text(text)
    with pytest.raises(SetupError, match="KAFKA_NOWHERE is not set"):
        Topics(profile.settings.kafka)


def test_java_services_come_in_and_the_password_is_nowhere_to_be_read(profile: Project) -> None:
    done = profile.run("up", "connect", "registry")
    assert done.returncode == 0, done.stderr
    assert set(profile.processes()) == {"connect", "registry"}
    words = [Path(f"/proc/{process.pid}/cmdline") for process in profile.processes().values()]
    files = [path for path in profile.home.rglob("*") if path.is_file() and not path.is_symlink()]
    found = [str(path) for path in (*words, *files) if b"canary" in path.read_bytes()]
    assert found == []
    assert "canary" not in done.stdout + done.stderr
    refused = profile.run("up", "kafka")
    assert refused.returncode == 2
    assert "Profile 'secured' points kafka at an existing one." in refused.stderr
