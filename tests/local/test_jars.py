"""Jars from a registry in a folder: the same Ivy, the same lock, no network."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from penstock.errors import SetupError
from penstock.local import jars
from penstock.local.jars import JarStore, components, locked
from penstock.local.progress import Silent

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ("debezium-postgres", "debezium-mysql")


class Listener(Silent):
    def __init__(self) -> None:
        self.said: list[str] = []
        self.seen: list[float] = []

    def say(self, sentence: str) -> None:
        self.said.append(sentence)

    def update(self, task: str, done: float, total: float, note: str = "") -> None:
        self.seen.append(done / total)


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A registry of our own, named by an Ivy settings file as a user would."""
    folder = tmp_path / "registry"
    own = JarStore()
    own.ensure(NAMES, Silent())
    for jar in {jar for name in NAMES for jar in locked(name)}:
        one = jar.coordinate
        place = folder / one.group.replace(".", "/") / one.artifact / one.version
        place.mkdir(parents=True, exist_ok=True)
        shutil.copy(own.path(jar), place / jar.file_name)
    settings = tmp_path / "ivysettings.xml"
    settings.write_text(
        f"""<ivysettings><settings defaultResolver="own"/><resolvers>
        <filesystem name="own" m2compatible="true">
        <artifact pattern="{folder}/[organisation]/[module]/[revision]/[artifact]-[revision](-[classifier]).[ext]"/>
        </filesystem></resolvers></ivysettings>""",
        encoding="utf-8",
    )
    monkeypatch.setenv("PENSTOCK_IVY_SETTINGS", str(settings))
    return folder


def test_every_component_is_locked_with_hashes_and_no_name_stands_for_two_files() -> None:
    known: dict[str, str] = {}
    for component in components():
        found = locked(component)
        assert found, component
        for jar in found:
            assert len(jar.sha256) == 64
            assert known.setdefault(jar.file_name, jar.sha256) == jar.sha256


def test_jars_are_fetched_with_progress_and_never_twice(tmp_path: Path, registry: Path) -> None:
    store, listener = JarStore(tmp_path / "cache"), Listener()
    store.ensure(NAMES, listener)
    assert store.missing(NAMES) == []
    assert store.damaged(NAMES) == []
    assert listener.seen[-1] == 1.0
    assert not list((store.folder / "fetching").iterdir())
    shutil.rmtree(registry)
    store.ensure(NAMES, Silent())


def test_a_truncated_jar_is_said_and_fetched_again(tmp_path: Path, registry: Path) -> None:
    store, listener = JarStore(tmp_path / "cache"), Listener()
    store.ensure(NAMES, Silent())
    victim = store.path(locked(NAMES[0])[0])
    whole = victim.read_bytes()
    victim.write_bytes(whole[: len(whole) // 2])
    store.ensure(NAMES, listener)
    assert victim.read_bytes() == whole
    assert listener.said == [f"{victim.name} is truncated in {store.jars}; fetching it again."]


def test_a_jar_with_changed_bytes_is_found(tmp_path: Path, registry: Path) -> None:
    store = JarStore(tmp_path / "cache")
    store.ensure(NAMES, Silent())
    jar = locked(NAMES[0])[0]
    data = bytearray(store.path(jar).read_bytes())
    data[100] ^= 1
    store.path(jar).write_bytes(data)
    assert store.damaged(NAMES) == [jar]


def test_a_registry_that_gives_other_bytes_is_refused(tmp_path: Path, registry: Path) -> None:
    jar = locked(NAMES[0])[0]
    (victim,) = registry.rglob(jar.file_name)
    victim.write_bytes(b"x" * jar.size)
    with pytest.raises(SetupError, match="other bytes than the locked ones"):
        JarStore(tmp_path / "cache").ensure(NAMES, Silent())


def test_what_a_broken_fetch_brought_is_kept(tmp_path: Path, registry: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = JarStore(tmp_path / "cache")
    jar = max(locked(NAMES[0]))
    (absent,) = registry.rglob(jar.file_name)
    absent.rename(tmp_path / "aside")
    with pytest.raises(
        SetupError, match=r"1 jar\(s\) of debezium-postgres could not be fetched.*PENSTOCK_IVY_SETTINGS"
    ):
        store.ensure(NAMES[:1], Silent())
    kept = len(store.missing(NAMES[:1]))
    for other in registry.rglob("*.jar"):  # what was fetched before must not be asked for again
        other.unlink()
    (tmp_path / "aside").rename(absent)
    store.ensure(NAMES[:1], Silent())
    assert store.missing(NAMES[:1]) == []
    assert kept >= 1


def test_a_settings_file_that_is_not_there_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_IVY_SETTINGS", str(tmp_path / "nowhere.xml"))
    with pytest.raises(SetupError, match="which is not a file"):
        JarStore(tmp_path / "cache").ensure(NAMES, Silent())


def test_the_cache_is_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path))
    assert jars.default_cache() == tmp_path
    monkeypatch.delenv("PENSTOCK_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert jars.default_cache() == tmp_path / "penstock"
