"""One frozen `Settings` out of `penstock.toml`, the environment and flags; secrets by reference only."""

from __future__ import annotations

import dataclasses
import difflib
import json
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from penstock.errors import DeclarationError, SetupError

__all__ = [
    "Capture",
    "Connect",
    "Kafka",
    "Lake",
    "Local",
    "OpenSearch",
    "Postgres",
    "Registry",
    "Secret",
    "Settings",
    "load",
]

FILE = "penstock.toml"
HOME = ".penstock"
USUAL_PORTS: Mapping[str, int] = MappingProxyType(
    {"kafka": 9092, "postgres": 5432, "connect": 8083, "registry": 8081, "opensearch": 9200}
)
KAFKA_NODES = ("kafka", "kafka-2", "kafka-3")
_PORTS = {*USUAL_PORTS, *KAFKA_NODES, *(f"{name}-controller" for name in KAFKA_NODES), "opensearch-transport"}
_SECRET_NAME = re.compile(r"password|secret|token|jaas|credential|private", re.IGNORECASE)
_Section = TypeVar("_Section")


@dataclass(frozen=True)
class Secret:
    """A reference to a value that is kept elsewhere; it never prints the value."""

    env: str | None = None
    file: str | None = None

    def reveal(self) -> str:
        """Return the value itself; call it as late as possible."""
        if self.env is not None:
            if (value := os.environ.get(self.env)) is not None:
                return value
            problem = f"The secret in variable {self.env} is not set."
        else:
            try:
                return Path(self.file or "").expanduser().read_text(encoding="utf-8").strip()
            except OSError as error:
                problem = f"The secret in file {self.file} can't be read ({error.strerror})."
        raise SetupError(problem, code="secret-missing", remedy="Set it, or correct the reference in penstock.toml.")

    def __str__(self) -> str:
        return f"<secret in {self.env or self.file}>"


Options = Mapping[str, "str | Secret"]


@dataclass(frozen=True)
class Kafka:
    """How to reach Kafka; the same words serve the Python and the Java clients."""

    bootstrap: str
    security_protocol: str | None = None
    sasl_mechanism: str | None = None
    username: str | None = None
    password: Secret | None = None
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    key_password: Secret | None = None
    options: Options = field(default_factory=dict)
    python_options: Options = field(default_factory=dict)
    java_options: Options = field(default_factory=dict)
    cluster: str | None = None  # the id of the one that is meant; another is refused


@dataclass(frozen=True)
class Registry:
    """How to reach a schema registry that speaks Confluent's API."""

    url: str
    username: str | None = None
    password: Secret | None = None
    ca_file: str | None = None


@dataclass(frozen=True)
class Connect:
    """How to reach Kafka Connect's REST interface."""

    url: str
    username: str | None = None
    password: Secret | None = None
    ca_file: str | None = None


@dataclass(frozen=True)
class Postgres:
    """How to reach PostgreSQL."""

    host: str
    port: int = 5432
    database: str = "penstock"
    user: str = "penstock"
    password: Secret | None = None
    sslmode: str | None = None

    @property
    def url(self) -> str:
        """The address without the password."""
        return f"postgresql://{self.user}@{self.host}:{self.port}/{self.database}"


@dataclass(frozen=True)
class OpenSearch:
    """How to reach OpenSearch."""

    url: str
    username: str | None = None
    password: Secret | None = None
    ca_file: str | None = None


@dataclass(frozen=True)
class Lake:
    """Where tables of files lie, and the Iceberg catalog that knows them (PyIceberg's own options)."""

    warehouse: str
    catalog: Options = field(default_factory=dict)


@dataclass(frozen=True)
class Capture:
    """Tables of a database whose changes are captured; without a host those of the profile's PostgreSQL.

    `password_on_worker` is for a Connect that runs elsewhere: a reference that its workers resolve by themselves.
    """

    tables: tuple[str, ...]
    kind: str = "postgres"
    host: str | None = None
    port: int | None = None
    database: str | None = None
    user: str | None = None
    password: Secret | None = None
    password_on_worker: str | None = None
    sslmode: str | None = None
    snapshot: str = "initial"
    before: str = "full"
    schema_changes: str = "evolve"
    keep: str = "latest"
    partitions: int = 4
    heartbeat_seconds: int = 5
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Local:
    """What a person may set about the services on this machine."""

    brokers: int | None = None
    ports: Mapping[str, int] = field(default_factory=dict)
    heap: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Settings:
    """Everything that is configured, with the local services where nothing else is named."""

    project: Path
    profile: str
    kafka: Kafka
    registry: Registry
    connect: Connect
    postgres: Postgres
    opensearch: OpenSearch
    lake: Lake
    local: Local
    spark: Mapping[str, str]
    captures: Mapping[str, Capture]
    external: frozenset[str]

    @property
    def home(self) -> Path:
        """The folder that holds the state of the local services."""
        return self.project / HOME


_SECTIONS = {
    "kafka": Kafka,
    "registry": Registry,
    "connect": Connect,
    "postgres": Postgres,
    "opensearch": OpenSearch,
    "lake": Lake,
}


def find_project(start: Path) -> Path:
    """The nearest folder upwards with a penstock.toml or a .penstock, else the one we stand in."""
    for folder in (start, *start.parents):
        if (folder / FILE).is_file() or (folder / HOME).is_dir():
            return folder
    return start


def load(project: Path | None = None, profile: str | None = None) -> Settings:
    """Read the settings of a project folder; flags win over the environment, which wins over the file."""
    folder = (project or find_project(Path.cwd())).resolve()
    read = _File(folder / FILE)
    read.refuse_unknown(read.content, {"profile", "profiles", "local", "spark", "captures"}, "")
    profiles = read.table(read.content, "profiles", "")
    name = profile or os.environ.get("PENSTOCK_PROFILE") or str(read.content.get("profile", "local"))
    if name != "local" and name not in profiles:
        known = ", ".join(sorted({"local", *profiles}))
        raise DeclarationError(
            f"There is no profile {name!r}.",
            code="profile-unknown",
            place=str(read.path),
            remedy=f"Known profiles: {known}. Add [profiles.{name}] or name another one.",
        )
    for each in profiles:
        read.refuse_unknown(read.table(profiles, each, "profiles."), {*_SECTIONS, "spark"}, f"profiles.{each}.")
    chosen = read.table(profiles, name, "profiles.") if name in profiles else {}
    named = {section: values for section in _SECTIONS if (values := _values(read, chosen, section, name))}
    local = read.section(Local, read.table(read.content, "local", ""), "local.")
    read.refuse_unknown(local.ports, _PORTS, "local.ports.")
    read.refuse_unknown(local.heap, set(USUAL_PORTS) - {"postgres"}, "local.heap.")
    if local.brokers not in (None, 1, len(KAFKA_NODES)):
        raise read.wrong("local.brokers", f"local.brokers can't be {local.brokers}.", "Write 1 or 3.")
    here = _local_addresses(folder)
    parts: dict[str, Any] = {
        section: read.section(kind, named.get(section, here[section]), f"profiles.{name}.{section}.")
        for section, kind in _SECTIONS.items()
    }
    spark = {**read.spark(read.content, ""), **read.spark(chosen, f"profiles.{name}.")}
    captures = read.table(read.content, "captures", "")
    parts["captures"] = MappingProxyType(
        {each: read.section(Capture, read.table(captures, each, "captures."), f"captures.{each}.") for each in captures}
    )
    return Settings(project=folder, profile=name, local=local, spark=spark, external=frozenset(named), **parts)


def local_state(project: Path) -> dict[str, Any]:
    """What the local services remember: their ports and the number of brokers."""
    try:
        state = json.loads((project / HOME / "state.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return state if isinstance(state, dict) else {}


def _local_addresses(project: Path) -> dict[str, dict[str, Any]]:
    state = local_state(project)
    ports = {**USUAL_PORTS, **state.get("ports", {})}
    brokers = [ports[name] for name in KAFKA_NODES[: state.get("brokers", 1)] if name in ports]
    cluster = {"cluster": state["cluster"]} if "cluster" in state else {}
    return {
        "kafka": {"bootstrap": ",".join(f"127.0.0.1:{port}" for port in brokers), **cluster},
        "registry": {"url": f"http://127.0.0.1:{ports['registry']}/apis/ccompat/v7"},
        "connect": {"url": f"http://127.0.0.1:{ports['connect']}"},
        "postgres": {"host": "127.0.0.1", "port": ports["postgres"]},
        "opensearch": {"url": f"http://127.0.0.1:{ports['opensearch']}"},
        "lake": {"warehouse": str(project / HOME / "lake")},
    }


def _values(read: _File, chosen: Mapping[str, Any], section: str, profile: str) -> dict[str, Any]:
    """A section's values of the file, with PENSTOCK_<SECTION>_<KEY> of the environment over them."""
    values = dict(read.table(chosen, section, f"profiles.{profile}."))
    for name, kind in get_type_hints(_SECTIONS[section]).items():
        variable = f"PENSTOCK_{section}_{name}".upper()
        if variable in os.environ:
            values[name] = {"env": variable} if Secret in get_args(kind) else _as(kind, os.environ[variable])
    return values


def _as(kind: object, text: str) -> str | int:
    return int(text) if kind is int and text.isdigit() else text


class _File:
    """A penstock.toml that knows where each of its keys stands."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.text = ""
        self.content: dict[str, Any] = {}
        if not path.exists():
            return
        try:
            self.text = path.read_text(encoding="utf-8")
            self.content = tomllib.loads(self.text)
        except (OSError, ValueError) as error:
            raise DeclarationError(
                f"The file can't be read ({error}).",
                code="settings-unreadable",
                place=str(path),
                remedy="Correct it: it is TOML.",
            ) from error

    def wrong(self, key: str, problem: str, remedy: str) -> DeclarationError:
        """An error that points at a key's line."""
        last = re.escape(key.rpartition(".")[2])
        lines = self.text.splitlines()
        pattern = re.compile(rf'^\s*(\[.*\b{last}\]|"?{last}"?\s*=)')
        at = next((f":{number}" for number, line in enumerate(lines, 1) if pattern.match(line)), "")
        return DeclarationError(problem, code="settings-wrong", place=f"{self.path}{at}", remedy=remedy)

    def table(self, values: Mapping[str, Any], key: str, prefix: str) -> dict[str, Any]:
        """The sub-table of that name, empty if absent."""
        found = values.get(key, {})
        if not isinstance(found, dict):
            raise self.wrong(key, f"{prefix}{key} is not a table.", f"Write [{prefix}{key}] with keys below it.")
        return found

    def spark(self, values: Mapping[str, Any], prefix: str) -> dict[str, str]:
        """Spark's own settings, which win over ours: `"spark.driver.memory" = "8g"`."""
        found = {}
        for key, value in self.table(values, "spark", prefix).items():
            if not key.startswith("spark.") or not isinstance(value, str | int | bool):
                remedy = 'Write Spark\'s own name in quotes: "spark.driver.memory" = "8g".'
                raise self.wrong(key, f"{prefix}spark.{key} is not a setting of Spark.", remedy)
            found[key] = str(value).lower() if isinstance(value, bool) else str(value)
        return found

    def refuse_unknown(self, values: Mapping[str, Any], known: set[str], prefix: str) -> None:
        """Refuse a key that nothing reads, and name the nearest one that is read."""
        for key in values:
            if key not in known:
                near = difflib.get_close_matches(key, known, 1)
                remedy = f"Did you mean {near[0]!r}?" if near else f"Known keys: {', '.join(sorted(known))}."
                raise self.wrong(key, f"{prefix}{key} is not a setting.", remedy)

    def section(self, kind: type[_Section], values: Mapping[str, Any], prefix: str) -> _Section:
        """Make a section, every key known and of its type."""
        hints = get_type_hints(kind)
        self.refuse_unknown(values, set(hints), prefix)
        for one in dataclasses.fields(kind):  # type: ignore[arg-type]
            if one.name not in values and one.default is one.default_factory is dataclasses.MISSING:
                raise self.wrong(prefix.strip("."), f"{prefix}{one.name} is missing.", "Add it.")
        made = {key: self._value(hints[key], value, prefix + key) for key, value in values.items()}
        return kind(**made)

    def _value(self, kind: object, value: Any, key: str) -> Any:
        if get_origin(kind) is Mapping:
            if not isinstance(value, dict):
                raise self.wrong(key, f"{key} is not a table.", "Write it as a table of names and values.")
            part = get_args(kind)[1]
            return MappingProxyType({name: self._value(part, one, f"{key}.{name}") for name, one in value.items()})
        if get_origin(kind) is tuple:
            if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
                raise self.wrong(key, f"{key} must be a list of texts.", f'Write {key.rpartition(".")[2]} = ["…"].')
            return tuple(value)
        choices = get_args(kind) or (kind,)
        if Secret in choices:
            return self._secret(value, key, allow_plain=str in choices)
        plain = int if int in choices else str
        if not isinstance(value, plain) or isinstance(value, bool):
            raise self.wrong(key, f"{key} must be {'a whole number' if plain is int else 'text'}.", "Correct it.")
        return value

    def _secret(self, value: Any, key: str, *, allow_plain: bool) -> str | Secret:
        reference = isinstance(value, dict) and len(value) == 1 and next(iter(value)) in ("env", "file")
        if reference:
            return Secret(**value)
        if allow_plain and isinstance(value, str) and not _SECRET_NAME.search(key):
            return value
        raise self.wrong(
            key,
            f"{key} must be a reference to a secret, never the secret itself.",
            'Write { env = "VARIABLE" } or { file = "/path" }.',
        )
