"""Topics are made, shown, changed and removed; what a person asks wrongly is answered in one sentence."""

from __future__ import annotations

import gc
import json
import socket
import subprocess
import sys
import threading
import time
import uuid
import weakref
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, PartitionMetadata, TopicMetadata

from penstock.broker import Consumer, Producer, Topics, read
from penstock.errors import DeclarationError, SetupError, TransientError
from penstock.local.progress import Silent
from penstock.settings import Kafka

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.conftest import Project


def fill(kafka: Kafka, name: str, count: int) -> None:
    with Producer(kafka) as producer:
        for number in range(count):
            producer.send(name, str(number), partition=0)


def assert_sentence(error: Exception, *words: str) -> None:
    told = str(error)
    assert "\n" not in told
    assert "KafkaError" not in told
    assert told.endswith((".", "?"))
    for word in words:
        assert word in told


@pytest.fixture
def nobody() -> Iterator[Kafka]:
    """The address of a port that nobody listens on."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield Kafka(bootstrap=f"127.0.0.1:{taken.getsockname()[1]}")


def test_a_topic_is_made_as_it_was_asked_for(kafka: Kafka, topic: Callable[..., str]) -> None:
    config = {
        "cleanup.policy": "compact",
        "compression.type": "zstd",
        "retention.ms": "86400000",
        "retention.bytes": "1048576",
        "min.insync.replicas": "1",
    }
    found = Topics(kafka).describe(topic("asked", partitions=3, config=config))
    assert found.config == config
    assert [one.number for one in found.partitions] == [0, 1, 2]
    assert found.replication == 1
    assert {(one.leader, one.replicas, one.in_sync) for one in found.partitions} == {(1, (1,), (1,))}
    assert found.records == 0


def test_a_topic_shows_no_setting_that_nobody_set(kafka: Kafka, topic: Callable[..., str]) -> None:
    assert Topics(kafka).describe(topic("plain")).config == {}


def test_the_description_counts_what_is_there(kafka: Kafka, topic: Callable[..., str]) -> None:
    name = topic("counted", partitions=2)
    fill(kafka, name, 100)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    for answer in admin.delete_records([TopicPartition(name, 0, 30)]).values():
        answer.result(10)
    found = Topics(kafka).describe(name)
    assert [(one.first, one.end) for one in found.partitions] == [(30, 100), (0, 0)]
    assert found.records == 70


def test_settings_are_changed_and_put_back_one_by_one(kafka: Kafka, topic: Callable[..., str]) -> None:
    topics = Topics(kafka)
    name = topic("changed", config={"retention.ms": "1000000"})
    topics.configure(name, {"cleanup.policy": "compact", "compression.type": "lz4"})
    assert topics.describe(name).config == {
        "cleanup.policy": "compact",
        "compression.type": "lz4",
        "retention.ms": "1000000",
    }
    topics.configure(name, {"cleanup.policy": None, "retention.ms": "-1"})
    assert topics.describe(name).config == {"compression.type": "lz4", "retention.ms": "-1"}


def test_partitions_can_be_added(kafka: Kafka, topic: Callable[..., str]) -> None:
    topics, name = Topics(kafka), topic("growing", partitions=2)
    fill(kafka, name, 10)
    topics.add_partitions(name, 5)
    assert topics.partitions(name) == 5
    assert topics.end_offsets(name) == {0: 10, 1: 0, 2: 0, 3: 0, 4: 0}


@pytest.mark.parametrize("total", [2, 3])
def test_fewer_or_as_many_partitions_are_refused(kafka: Kafka, topic: Callable[..., str], total: int) -> None:
    name = topic("shrinking", partitions=3)
    with pytest.raises(DeclarationError) as told:
        Topics(kafka).add_partitions(name, total)
    assert_sentence(told.value, name, "3 partitions", "new topic")
    assert Topics(kafka).partitions(name) == 3


def test_a_removed_topic_is_gone_with_its_rows(kafka: Kafka, topic: Callable[..., str]) -> None:
    topics, name = Topics(kafka), topic("removed")
    fill(kafka, name, 5)
    topics.delete(name)
    assert name not in topics.names()
    topics.create(name)
    assert list(read(kafka, name)) == []


def test_every_change_is_seen_when_the_call_returns(kafka: Kafka) -> None:
    topics = Topics(kafka)
    for _ in range(20):
        name = f"at-once-{uuid.uuid4().hex[:8]}"
        topics.create(name, partitions=2)
        assert topics.partitions(name) == 2
        topics.add_partitions(name, 4)
        assert topics.partitions(name) == 4
        topics.delete(name)
        assert name not in topics.names()


@pytest.mark.parametrize("question", ["describe", "end_offsets", "largest"])
def test_a_broker_that_has_not_heard_of_a_topic_yet_is_asked_again(
    kafka: Kafka, question: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"late-{uuid.uuid4().hex[:8]}"
    topics, other = Topics(kafka), Topics(kafka)
    told = TopicMetadata()  # what a quicker broker of a cluster would have said
    told.partitions = {0: PartitionMetadata()}
    monkeypatch.setattr(topics, "_known", lambda _: told)
    makes = threading.Timer(1.0, other.create, (name,))
    makes.start()
    assert getattr(topics, question)(name)
    makes.join()
    other.delete(name)


def test_the_list_is_sorted_and_leaves_out_what_is_kafkas_own(kafka: Kafka, topic: Callable[..., str]) -> None:
    name = topic("listed")
    fill(kafka, name, 1)
    with Consumer(kafka, name, [name]) as consumer:
        next(iter(consumer))
    names = Topics(kafka).names()
    assert name in names
    assert names == sorted(names)
    assert not any(one.startswith("__") for one in names)
    assert "__consumer_offsets" in Topics(kafka).names(internal=True)


@pytest.mark.parametrize(
    "use",
    [
        lambda topics, name: topics.describe(name),
        lambda topics, name: topics.delete(name),
        lambda topics, name: topics.partitions(name),
        lambda topics, name: topics.add_partitions(name, 9),
        lambda topics, name: topics.configure(name, {"retention.ms": "1"}),
        lambda topics, name: topics.end_offsets(name),
        lambda topics, name: topics.committed(name, "group"),
        lambda topics, name: read(topics.kafka, name),
    ],
    ids=["describe", "delete", "partitions", "add", "configure", "ends", "committed", "read"],
)
def test_an_unknown_topic_brings_the_nearest_name(
    kafka: Kafka, topic: Callable[..., str], use: Callable[[Topics, str], Any]
) -> None:
    name = topic("customers")
    with pytest.raises(DeclarationError) as told:
        use(Topics(kafka), name.replace("customers", "custmers"))
    assert_sentence(told.value, f"Did you mean {name!r}?")


def test_a_second_topic_of_the_same_name_is_refused_and_the_first_stays(
    kafka: Kafka, topic: Callable[..., str]
) -> None:
    name = topic("twice", partitions=2)
    fill(kafka, name, 3)
    with pytest.raises(DeclarationError) as told:
        Topics(kafka).create(name, partitions=5)
    assert_sentence(told.value, name, "already exists")
    assert Topics(kafka).describe(name).records == 3


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"config": {"retention.msx": "1"}}, "retention.msx"),
        ({"config": {"retention.ms": "soon"}}, "soon"),
        ({"config": {"cleanup.policy": "shred"}}, "shred"),
        ({"replication": 3}, "3"),
        ({"partitions": 0}, "partitions"),
    ],
)
def test_a_topic_that_cannot_be_is_refused_with_what_is_wrong(
    kafka: Kafka, options: dict[str, Any], named: str
) -> None:
    name = f"impossible-{uuid.uuid4().hex[:8]}"
    with pytest.raises(DeclarationError) as told:
        Topics(kafka).create(name, **options)
    assert_sentence(told.value, name, named)
    assert name not in Topics(kafka).names()


@pytest.mark.parametrize("name", ["two words", "naïve", "", ".", "x" * 250])
def test_a_name_that_kafka_does_not_take_is_refused(kafka: Kafka, name: str) -> None:
    with pytest.raises(DeclarationError) as told:
        Topics(kafka).create(name)
    assert_sentence(told.value, name, "invalid")


def test_a_wrong_change_changes_nothing(kafka: Kafka, topic: Callable[..., str]) -> None:
    name = topic("untouched", config={"retention.ms": "1000"})
    with pytest.raises(DeclarationError) as told:
        Topics(kafka).configure(name, {"retention.ms": "2000", "retention.msx": "1"})
    assert_sentence(told.value, name, "retention.msx")
    assert Topics(kafka).describe(name).config == {"retention.ms": "1000"}


@pytest.mark.parametrize("call", ["names", "create", "describe", "delete"])
def test_where_no_broker_is_one_hears_so_soon_and_what_to_do(nobody: Kafka, call: str) -> None:
    began = time.monotonic()
    with pytest.raises(TransientError) as told:
        getattr(Topics(nobody), call)(*([] if call == "names" else ["some-topic"]))
    assert time.monotonic() - began < 20
    assert_sentence(told.value, nobody.bootstrap, "penstock up kafka")


def test_a_port_that_never_answers_is_given_up_too() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        began = time.monotonic()
        with pytest.raises(TransientError) as told:
            Topics(Kafka(bootstrap=f"127.0.0.1:{silent.getsockname()[1]}")).names()
    assert time.monotonic() - began < 20
    assert_sentence(told.value, "does not answer")


def test_an_option_that_the_client_does_not_know_is_named(kafka: Kafka) -> None:
    with pytest.raises(DeclarationError) as told:
        Topics(replace(kafka, python_options={"no.such.option": "1"}))
    assert_sentence(told.value, "no.such.option", "penstock.toml")


def test_another_cluster_than_the_one_that_is_meant_is_refused(kafka: Kafka) -> None:
    assert kafka.cluster is not None
    Topics(kafka).names()
    Topics(replace(kafka, cluster=None)).names()
    with pytest.raises(SetupError) as told:
        Topics(replace(kafka, cluster="mine")).create("refused")
    assert_sentence(told.value, f"is another cluster ({kafka.cluster})", "(mine)", "penstock up kafka")
    assert "refused" not in Topics(kafka).names()


@pytest.mark.parametrize("words", [("list",), ("delete", "TOPIC", "--yes"), ("produce", "TOPIC"), ("tail", "TOPIC")])
def test_a_project_that_is_down_leaves_the_topics_of_another_alone(
    kafka: Kafka, topic: Callable[..., str], project: Project, words: tuple[str, ...]
) -> None:
    name = topic("theirs")
    fill(kafka, name, 1)
    project.home.mkdir()
    state = {"ports": {"kafka": int(kafka.bootstrap.rpartition(":")[2])}, "brokers": 1, "cluster": "mine"}
    (project.home / "state.json").write_text(json.dumps(state), encoding="utf-8")
    done = project.run("topics", *(name if one == "TOPIC" else one for one in words), text="written\n")
    assert done.returncode == 1
    assert "is another cluster" in done.stderr
    assert [record.value for record in read(kafka, name)] == [b"0"]


def test_a_failed_call_leaves_no_ring_of_references_behind(kafka: Kafka, topic: Callable[..., str]) -> None:
    # A client in such a ring is ended by the garbage collector in whatever thread that runs: the process may crash.
    name = topic("ringless")
    calls: list[Callable[[Topics], Any]] = [
        lambda topics: topics.create(name),
        lambda topics: topics.configure(name, {"no.such": "1"}),
        lambda topics: topics.describe("no-such-topic"),
    ]
    gc.disable()
    try:
        for call in calls:
            topics = Topics(kafka)
            ended = weakref.ref(topics)
            with pytest.raises(DeclarationError) as told:
                call(topics)
            del topics, told
            assert ended() is None
    finally:
        gc.enable()


def test_a_fresh_broker_answers_that_a_group_has_committed_nothing(project: Project) -> None:
    project.stack.up(("kafka",), Silent())
    asks = (
        "import sys; from penstock.broker import Topics; from penstock.settings import Kafka\n"
        "topics = Topics(Kafka(bootstrap=sys.argv[1])); topics.create('new'); print(topics.committed('new', 'group'))"
    )
    words = [sys.executable, "-c", asks, project.settings.kafka.bootstrap]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "{}\n"), done.stderr
