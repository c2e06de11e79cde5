"""`penstock topics …`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from penstock.cli.messages import produce, tail
from penstock.cli.render import command_options, show, show_json, table
from penstock.cli.values import DURATION, pairs

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.broker.partitions import HotKey
    from penstock.broker.topics import Topic
    from penstock.settings import Settings

_MOVES_KEYS = (
    "Adding partitions moves keys: rows of one key written from now on may lie in another partition than"
    " those before, so their order is lost across the change."
)
_SAMPLE = 10_000


@click.group()
def topics() -> None:
    """Kafka topics of the chosen profile.

    \b
    Example:
      penstock topics create orders --partitions 6 --retention 7d
      penstock topics tail orders --from 15m
    """


def _topic_settings(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that create and alter share."""
    for option in reversed(
        (
            click.option("--retention", type=DURATION, help="How long rows are kept: 7d, 12h, forever."),
            click.option("--retention-bytes", type=int, help="How many bytes a partition keeps; -1 for all."),
            click.option("--compact/--no-compact", default=None, help="Keep the last row of each key for ever."),
            click.option("--compression", type=click.Choice(["producer", "none", "gzip", "snappy", "lz4", "zstd"])),
            click.option("--min-insync", type=click.IntRange(1), help="Replicas that must have a row: min.insync."),
            click.option("--config", multiple=True, callback=pairs, metavar="NAME=VALUE", help="Any other setting."),
        )
    ):
        function = option(function)
    return function


def _settings_of(options: dict[str, Any]) -> dict[str, str]:
    named = {
        "retention.ms": options["retention"],
        "retention.bytes": options["retention_bytes"],
        "cleanup.policy": {True: "compact", False: "delete", None: None}[options["compact"]],
        "compression.type": options["compression"],
        "min.insync.replicas": options["min_insync"],
    }
    others: dict[str, str] = options["config"]
    return {name: str(value) for name, value in named.items() if value is not None} | others


@topics.command("list")
@click.option("--internal", is_flag=True, help="Kafka's own topics too.")
@command_options
def list_topics(internal: bool, as_json: bool, settings: Settings) -> None:
    """List the topics with their size.

    \b
    Example:
      penstock topics list --json
    """
    from penstock.broker.topics import Topics

    kafka = Topics(settings.kafka)
    found = [kafka.describe(name) for name in kafka.names(internal=internal)]
    if as_json:
        show_json({"topics": [_summary(one) for one in found]})
        return
    if not found:
        show("There are no topics yet. Make one: penstock topics create NAME")
        return
    rows = [(one.name, len(one.partitions), one.replication, one.records, _policy(one)) for one in found]
    table(("TOPIC", "PARTITIONS", "REPLICAS", "RECORDS", "CLEANUP"), rows)


@topics.command()
@click.argument("name")
@click.option("--partitions", type=click.IntRange(1), default=1, show_default=True)
@click.option("--replication", type=click.IntRange(1), help="Copies; the broker's default if not given.")
@_topic_settings
@command_options
def create(
    name: str, partitions: int, replication: int | None, as_json: bool, settings: Settings, **options: Any
) -> None:
    """Make a topic.

    \b
    Example:
      penstock topics create orders --partitions 6 --retention 7d --compression zstd
      penstock topics create customers --compact
    """
    from penstock.broker.topics import Topics

    kafka = Topics(settings.kafka)
    kafka.create(name, partitions=partitions, replication=replication, config=_settings_of(options))
    made = kafka.describe(name)
    if as_json:
        show_json(_summary(made))
        return
    show(f"Created {name}: {len(made.partitions)} partition(s), {made.replication} replica(s).")


@topics.command()
@click.argument("name")
@click.option("--sample", default=_SAMPLE, show_default=True, help="Latest rows to look for hot keys in; 0 for none.")
@command_options
def describe(name: str, sample: int, as_json: bool, settings: Settings) -> None:
    """Show a topic's partitions and settings, and its hot keys by a sample of the latest rows.

    \b
    Example:
      penstock topics describe orders
    """
    from penstock.broker.partitions import hot_keys
    from penstock.broker.replay import Start, read
    from penstock.broker.topics import Topics

    found = Topics(settings.kafka).describe(name)
    last = Start(last=-(-sample // len(found.partitions)))
    looked_at, hot = hot_keys(read(settings.kafka, name, last)) if sample and found.records else (0, [])
    if as_json:
        show_json({**_summary(found), "partition_list": found.partitions, "sampled": looked_at, "hot_keys": hot})
        return
    show(f"{name}: {len(found.partitions)} partition(s), {found.replication} replica(s), {found.records} records")
    for key, value in found.config.items():
        show(f"  {key} = {value}")
    rows = [
        (one.number, one.leader, _list(one.replicas), _list(one.in_sync), one.first, one.end)
        for one in found.partitions
    ]
    table(("PARTITION", "LEADER", "REPLICAS", "IN SYNC", "FIRST", "END"), rows)
    _show_hot(looked_at, hot, len(found.partitions))


@topics.command()
@click.argument("name")
@click.option("--partitions", type=click.IntRange(1), help="The new total; keys move, so it asks.")
@_topic_settings
@click.option("--unset", multiple=True, metavar="NAME", help="Put a setting back to the broker's own.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@command_options
def alter(
    name: str,
    partitions: int | None,
    unset: tuple[str, ...],
    yes: bool,
    as_json: bool,
    settings: Settings,
    **options: Any,
) -> None:
    """Change a topic's settings, or add partitions to it.

    \b
    Example:
      penstock topics alter orders --retention 30d
      penstock topics alter orders --partitions 12
    """
    from penstock.broker.topics import Topics

    kafka = Topics(settings.kafka)
    changes: dict[str, str | None] = {**_settings_of(options), **dict.fromkeys(unset)}
    if not changes and partitions is None:
        raise click.UsageError("Nothing to change: give --partitions, --retention, --config or --unset.")
    if changes:
        kafka.configure(name, changes)
    if partitions is not None:
        if not yes:
            click.echo(_MOVES_KEYS, err=True)
            click.confirm(f"Give {name} {partitions} partitions?", abort=True, err=True)
        kafka.add_partitions(name, partitions)
    found = kafka.describe(name)
    if as_json:
        show_json(_summary(found))
        return
    show(f"{name} is changed.")


@topics.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@command_options
def delete(name: str, yes: bool, as_json: bool, settings: Settings) -> None:
    """Remove a topic with all it holds.

    \b
    Example:
      penstock topics delete orders --yes
    """
    from penstock.broker.topics import Topics

    kafka = Topics(settings.kafka)
    records = kafka.describe(name).records
    if not yes:
        click.confirm(f"Remove {name} with its {records} records?", abort=True, err=True)
    kafka.delete(name)
    if as_json:
        show_json({"deleted": name, "records": records})
        return
    show(f"Removed {name}.")


@topics.command("size")
@click.option("--throughput", type=click.FloatRange(0, min_open=True), required=True, help="Target, in MB/s.")
@click.option("--consumers", type=click.IntRange(1), default=1, show_default=True, help="Consumers in one group.")
@click.option("--topic", help="An existing topic to compare with.")
@command_options
def size_command(throughput: float, consumers: int, topic: str | None, as_json: bool, settings: Settings) -> None:
    """Say how many partitions a topic needs, and why.

    \b
    Example:
      penstock topics size --throughput 80 --consumers 4
    """
    from penstock.broker.partitions import size
    from penstock.broker.topics import Topics

    answer = size(throughput, consumers)
    now = Topics(settings.kafka).partitions(topic) if topic else None
    if as_json:
        show_json(
            {
                "partitions": answer.partitions,
                "reasons": answer.reasons,
                "warning": answer.warning,
                "now": now,
            }
        )
        return
    show(f"{answer.partitions} partitions")
    for reason in answer.reasons:
        show(f"  {reason}")
    if topic:
        show(f"{topic} has {now} now.")
    show(answer.warning)


def _summary(topic: Topic) -> dict[str, Any]:
    return {
        "name": topic.name,
        "partitions": len(topic.partitions),
        "replication": topic.replication,
        "records": topic.records,
        "config": dict(topic.config),
    }


def _policy(topic: Topic) -> str:
    return topic.config.get("cleanup.policy", "delete")


def _list(numbers: tuple[int, ...]) -> str:
    return ",".join(map(str, numbers))


def _show_hot(looked_at: int, hot: list[HotKey], partitions: int) -> None:
    if not looked_at:
        return
    if not hot:
        show(f"No hot key among the latest {looked_at} records.")
        return
    show(f"Hot keys among the latest {looked_at} records (an even share per partition is {1 / partitions:.0%}):")
    for one in hot:
        key = (one.key or b"").decode(errors="replace")
        show(f"  {one.share:6.1%}  {key}  (partition {one.partition})")


topics.add_command(tail)
topics.add_command(produce)
