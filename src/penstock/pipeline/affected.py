"""Which pipelines a proposed schema breaks, told from their declarations alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.connectors.base import Context
from penstock.connectors.kafka import Kafka
from penstock.connectors.registered import RegistryFormat
from penstock.errors import DeclarationError, PenstockError
from penstock.pipeline.load import load_pipeline
from penstock.registry.compatibility import can_read
from penstock.registry.subjects import subject_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock.connectors.base import Connector
    from penstock.pipeline.declare import Pipeline
    from penstock.registry.schema import Problem, Schema
    from penstock.settings import Settings

__all__ = ["affected"]


def affected(folder: Path, subject: str, proposed: Schema, settings: Settings) -> list[dict[str, str]]:
    """The sources that could not read rows of a schema, and the sinks whose rows its readers could not take."""
    if not folder.is_dir():
        raise DeclarationError(
            f"There is no folder {folder}.", code="folder-missing", remedy="Name the folder of your pipelines."
        )
    found: list[dict[str, str]] = []
    for file in sorted(folder.rglob("*.py")):
        if "Pipeline(" in file.read_text(encoding="utf-8", errors="replace"):
            found += _broken(file, subject, proposed, settings)
    return found


def _broken(file: Path, subject: str, proposed: Schema, settings: Settings) -> Iterator[dict[str, str]]:
    pipeline = load_pipeline(file)
    context = Context(None, settings)  # type: ignore[arg-type]  # declarations are told of without Spark
    for part, place, connector in _connectors(pipeline):
        if not isinstance(connector, Kafka) or not isinstance(connector.format, RegistryFormat):
            continue
        chosen = connector.format
        if subject not in {subject_of(chosen.subject, topic, proposed) for topic in connector.topics}:
            continue
        try:
            problems = list(_problems(part, connector, context, proposed))
        except PenstockError as error:
            yield _told(pipeline.name, part, place, str(error))
            continue
        for one in problems:
            yield _told(pipeline.name, part, place, f"{one.where}: {one.what}; allowed: {one.allowed}")


def _connectors(pipeline: Pipeline) -> Iterator[tuple[str, str, Connector]]:
    """Every outside system of a pipeline, with what it is there and where it is declared."""
    for source in pipeline.sources:
        yield f"source {source.name!r}", str(source.place), source.connector
    for table in pipeline.tables:
        yield f"table {table.name!r}", str(table.place), table.connector
    for sink in pipeline.sinks:
        yield f"sink {sink.connector.target()!r}", str(sink.place), sink.connector


def _problems(part: str, connector: Kafka, context: Context, proposed: Schema) -> Iterator[Problem]:
    chosen = connector.format
    assert isinstance(chosen, RegistryFormat)
    if part.startswith("sink"):
        if chosen.schema is not None:
            yield from can_read(proposed, chosen.given(context))
    else:
        yield from can_read(chosen.reader(context, connector.topics, connector.target()), proposed)


def _told(pipeline: str, part: str, place: str, problem: str) -> dict[str, str]:
    return {"pipeline": pipeline, "part": part, "place": place, "problem": problem}
