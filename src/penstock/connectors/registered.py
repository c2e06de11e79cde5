"""Formats whose schemas are in a registry: each message names its schema's id, all rows have the reader's columns."""

from __future__ import annotations

import json
from abc import abstractmethod
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, ClassVar

from penstock.connectors.base import BAD, ORIGIN, Context
from penstock.connectors.contract_rules import contract_rules
from penstock.connectors.formats import PARSED, Format, Reading, Topical, Writing
from penstock.connectors.frozen import schema_file
from penstock.connectors.schema_ids import SchemaIds, known_ids
from penstock.errors import DeclarationError, TransientError
from penstock.registry.client import Registry, project_registry
from penstock.registry.compatibility import can_read
from penstock.registry.contract import UNIQUE, Contract, Rule, contract_of, read_contract
from penstock.registry.evolution import refuse_breaks
from penstock.registry.schema import KINDS, Schema, read_schema, reference
from penstock.registry.subjects import STRATEGIES, subject_of
from penstock.registry.wire import HEADER, header

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import Column, DataFrame

__all__ = ["CORRUPT", "NEW_SCHEMA", "Decoder", "RegistryFormat"]

NEW_SCHEMA = "a schema id is new: "
CORRUPT = "__corrupt"


@dataclass(frozen=True)
class RegistryFormat(Format):
    """A format of one kind of schema."""

    schema: str | None = None
    subject: str = "topic"
    references: tuple[str, ...] = ()

    kind: ClassVar[str]

    def problems(self) -> Iterator[tuple[str, str]]:
        """A way to name subjects that does not exist, references that are none."""
        for one in self.references:
            try:
                reference(one)
            except DeclarationError as error:
                yield error.problem, error.remedy
        if self.subject not in STRATEGIES:
            yield (f"subject={self.subject!r} means nothing.", f"Write one of {', '.join(map(repr, STRATEGIES))}.")

    def for_reading(self, context: Context, source: Topical) -> Reading:
        """The decoder with the reader's schema and all ids that are known by now."""
        reader = self.reader(context, source.topics, source.target())
        ids, schemas = known_ids(context, source.topics, source.target(), self.subject)
        return self.decoder(reader, source.target(), ids, schemas)

    def for_writing(self, context: Context, topic: str, rows: DataFrame) -> Writing:
        """The encoder with the id of the schema, registered if it is new."""
        schema = self.writer(context, topic, rows)
        number = registered(project_registry(context.settings), subject_of(self.subject, topic, schema), schema)
        return self.encoder(schema, number)

    def checked(self, context: Context, topic: str, rows: DataFrame) -> Column:
        """Raise if the registry would refuse the schema of these rows; nothing is registered."""
        schema = self.writer(context, topic, rows)
        with suppress(TransientError):  # the start asks again, and waits
            refuse_breaks(project_registry(context.settings), subject_of(self.subject, topic, schema), schema)
        return self.encoder(schema, 0).encode(rows)

    def rules(self, context: Context, source: Topical, rows: DataFrame) -> list[tuple[str, Column, Column]]:
        """The contract beside the schema, frozen in `schemas/` with it."""
        return contract_rules(self.contract(context, source), rows)

    def unique(self, context: Context, source: Topical) -> list[Rule]:
        """The rules of uniqueness of the contract."""
        return [one for one in self.contract(context, source).rules if one.kind == UNIQUE]

    def contract(self, context: Context, source: Topical) -> Contract:
        """The rules of the first topic's subject."""
        path = schema_file(context, source.target(), ".rules.json")
        if path.exists():
            return read_contract(path.read_text(encoding="utf-8"), str(path))
        try:
            schema = self.given(context) if self.schema else None
            found = contract_of(project_registry(context.settings), subject_of(self.subject, source.topics[0], schema))
        except TransientError:
            if context.state is not None:
                raise
            return Contract()
        if found.rules:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(found.text() + "\n", encoding="utf-8")
        return found

    def reader(self, context: Context, topics: Sequence[str], target: str) -> Schema:
        """The schema of the columns: given, or the newest of the first topic, frozen in `schemas/`."""
        if self.schema is not None:
            return self.given(context)
        path = schema_file(context, target, KINDS[self.kind])
        if not path.exists():
            subject = subject_of(self.subject, topics[0])
            found = project_registry(context.settings).version(subject)
            if found is None:
                raise DeclarationError(
                    f"{target} has no schema: the registry has no subject {subject!r}.",
                    code="schema-unknown",
                    remedy=f"Register one (`penstock schemas register {subject} FILE`) or give it: schema='FILE'.",
                )
            path.parent.mkdir(parents=True, exist_ok=True)
            if found.schema.used:
                _uses(path).write_text(json.dumps(dict(found.schema.used), indent=2) + "\n", encoding="utf-8")
            path.write_text(found.schema.pretty() + "\n", encoding="utf-8")
        return _with_uses(read_schema(path), path)

    def given(self, context: Context) -> Schema:
        """The schema that the declaration names: a file of the project, or the text itself."""
        assert self.schema is not None
        named = tuple(map(reference, self.references))
        if self.schema.lstrip().startswith(("{", "syntax", "message")):
            found = Schema(self.kind, self.schema, named)
        else:
            found = read_schema(context.settings.project / self.schema, named)
        return project_registry(context.settings).whole(found)

    @abstractmethod
    def writer(self, context: Context, topic: str, rows: DataFrame) -> Schema:
        """The schema of a sink's rows: given, or made from the columns."""

    @abstractmethod
    def decoder(self, reader: Schema, target: str, ids: SchemaIds, schemas: Mapping[int, Schema]) -> Reading:
        """What decodes messages of these ids to the reader's columns."""

    @abstractmethod
    def encoder(self, schema: Schema, number: int) -> Writing:
        """What encodes rows with one schema."""


@dataclass(frozen=True)
class Decoder(Reading):
    """Takes the header off, and sees to rows of unknown ids."""

    reader: Schema
    target: str
    ids: SchemaIds
    schemas: Mapping[int, Schema] = field(default_factory=dict)

    inner: ClassVar[str] = ""  # where in the struct the columns are: "row."

    def decode(self, raw: DataFrame) -> DataFrame:
        """Columns of the reader's schema; a row of a new id stops the query, which learns it and goes on."""
        from pyspark.sql import functions as F  # noqa: N812

        parsed = self.parse(raw)
        kept = [name for name in raw.columns if name != "value"]
        bad = self._bad(self.failed(F.col(PARSED)))
        return parsed.select(f"{PARSED}.{self.inner}*", bad.alias(BAD), *kept).drop(CORRUPT)

    def failed(self, parsed: Column) -> Column:
        """Whether a row of a known id could not be decoded."""
        return parsed.isNull()

    @abstractmethod
    def parse(self, raw: DataFrame) -> DataFrame:
        """The rows with a struct out of the column `value`, null if it can't be had."""

    def readable(self) -> dict[int, Schema]:
        """The schemas whose rows the reader can take."""
        return {number: one for number, one in self.schemas.items() if not can_read(self.reader, one)}

    def known(self) -> Column:
        """Whether a row is of an id that the reader can take."""
        from pyspark.sql import functions as F  # noqa: N812

        found = F.lit(False)
        for number in self.readable():
            found = found | self.of(number)
        return found

    def of(self, number: int) -> Column:
        """Whether a row is of an id, and not of the foreign ones before it was known."""
        from pyspark.sql import functions as F  # noqa: N812

        found = F.substring("value", 1, HEADER) == F.lit(header(number))
        if number in self.ids.foreign:
            found = found & ~self._in_foreign_time(number)
        since = self.ids.since.get(number)
        return found & ~_before(since) if since else found

    def _in_foreign_time(self, number: int) -> Column:
        from pyspark.sql import functions as F  # noqa: N812

        return F.unix_millis(f"{ORIGIN}.timestamp") < self.ids.foreign[number]

    def _bad(self, failed: Column) -> Column:
        from pyspark.sql import functions as F  # noqa: N812

        first = F.substring("value", 1, HEADER)
        number = F.conv(F.hex(F.substring("value", 2, HEADER - 1)), 16, 10)
        readable = self.readable()
        bad = F.when(F.col("value").isNull() | (F.octet_length("value") == 0), F.lit("no value")).when(
            (F.octet_length("value") < HEADER) | (F.substring("value", 1, 1) != F.lit(b"\x00")), F.lit("no schema id")
        )
        if readable:
            said = F.concat(F.lit("not of its schema, id "), number)
            bad = bad.when(self.known(), F.when(failed, said))
        refused = [header(one) for one in self.schemas if one not in readable]
        if refused:
            said = F.concat(F.lit("the reader's schema can't take rows of schema id "), number)
            bad = bad.when(first.isin(refused), said)
        foreign = F.concat(F.lit("the registry has no schema id "), number)
        late = [one for one, since in self.ids.since.items() if since]
        known_foreign = first.isin([header(one) for one in late]) | _before(self.ids.asked)
        for one in self.ids.foreign:
            known_foreign = known_foreign | ((first == F.lit(header(one))) & self._in_foreign_time(one))
        bad = bad.when(known_foreign, foreign)
        return bad.otherwise(F.raise_error(F.concat(F.lit(f"{NEW_SCHEMA}{self.target} "), number)))


def _before(offsets: Mapping[str, int]) -> Column:
    """Whether a row lies before these offsets."""
    from pyspark.sql import functions as F  # noqa: N812

    found = F.lit(False)
    for place, offset in offsets.items():
        topic, _, partition = place.rpartition("-")
        here = (F.col(f"{ORIGIN}.topic") == topic) & (F.col(f"{ORIGIN}.partition") == int(partition))
        found = found | (here & (F.col(f"{ORIGIN}.offset") < offset))
    return found


def _uses(path: Path) -> Path:
    """Where the texts are frozen that a frozen schema refers to."""
    return path.with_name(f"{path.name}.uses.json")


def _with_uses(schema: Schema, path: Path) -> Schema:
    if not _uses(path).exists():
        return schema
    return replace(schema, used=tuple(json.loads(_uses(path).read_text(encoding="utf-8")).items()))


@cache
def registered(registry: Registry, subject: str, schema: Schema) -> int:
    """The id of a schema under a subject; asked once."""
    refuse_breaks(registry, subject, schema)
    return registry.register(subject, schema)
