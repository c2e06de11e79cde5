from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.broker.connection import client_options, java_options
from penstock.errors import DeclarationError, SetupError
from penstock.settings import find_project, load

if TYPE_CHECKING:
    from pathlib import Path

SECURED = """
profile = "production"

[profiles.production.kafka]
bootstrap = "one:9093,two:9093"
security_protocol = "SASL_SSL"
sasl_mechanism = "SCRAM-SHA-512"
username = "penstock"
password = { env = "KAFKA_SECRET" }
ca_file = "/etc/ca.pem"

[profiles.production.kafka.options]
"socket.keepalive.enable" = "true"

[profiles.production.registry]
url = "https://registry.example"
username = "reader"
password = { file = "registry.secret" }
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("PENSTOCK_PROFILE", raising=False)
    return tmp_path


def write(folder: Path, text: str) -> None:
    (folder / "penstock.toml").write_text(text, encoding="utf-8")


def test_without_a_file_everything_is_local(folder: Path) -> None:
    settings = load(project=folder)
    assert settings.profile == "local"
    assert settings.external == frozenset()
    assert settings.kafka.bootstrap == "127.0.0.1:9092"


def test_a_profile_points_at_existing_services(folder: Path) -> None:
    write(folder, SECURED)
    settings = load(project=folder)
    assert settings.external == {"kafka", "registry"}
    assert settings.kafka.bootstrap == "one:9093,two:9093"
    assert settings.connect.url == "http://127.0.0.1:8083"
    assert load(project=folder, profile="local").external == frozenset()


def test_security_reaches_python_and_java_clients(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder, SECURED)
    monkeypatch.setenv("KAFKA_SECRET", 'pa"ss\\word')
    kafka = load(project=folder).kafka
    python = client_options(kafka)
    assert python["sasl.password"] == 'pa"ss\\word'
    assert python["socket.keepalive.enable"] == "true"
    options, secrets = java_options(kafka)
    assert options["security.protocol"] == "SASL_SSL"
    assert options["ssl.truststore.location"] == "/etc/ca.pem"
    assert 'password="pa\\"ss\\\\word";' in secrets["sasl.jaas.config"]
    assert not any("ss" in value and "word" in value for value in options.values())


def test_secrets_are_never_printed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder, SECURED)
    monkeypatch.setenv("KAFKA_SECRET", "canary-1")
    (folder / "registry.secret").write_text("canary-2\n", encoding="utf-8")
    settings = load(project=folder)
    assert "canary" not in repr(settings)
    assert str(settings.kafka.password) == "<secret in KAFKA_SECRET>"


def test_a_secret_that_is_not_set_says_where_it_was_looked_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAFKA_SECRET", raising=False)
    write(folder, SECURED)
    with pytest.raises(SetupError, match="variable KAFKA_SECRET is not set"):
        client_options(load(project=folder).kafka)


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("[profiles.p.kafka]\nbootstrap = 'x:1'\nboostrap = 'x:1'", 3, "Did you mean 'bootstrap'?"),
        ("[locl]\nbrokers = 3", 1, "Did you mean 'local'?"),
        ("[profiles.p.kafca]\nbootstrap = 'x:1'", 1, "Did you mean 'kafka'?"),
        ("[local.ports]\nkafak = 1", 2, "Did you mean 'kafka'?"),
        ("[local.heap]\nkafak = '1g'", 2, "Did you mean 'kafka'?"),
        ("[local]\nbrokers = 2", 2, "Write 1 or 3."),
        ("[local]\nbrokers = 'three'", 2, "must be a whole number"),
        ("[local.ports]\nkafka = 'a'", 2, "must be a whole number"),
    ],
)
def test_a_wrong_key_is_named_with_its_line(folder: Path, text: str, line: int, said: str) -> None:
    write(folder, text)
    with pytest.raises(DeclarationError) as caught:
        load(project=folder, profile="p" if "profiles.p" in text else None)
    assert f"penstock.toml:{line}" in str(caught.value)
    assert said in str(caught.value)


@pytest.mark.parametrize("key", ["password = 'hunter2'", "options = { 'sasl.jaas.config' = 'hunter2' }"])
def test_a_secret_written_out_is_refused_and_not_repeated(folder: Path, key: str) -> None:
    write(folder, f"[profiles.p.kafka]\nbootstrap = 'x:1'\n{key}")
    with pytest.raises(DeclarationError, match="reference to a secret") as caught:
        load(project=folder, profile="p")
    assert "hunter2" not in str(caught.value)


def test_a_missing_key_an_unknown_profile_and_broken_toml_are_refused(folder: Path) -> None:
    write(folder, "[profiles.p.kafka]\nusername = 'x'")
    with pytest.raises(DeclarationError, match="bootstrap is missing"):
        load(project=folder, profile="p")
    with pytest.raises(DeclarationError, match=r"no profile 'q'.*Known profiles: local, p"):
        load(project=folder, profile="q")
    write(folder, "[profiles")
    with pytest.raises(DeclarationError, match="can't be read"):
        load(project=folder)


def test_the_environment_wins_over_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder, SECURED)
    monkeypatch.setenv("PENSTOCK_KAFKA_BOOTSTRAP", "other:1")
    monkeypatch.setenv("PENSTOCK_KAFKA_PASSWORD", "canary")
    settings = load(project=folder)
    assert settings.kafka.bootstrap == "other:1"
    assert "canary" not in repr(settings)
    assert client_options(settings.kafka)["sasl.password"] == "canary"


def test_the_project_is_found_upwards(folder: Path) -> None:
    write(folder, "")
    below = folder / "a" / "b"
    below.mkdir(parents=True)
    assert find_project(below) == folder
