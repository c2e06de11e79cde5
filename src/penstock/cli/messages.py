"""`penstock topics tail | produce`: the records inside a topic."""

from __future__ import annotations

import json
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from penstock.cli.render import command_options, json_of, show, show_json
from penstock.cli.values import START
from penstock.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TextIO

    from penstock.broker.record import Record
    from penstock.broker.replay import Start
    from penstock.registry.reader import SchemaReader
    from penstock.settings import Kafka, Settings

__all__ = ["produce", "tail"]

_LOOK_SECONDS = 0.5


@click.command()
@click.argument("name")
@click.option(
    "--from",
    "start",
    type=START,
    default="-10",
    show_default=True,
    help="earliest, latest, an offset (1500), the last rows (-20), how long ago (15m), a time (2026-01-31T10:00).",
)
@click.option("--follow/--no-follow", default=True, show_default=True, help="Go on with new rows until Ctrl-C.")
@click.option("-n", "--max", "most", type=click.IntRange(1), help="Stop after so many rows.")
@click.option("--partition", type=int, multiple=True, help="Only these partitions.")
@click.option("--format", "shape", type=click.Choice(["text", "json", "raw"]), default="text", show_default=True)
@click.option("--uncommitted", is_flag=True, help="Rows of open and aborted transactions too.")
@command_options
def tail(
    name: str,
    start: Start,
    follow: bool,
    most: int | None,
    partition: tuple[int, ...],
    shape: str,
    uncommitted: bool,
    as_json: bool,
    settings: Settings,
) -> None:
    """Show the rows of a topic, live; one that is not there yet is waited for.

    Rows of a registered schema are shown as JSON, unless the format is raw.

    \b
    Example:
      penstock topics tail orders
      penstock topics tail orders --from 15m --no-follow
      penstock topics tail orders --from 0 --format raw -n 5
    """
    from penstock.broker.replay import EARLIEST, read
    from penstock.registry.reader import SchemaReader

    if follow and _waited_for(settings.kafka, name):
        start = EARLIEST  # all of it is new
    found = read(
        settings.kafka,
        name,
        start,
        partitions=list(partition) or None,
        live=follow,
        committed_only=not uncommitted,
    )
    rows = SchemaReader(settings)
    for count, record in enumerate(found, 1):
        _show_record(record, "json" if as_json else shape, rows)
        if count == most:
            return


@click.command()
@click.argument("name")
@click.option("--value", help="One value; without it each line of the input is a value.")
@click.option("--key", help="The key of every record.")
@click.option("--key-field", help="Take the key from this field of a JSON value.")
@click.option("--key-separator", help="A line is KEY, this separator, VALUE.")
@click.option("--partition-field", help="Keep together the JSON values with the same content of this field (a region).")
@click.option("--tombstone", is_flag=True, help="Send no value: remove --key from a compacted topic.")
@click.option("--file", "source", type=click.File(encoding="utf-8"), default="-", help="The input; - is stdin.")
@command_options
def produce(name: str, as_json: bool, settings: Settings, **options: Any) -> None:
    """Send rows to a topic, each acknowledged by all in-sync replicas.

    \b
    Example:
      penstock topics produce orders --key 42 --value '{"order_id": 42}'
      penstock topics produce orders --key-field order_id < orders.jsonl
    """
    from penstock.broker.partitions import partition_by
    from penstock.broker.producer import Producer
    from penstock.broker.topics import Topics

    Topics(settings.kafka).partitions(name)
    field = options["partition_field"]
    place = partition_by(lambda value: _field(value, field)) if field else None
    sent = 0
    with Producer(settings.kafka, partitioner=place) as producer:
        for key, value in _rows(options):
            producer.send(name, value, key)
            sent += 1
    if as_json:
        show_json({"topic": name, "sent": sent})
        return
    show(f"Sent {sent} record(s) to {name}.")


def _waited_for(kafka: Kafka, name: str) -> bool:
    """Wait for a topic that is not there: a pipeline makes its own at the start, or with the first dead letter."""
    from penstock.broker.topics import Topics

    topics, said = Topics(kafka), False
    while True:
        try:
            topics.partitions(name)
        except DeclarationError as error:
            if not said:
                click.echo(f"{error} Waiting for it; Ctrl-C ends.", err=True)
            said = True
            time.sleep(_LOOK_SECONDS)
        else:
            return said


def _rows(options: dict[str, Any]) -> Iterator[tuple[str | None, str | None]]:
    if options["tombstone"]:
        if options["key"] is None:
            raise click.UsageError("A tombstone needs --key.")
        yield options["key"], None
    elif options["value"] is not None:
        yield _key_of(options)(options["value"])
    else:
        yield from map(_key_of(options), _lines(options["source"]))


def _key_of(options: dict[str, Any]) -> Callable[[str], tuple[str | None, str]]:
    separator, field, key = options["key_separator"], options["key_field"], options["key"]
    if separator:
        return lambda line: (line.partition(separator)[0], line.partition(separator)[2])
    if field:
        return lambda line: (str(_field(line, field)), line)
    return lambda line: (key, line)


def _lines(source: TextIO) -> Iterator[str]:
    if source is sys.stdin and source.isatty():
        click.echo("One row per line; Ctrl-D ends.", err=True)
    for line in source:
        if line := line.rstrip("\n"):
            yield line


def _field(value: str, name: str) -> Any:
    try:
        return json.loads(value)[name]
    except (ValueError, KeyError, TypeError) as error:
        raise DeclarationError(
            f"This row has no field {name!r}: {value[:120]}",
            code="field-missing",
            remedy="Rows before it were sent. Correct it, or name another field.",
        ) from error


def _show_record(record: Record, shape: str, rows: SchemaReader) -> None:
    if shape == "raw":
        sys.stdout.buffer.write((record.value or b"") + b"\n")
        sys.stdout.buffer.flush()
    elif shape == "json":
        headers = {name: _text(value) for name, value in record.headers}
        show_json(
            {
                "partition": record.partition,
                "offset": record.offset,
                "timestamp": _time(record.timestamp),
                "key": _text(record.key),
                "value": _value(record.value, rows),
                "headers": headers,
            }
        )
    else:
        value = "(tombstone)" if record.value is None else _line(record.value, rows)
        place = click.style(f"{record.partition}:{record.offset} {_time(record.timestamp)}", fg="bright_black")
        show(f"{place} {click.style(_text(record.key) or '-', fg='cyan')} {value}")


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode(errors="backslashreplace")


def _line(value: bytes, rows: SchemaReader) -> str | None:
    row = rows.row(value)
    return _text(value) if row is None else json_of(row)


def _value(value: bytes | None, rows: SchemaReader) -> Any:
    if (row := rows.row(value)) is not None:
        return row
    try:
        return None if value is None else json.loads(value)
    except ValueError:
        return _text(value)


def _time(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
