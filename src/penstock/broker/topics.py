"""Topics: make, look at, change, remove."""

from __future__ import annotations

import difflib
import time
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ClusterMetadata,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
    TopicDescription,
)

from penstock.broker.connection import client_options, connect, kafka_error
from penstock.errors import DeclarationError, PenstockError, SetupError, TransientError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from concurrent.futures import Future

    from penstock.settings import Kafka

__all__ = ["Partition", "Topic", "Topics", "broker_count"]

_SECONDS = 15.0
_FINAL = ("_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED", "_SSL", "_ALL_BROKERS_DOWN", "_RESOLVE")
_HEARSAY_SECONDS = 2.0  # among several brokers the one asked may not have heard of a new topic yet
_PASSING = ("kafka-busy", "topic-unknown")  # asked only about topics that the cluster has named before
_Answer = TypeVar("_Answer")


@dataclass(frozen=True)
class Partition:
    """One partition and what it holds."""

    number: int
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    first: int
    end: int


@dataclass(frozen=True)
class Topic:
    """One topic, its partitions, and the settings that differ from the broker's."""

    name: str
    partitions: tuple[Partition, ...]
    config: Mapping[str, str]

    @property
    def replication(self) -> int:
        """Copies of each partition."""
        return max((len(one.replicas) for one in self.partitions), default=0)

    @property
    def records(self) -> int:
        """Offsets between the first and the end: rows, less what compaction took."""
        return sum(one.end - one.first for one in self.partitions)


class Topics:
    """The topics of one Kafka."""

    def __init__(self, kafka: Kafka) -> None:
        self.kafka = kafka
        self._heard: list[KafkaError] = []
        options: dict[str, Any] = {**client_options(kafka), "error_cb": self._heard.append}
        self._admin = connect(AdminClient, options)

    def names(self, *, internal: bool = False) -> list[str]:
        """The names there are; those of Kafka itself only when asked for."""
        found = self._metadata("listing topics").topics
        return sorted(name for name in found if internal or not name.startswith("__"))

    def partitions(self, name: str) -> int:
        """How many partitions a topic has."""
        return len(self._known(name).partitions)

    def create(
        self,
        name: str,
        *,
        partitions: int = 1,
        replication: int | None = None,
        config: Mapping[str, str] | None = None,
    ) -> None:
        """Make a topic, there for all to use on return; replication is the broker's own unless given."""
        self._metadata(f"creating {name}")  # nobody there is heard sooner this way
        wanted = NewTopic(name, partitions, replication or -1, config=dict(config or {}))
        self._result(self._admin.create_topics([wanted], operation_timeout=_SECONDS)[name], f"creating {name}")
        self._heard_of(name, lambda partitions: partitions > 0)

    def ensure(self, name: str, *, config: Mapping[str, str] | None = None) -> None:
        """Make a topic with the broker's own number of partitions, unless it is there."""
        if name in self.names():
            return
        try:
            self.create(name, partitions=-1, config=config)
        except DeclarationError as error:
            if error.code != "topic-exists":  # somebody was quicker
                raise

    def delete(self, name: str) -> None:
        """Remove a topic with all it holds."""
        self._known(name)
        self._result(self._admin.delete_topics([name], operation_timeout=_SECONDS)[name], f"deleting {name}")
        self._heard_of(name, lambda partitions: partitions == 0)

    def add_partitions(self, name: str, total: int) -> None:
        """Raise the number of partitions; keys move."""
        now = self.partitions(name)
        if total <= now:
            raise DeclarationError(
                f"{name} has {now} partitions already; Kafka can only add some.",
                code="partitions-fewer",
                remedy="Make a new topic with fewer and copy the rows.",
            )
        self._result(self._admin.create_partitions([NewPartitions(name, total)])[name], f"altering {name}")
        self._heard_of(name, lambda partitions: partitions >= total)

    def configure(self, name: str, config: Mapping[str, str | None]) -> None:
        """Set these settings of a topic; None puts one back to the broker's own."""
        self._known(name)
        entries = [
            ConfigEntry(
                key,
                value if value is not None else "",
                incremental_operation=AlterConfigOpType.SET if value is not None else AlterConfigOpType.DELETE,
            )
            for key, value in config.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
        self._result(self._admin.incremental_alter_configs([resource])[resource], f"altering {name}")

    def describe(self, name: str) -> Topic:
        """A topic with its partitions and settings."""
        self._known(name)
        found = self._patiently(lambda: self._described(name))
        first = self._offsets(name, len(found.partitions), OffsetSpec.earliest())
        end = self._offsets(name, len(found.partitions), OffsetSpec.latest())
        partitions = tuple(
            Partition(
                number=one.id,
                leader=one.leader.id if one.leader else -1,
                replicas=tuple(node.id for node in one.replicas),
                in_sync=tuple(node.id for node in one.isr),
                first=first[one.id],
                end=end[one.id],
            )
            for one in found.partitions
        )
        return Topic(name, partitions, self._config(name))

    def largest(self, name: str) -> int:
        """How many bytes a message may have, set on the topic or by the broker."""
        self._known(name)
        return int(self._configs(name)["max.message.bytes"].value)

    def start_offsets(self, name: str) -> dict[int, int]:
        """The first offset that each partition still has."""
        return self._offsets(name, self.partitions(name), OffsetSpec.earliest())

    def end_offsets(self, name: str, *, committed: bool = False) -> dict[int, int]:
        """The high watermark of each partition, or where the first transaction that is still open begins."""
        return self._offsets(name, self.partitions(name), OffsetSpec.latest(), committed=committed)

    def committed(self, name: str, group: str) -> dict[int, int]:
        """What a consumer group has committed on a topic."""
        wanted = [TopicPartition(name, number) for number in range(self.partitions(name))]
        # Not the admin client's call: it crashes (librdkafka 2.16) while the broker makes its topic of offsets.
        options = {**client_options(self.kafka), "group.id": group, "isolation.level": "read_uncommitted"}
        with closing(connect(Consumer, options)) as client:
            answer = self._patiently(lambda: self._ask(client, wanted, group))
        return {one.partition: one.offset for one in answer if one.offset >= 0}

    def _ask(self, client: Consumer, wanted: list[TopicPartition], group: str) -> list[TopicPartition]:
        try:
            return client.committed(wanted, timeout=_SECONDS)
        except KafkaException as error:
            raise kafka_error(error.args[0], self.kafka, f"reading the offsets of {group}") from error

    def _metadata(self, doing: str) -> ClusterMetadata:
        """What the cluster knows; gives up early when the client hears a refusal or nobody."""
        deadline = time.monotonic() + _SECONDS
        self._admin.poll(0)
        self._heard.clear()  # of an outage that is over
        while True:
            try:
                found = self._admin.list_topics(timeout=2.0)
            except KafkaException as raised:
                self._admin.poll(0)
                told = {error.name(): error for error in (*self._heard, raised.args[0])}
                final = next((told[name] for name in _FINAL if name in told), None)
                if final or time.monotonic() > deadline:
                    raise kafka_error(final or raised.args[0], self.kafka, doing) from raised
            else:
                self._refuse_another(found)
                return found

    def _refuse_another(self, found: ClusterMetadata) -> None:
        """Raise if the cluster is not the one that is meant: a port of ours may be another project's by now."""
        meant, there = self.kafka.cluster, cast("str | None", found.cluster_id)  # its own hint knows None only
        if meant and there and meant != there:
            raise SetupError(
                f"Kafka at {self.kafka.bootstrap} is another cluster ({there}) than the one that is meant ({meant}).",
                code="kafka-another",
                remedy="Start this project's own: penstock up kafka. Or correct bootstrap or cluster in penstock.toml.",
            )

    def _known(self, name: str) -> Any:
        deadline = time.monotonic() + _HEARSAY_SECONDS
        while True:
            answer = self._metadata(f"looking for {name}")
            known = answer.topics
            if name in known or len(answer.brokers) == 1 or time.monotonic() > deadline:
                break
            time.sleep(0.1)
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"Did you mean {near[0]!r}?" if near else "See `penstock topics list`."
            raise DeclarationError(f"There is no topic {name!r}.", code="topic-unknown", remedy=hint)
        return known[name]

    def _heard_of(self, name: str, right: Callable[[int], bool]) -> None:
        """Wait until the number of partitions is right where we ask: a broker hears of a change a little later."""
        deadline = time.monotonic() + _SECONDS
        while time.monotonic() < deadline:
            found = self._metadata(f"looking for {name}").topics.get(name)
            if right(len(found.partitions) if found else 0):
                return
            time.sleep(0.02)
        raise TransientError(
            f"The brokers have not all heard of the change to {name} within {_SECONDS:.0f} s.",
            code="kafka-busy",
            remedy="See `penstock topics list`.",
        )

    def _offsets(self, name: str, partitions: int, spec: OffsetSpec, *, committed: bool = False) -> dict[int, int]:
        wanted = {TopicPartition(name, number): spec for number in range(partitions)}
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        return self._patiently(lambda: self._list(name, wanted, level))

    def _list(self, name: str, wanted: dict[TopicPartition, OffsetSpec], level: IsolationLevel) -> dict[int, int]:
        # A copy: the client fills the answers of its own.
        answers = dict(self._admin.list_offsets(wanted, isolation_level=level))
        doing = f"reading the offsets of {name}"
        return {place.partition: self._result(answers.pop(place), doing).offset for place in wanted}

    def _patiently(self, step: Callable[[], _Answer]) -> _Answer:
        """Ask again while a leader is being elected, or the broker asked has not heard of a topic that others know."""
        deadline = time.monotonic() + _SECONDS
        while True:
            try:
                return step()
            except PenstockError as error:
                if error.code not in _PASSING or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def _described(self, name: str) -> TopicDescription:
        asked = self._admin.describe_topics(TopicCollection([name]))
        found: TopicDescription = self._result(asked[name], f"describing {name}")
        return found

    def _configs(self, name: str) -> dict[str, Any]:
        return self._patiently(lambda: self._configured(ConfigResource(ResourceType.TOPIC, name), name))

    def _configured(self, resource: ConfigResource, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self._result(self._admin.describe_configs([resource])[resource], f"describing {name}")
        return found

    def _config(self, name: str) -> dict[str, str]:
        return {
            key: entry.value
            for key, entry in sorted(self._configs(name).items())
            if not entry.is_default and not entry.is_sensitive and entry.source == _SET_ON_TOPIC
        }

    def _result(self, answer: Future[_Answer], doing: str) -> _Answer:
        try:
            return answer.result(_SECONDS)
        except KafkaException as error:
            raise kafka_error(error.args[0], self.kafka, doing) from error
        except TimeoutError as error:
            raise kafka_error(KafkaError(KafkaError._TIMED_OUT), self.kafka, doing) from error
        finally:
            # The answer holds its error and that this frame: a ring with the client in it, which the garbage
            # collector would end in the client's own thread, and that ends the process.
            del answer


_SET_ON_TOPIC = 1


def broker_count(kafka: Kafka, seconds: float) -> int:
    """How many brokers answer and are registered, 0 if none does."""
    try:
        return len(AdminClient(client_options(kafka)).list_topics(timeout=seconds).brokers)
    except KafkaException:
        return 0
