"""A capture as the configuration of a Debezium connector."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from penstock.broker.connection import java_options
from penstock.cdc.places import place_reference
from penstock.cdc.secrets import password_reference

if TYPE_CHECKING:
    from penstock.cdc.capture import Capture, Database
    from penstock.settings import Settings

__all__ = ["TOPICS", "connector_config", "worker_secret"]

_JSON = "org.apache.kafka.connect.json.JsonConverter"
_CLASSES = {
    "postgres": "io.debezium.connector.postgresql.PostgresConnector",
    "mysql": "io.debezium.connector.mysql.MySqlConnector",
    "mariadb": "io.debezium.connector.mariadb.MariaDbConnector",
}
_SNAPSHOTS = {"initial": "initial", "schema-only": "no_data", "never": "never"}
_WEEK = str(7 * 24 * 3600 * 1000)
TOPICS = {
    # A key's older changes go a week after they came: current rows can always be built anew.
    "latest": {"cleanup.policy": "compact", "min.compaction.lag.ms": _WEEK, "delete.retention.ms": _WEEK},
    "all": {"cleanup.policy": "delete", "retention.ms": "-1"},
}
# Values as text or whole numbers: nothing is rounded on the way.
_VALUES = {
    "decimal.handling.mode": "string",
    "time.precision.mode": "microseconds",
    "binary.handling.mode": "base64",
    "tombstones.on.delete": "true",
}

# A snapshot is one transaction after the other, each of what a poll gives: few and large ones are quick, still larger
# ones only fill the worker's memory.
_MUCH = {
    "max.batch.size": "4096",
    "max.queue.size": "8192",
    "snapshot.fetch.size": "4000",
    "extended.headers.enabled": "false",  # three on every record that nobody reads
    "producer.override.batch.size": str(512 << 10),
    "producer.override.linger.ms": "5",
    "producer.override.compression.type": "lz4",
}


def connector_config(capture: Capture, settings: Settings) -> dict[str, str]:
    """All that Connect is told; the password only as a reference that the worker resolves."""
    where = capture.database(settings)
    config = {
        "connector.class": _CLASSES[where.kind],
        "tasks.max": "1",
        "exactly.once.support": "required",
        "key.converter": _JSON,
        "key.converter.schemas.enable": "false",
        "value.converter": _JSON,
        "value.converter.schemas.enable": "false",
        "database.hostname": where.host,
        "database.port": _port(capture, where, settings),
        "database.user": where.user,
        "topic.prefix": capture.name,
        "table.include.list": ",".join(re.escape(table) for table in capture.declared.tables),
        "snapshot.mode": _SNAPSHOTS[capture.declared.snapshot],
        "heartbeat.interval.ms": str(capture.declared.heartbeat_seconds * 1000),
        "read.only": "true",  # snapshots on demand write nothing into the database
        "topic.creation.default.partitions": "1",
        "topic.creation.default.replication.factor": "-1",
        "poll.interval.ms": "100",  # each poll ends in a look at the offsets in Kafka, also an empty one
        **_MUCH,
        # A task that fails in a transaction waits for its end before it says so; each holds a poll's records only.
        "producer.override.transaction.timeout.ms": "15000",
        "skipped.operations": "none",  # that a table was emptied must be known
        "errors.max.retries": "-1",
        "errors.retry.delay.max.ms": "15000",
        **_VALUES,
        **(_postgres(capture, where) if where.kind == "postgres" else _mysql(capture, settings)),
    }
    if password := password_reference(capture, settings):
        config["database.password"] = password
    return {**config, **capture.declared.options}


def worker_secret(key: str) -> str:
    """The variable in which a worker of ours finds a secret of its Kafka clients."""
    return f"PENSTOCK_CONNECT_{key}".upper().replace(".", "_")


def _port(capture: Capture, where: Database, settings: Settings) -> str:
    """The port, or where the worker finds it: that of the local PostgreSQL may be another after the next start."""
    declared = capture.declared
    if where.kind == "postgres" and declared.host is None and declared.port is None:
        return place_reference("postgres", where.port, settings)
    return str(where.port)


def _postgres(capture: Capture, where: Database) -> dict[str, str]:
    unchanged = {} if capture.declared.before == "full" else _RESELECT
    ssl = {"database.sslmode": where.sslmode} if where.sslmode else {}
    return {
        "database.dbname": where.name,
        "plugin.name": "pgoutput",
        "slot.name": capture.slot,
        "publication.name": capture.slot,
        "publication.autocreate.mode": "disabled",
        "offset.mismatch.strategy": "trust_offset",  # a slot that was made anew is an error, not a gap
        "interval.handling.mode": "string",
        "hstore.handling.mode": "json",
        # A message in the log itself: the slot moves on while nobody changes a captured table. In a transaction, as a
        # snapshot on demand looks at the number of it.
        "heartbeat.action.query": "SELECT pg_logical_emit_message(true, 'penstock', 'heartbeat')",
        "message.prefix.exclude.list": "penstock",
        **unchanged,
        **ssl,
    }


# A large value that an update leaves alone is not in the log: it is asked for.
_RESELECT = {
    "post.processors": "reselector",
    "reselector.type": "io.debezium.processors.reselect.ReselectColumnsPostProcessor",
    "reselector.reselect.null.values": "false",
}


def _mysql(capture: Capture, settings: Settings) -> dict[str, str]:
    security = _security(settings)
    history = "schema.history.internal"
    clients = {f"{history}.{side}.{key}": value for side in ("producer", "consumer") for key, value in security.items()}
    databases = sorted({table.schema for table in capture.tables})
    return {
        "database.include.list": ",".join(re.escape(one) for one in databases),
        "database.server.id": str(int(hashlib.sha256(capture.name.encode()).hexdigest()[:7], 16) + 10_000),
        "include.schema.changes": "false",
        "connect.keep.alive.interval.ms": "5000",
        f"{history}.kafka.topic": f"{capture.name}-schema-history",
        f"{history}.kafka.bootstrap.servers": place_reference("kafka", settings.kafka.bootstrap, settings),
        f"{history}.store.only.captured.tables.ddl": "true",
        **clients,
    }


def _security(settings: Settings) -> dict[str, str]:
    """How the connector's own Kafka clients get in: secrets as references to the worker's environment."""
    options, secrets = java_options(settings.kafka)
    return options | {key: f"${{env:{worker_secret(key)}}}" for key in secrets}
