"""A producer whose rows are of a registered schema, and keep its contract."""

from __future__ import annotations

import io
import json
import time
from typing import TYPE_CHECKING, Any

import fastavro

from penstock.broker.producer import Producer
from penstock.errors import DeclarationError
from penstock.registry.avro_whole import whole_avro
from penstock.registry.client import Registry
from penstock.registry.contract import UNIQUE, contract_of
from penstock.registry.evolution import refuse_breaks
from penstock.registry.subjects import subject_of
from penstock.registry.wire import framed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType
    from typing import Self

    from penstock.registry.contract import Rule
    from penstock.registry.schema import Schema
    from penstock.settings import Settings

__all__ = ["SchemaProducer"]


class SchemaProducer:
    """Sends rows to one topic with the newest schema of its subject, or one that is registered first."""

    def __init__(self, settings: Settings, topic: str, schema: Schema | None = None, *, subject: str = "topic") -> None:
        name = subject_of(subject, topic, schema)
        with Registry(settings.registry) as registry:
            if schema is None:
                found = registry.version(name)
                if found is None:
                    raise DeclarationError(
                        f"The registry has no subject {name!r}.",
                        code="schema-unknown",
                        remedy=f"Register one (`penstock schemas register {name} FILE`), or give a schema.",
                    )
                schema, self._id = found.schema, found.id
            else:
                refuse_breaks(registry, name, schema)
                self._id = registry.register(name, schema)
            self._contract = contract_of(registry, name)
            self._seen = [(one, Seen(one.seconds)) for one in self._contract.rules if one.kind == UNIQUE]
            self._encode = _encoder(registry.whole(schema))
        self._topic = topic
        self._producer = Producer(settings.kafka)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._producer.__exit__(kind, error, trace)

    def send(self, row: Mapping[str, Any], key: Any = None) -> None:
        """Send a row; one that is not of the schema, or breaks a rule of the contract, is refused here."""
        rule = self._contract.broken(row)
        if rule is not None:
            raise self._broken(rule, row)
        for one, seen in self._seen:
            if seen.before(one.value_in(row)):
                raise self._broken(one, row)
        self._producer.send(self._topic, framed(self._id, self._encode(row)), key)

    def _broken(self, rule: Rule, row: Mapping[str, Any]) -> DeclarationError:
        return DeclarationError(
            f"A row for {self._topic} breaks its contract: {rule.name} does not hold of {dict(row)!r:.200}.",
            code="contract-broken",
            remedy="Correct the row, or the rules of the contract.",
        )


class Seen:
    """The values that were there within a time, by the clock."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._first: dict[str, float] = {}

    def before(self, value: Any) -> bool:
        """Whether a value was there already; from now on it was."""
        now = time.monotonic()
        while self._first and now - next(iter(self._first.values())) >= self._seconds:
            del self._first[next(iter(self._first))]
        if value is None:
            return False
        told = repr(value)
        if told in self._first:
            return True
        self._first[told] = now
        return False


def _encoder(schema: Schema) -> Callable[[Mapping[str, Any]], bytes]:
    """Rows to bytes by the kind of schema."""
    if schema.kind == "AVRO":
        avro = fastavro.parse_schema(json.loads(whole_avro(schema)))

        def of_avro(row: Mapping[str, Any]) -> bytes:
            out = io.BytesIO()
            try:
                fastavro.schemaless_writer(out, avro, dict(row))
            except (ValueError, TypeError, AttributeError, KeyError) as error:
                raise _refused(row, str(error)) from error
            return out.getvalue()

        return of_avro
    if schema.kind == "JSON":
        return lambda row: json.dumps(row, default=str).encode()
    from penstock.registry.protobuf import compiled
    from penstock.registry.protobuf_rows import encoded

    files = compiled(schema.text, schema.used).SerializeToString()

    def of_protobuf(row: Mapping[str, Any]) -> bytes:
        try:
            return encoded(files, dict(row))
        except (ValueError, TypeError, AttributeError) as error:
            raise _refused(row, str(error)) from error

    return of_protobuf


def _refused(row: Mapping[str, Any], said: str) -> DeclarationError:
    return DeclarationError(
        f"A row is not of its schema: {said} ({dict(row)!r:.200}).", code="row-refused", remedy="Correct the row."
    )
