"""One description of Kafka, told to the Python clients (librdkafka) and to the Java ones in their own words."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from confluent_kafka import KafkaException

from penstock.errors import DeclarationError, PenstockError, SetupError, TransientError
from penstock.settings import Secret

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka import KafkaError

    from penstock.settings import Kafka

__all__ = ["client_options", "connect", "java_options", "kafka_error"]

_Client = TypeVar("_Client")
_BUSY = (
    "NOT_LEADER_FOR_PARTITION",
    "LEADER_NOT_AVAILABLE",
    "UNKNOWN_LEADER_EPOCH",
    "FENCED_LEADER_EPOCH",
    "NOT_ENOUGH_REPLICAS",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    "_WAIT_COORD",
    "NOT_COORDINATOR",
    "COORDINATOR_NOT_AVAILABLE",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "REBALANCE_IN_PROGRESS",
    "ILLEGAL_GENERATION",
    "UNKNOWN_MEMBER_ID",
)
_LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


def client_options(kafka: Kafka) -> dict[str, Any]:
    """What a confluent_kafka client takes, secrets revealed."""
    named = {
        "bootstrap.servers": kafka.bootstrap,
        "security.protocol": kafka.security_protocol,
        "sasl.mechanism": kafka.sasl_mechanism,
        "sasl.username": kafka.username,
        "sasl.password": kafka.password,
        "ssl.ca.location": kafka.ca_file,
        "ssl.certificate.location": kafka.certificate_file,
        "ssl.key.location": kafka.key_file,
        "ssl.key.password": kafka.key_password,
        **kafka.options,
        **kafka.python_options,
    }
    options: dict[str, Any] = {key: _plain(value) for key, value in named.items() if value is not None}
    # The client's own lines on stderr say again, and less clearly, what its errors say.
    # Half of the shorter pause is waited before a new client's second connection, so before its first answer.
    return {"log_level": 0, "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 2000, **options}


def connect(make: Callable[[dict[str, Any]], _Client], options: dict[str, Any]) -> _Client:
    """Make a client of confluent_kafka; an option that it does not take is named."""
    try:
        return make(options)
    except KafkaException as error:
        raise DeclarationError(
            f"Kafka's client does not take its options ({error.args[0].str()}).",
            code="kafka-option",
            remedy="Correct the profile's options in penstock.toml, or those given in the code.",
        ) from error


def java_options(kafka: Kafka) -> tuple[dict[str, str], dict[str, str]]:
    """What a Java client takes besides the bootstrap list: the open part, and the secret part by itself."""
    options: dict[str, str] = {}
    secrets: dict[str, str] = {}
    if kafka.security_protocol:
        options["security.protocol"] = kafka.security_protocol
    if kafka.sasl_mechanism:
        options["sasl.mechanism"] = kafka.sasl_mechanism
    if kafka.sasl_mechanism in _LOGIN_MODULES and kafka.username is not None:
        password = kafka.password.reveal() if kafka.password else ""
        secrets["sasl.jaas.config"] = (
            f"{_LOGIN_MODULES[kafka.sasl_mechanism]} required"
            f" username={_quoted(kafka.username)} password={_quoted(password)};"
        )
    if kafka.ca_file:
        options |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": kafka.ca_file}
    if kafka.certificate_file and kafka.key_file:
        options |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": _text(kafka.certificate_file),
        }
        secrets["ssl.keystore.key"] = _text(kafka.key_file)
    if kafka.key_password:
        secrets["ssl.key.password"] = kafka.key_password.reveal()
    for key, value in {**kafka.options, **kafka.java_options}.items():
        (secrets if isinstance(value, Secret) else options)[key] = _plain(value)
    return options, secrets


def kafka_error(error: KafkaError, kafka: Kafka, doing: str) -> PenstockError:
    """The client's error as one of ours: what failed, and what to do next."""
    name, said = error.name(), error.str()
    for names, kind, code, problem, remedy in _ANSWERS:
        if any(fnmatchcase(name, one) for one in names):
            told = problem.format(where=kafka.bootstrap, doing=doing, said=said)
            return kind(told, code=code, remedy=remedy)
    if error.retriable() or name in _BUSY:
        return TransientError(f"Kafka could not do it now ({doing}: {said}).", code="kafka-busy", remedy="Try again.")
    return DeclarationError(
        f"Kafka does not take it ({doing}: {said}).",
        code=f"kafka-{name.lower()}",
        remedy="Correct what it names.",
    )


_ANSWERS: tuple[tuple[tuple[str, ...], type[PenstockError], str, str, str], ...] = (
    (
        ("_ALL_BROKERS_DOWN", "_TRANSPORT", "_TIMED_OUT", "_RESOLVE", "REQUEST_TIMED_OUT"),
        TransientError,
        "kafka-away",
        "Kafka at {where} does not answer ({doing}).",
        "Start the local one with `penstock up kafka`, or check the profile's bootstrap and security.",
    ),
    (
        ("_MSG_TIMED_OUT",),
        TransientError,
        "kafka-away",
        "Kafka at {where} did not take it in time ({doing}).",
        "Check that it runs and has enough replicas in sync (`penstock topics describe TOPIC`); send again.",
    ),
    (
        ("_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED", "_SSL"),
        SetupError,
        "kafka-refused",
        "Kafka at {where} refuses us ({said}).",
        "Check username, password and certificates of the profile in penstock.toml.",
    ),
    (
        ("*AUTHORIZATION_FAILED",),
        SetupError,
        "kafka-forbidden",
        "Kafka forbids it ({doing}: {said}).",
        "Ask for that right (an ACL) for the user of this profile.",
    ),
    (
        ("MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE"),
        DeclarationError,
        "message-too-large",
        "A message is larger than the topic takes ({doing}).",
        "Raise the topic's limit (`penstock topics alter TOPIC --config max.message.bytes=…`) or send less.",
    ),
    (
        ("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION", "_NOENT"),  # the last: no leader of it
        DeclarationError,
        "topic-unknown",
        "There is no such topic or partition ({doing}).",
        "See `penstock topics list`, or make it with `penstock topics create`.",
    ),
    (
        ("TOPIC_ALREADY_EXISTS",),
        DeclarationError,
        "topic-exists",
        "That topic already exists ({doing}).",
        "Choose another name; or change it with `penstock topics alter`.",
    ),
    (
        ("_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"),
        DeclarationError,
        "producer-fenced",
        "Another producer has taken over this transactional id, or the transaction was open too long ({doing}).",
        "Let one producer at a time have the id; raise transaction.timeout.ms if it was alone.",
    ),
    (
        ("_STATE",),
        DeclarationError,
        "transaction-state",
        "That belongs to another moment of a transaction ({doing}: {said}).",
        "Send inside `with producer.transaction()`; after a failed commit or abort make a new producer.",
    ),
)


def _plain(value: str | Secret) -> str:
    return value.reveal() if isinstance(value, Secret) else value


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _text(path: str) -> str:
    try:
        return Path(path).expanduser().read_text(encoding="utf-8")
    except OSError as error:
        raise SetupError(
            f"{path} can't be read ({error.strerror}).",
            code="certificate-missing",
            remedy="Correct the path in penstock.toml.",
        ) from error
