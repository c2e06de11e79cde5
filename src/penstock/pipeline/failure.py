"""Why a query failed, in one sentence: what the user can mend, and what is tried again."""

from __future__ import annotations

import re
import traceback
from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock.connectors.change_rows import COLUMNS_CHANGED, TRUNCATED
from penstock.connectors.registered import NEW_SCHEMA
from penstock.errors import DeclarationError, PenstockError, SetupError, StateError, TransientError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.pipeline.declare import Place
    from penstock.pipeline.plan import Query

__all__ = ["FAILURE", "explained", "told_at"]

FAILURE = "failure.txt"

# What we let Spark raise: how it begins, its code, its remedy.
_OURS = (
    (
        r"expectation .* of flow '\w+' is broken: [^\n]*",
        "expectation-failed",
        "Mend the rows at their source, or let the rule quarantine or warn instead of fail.",
    ),
    (
        r"a row of a table can't be decoded: [^\n\"]*",
        "table-row-bad",
        "Mend or delete that row at its source, or correct the columns of the table.",
    ),
    (
        rf"{COLUMNS_CHANGED}\S+ \[[^\]]*\]",
        "columns-changed",
        "Run it again: the columns are learnt anew.",
    ),
    (
        rf"{NEW_SCHEMA}\S+ \d+",
        "schema-new",
        "Run it again: the registry is asked for it.",
    ),
    (
        rf"{TRUNCATED}[^\n\"]*",
        "table-truncated",
        "What is derived from it still has the rows: build it anew with `penstock rebuild`.",
    ),
)


@contextmanager
def told_at(place: Place, what: str, remedy: str) -> Iterator[None]:
    """Tell what goes wrong in a user's function, or what Spark refuses of it, in one sentence at the user's line."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PenstockError as error:
        error.place = error.place or str(place)
        raise
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        line = next((one.lineno for one in reversed(frames) if one.filename == place.file), None)
        where = f"{place.file}:{line or place.line}"
        if isinstance(error, PySparkException):
            said = (error.getMessage() or str(error)).splitlines()[0]
            said = re.sub(r"\s*SQLSTATE: \w+.*$", "", said)
        else:
            said = f"{type(error).__name__}: {error}".splitlines()[0]
        raise DeclarationError(f"{what}: {said}", code="flow-refused", place=where, remedy=remedy) from error


def explained(error: Exception, query: Query) -> PenstockError:
    """A Spark exception as one of our errors."""
    text = str(error)
    place = str(query.sinks[0].place)
    for said, code, remedy in _OURS:
        if broken := re.search(said, text):
            return DeclarationError(f"{broken[0].strip()}.", code=code, place=place, remedy=remedy)
    if "No space left on device" in text or "Read-only file system" in text:
        return SetupError(
            f"Query {query.name!r} can't write its checkpoint: the disk is full or read-only.",
            code="checkpoint-disk",
            remedy="Free some space and run it again: it goes on where it was.",
        )
    if "failOnDataLoss" in text or "KAFKA_DATA_LOSS" in text:
        return StateError(
            f"Query {query.name!r} misses rows that its checkpoint asks for: the topic was cut or made anew.",
            code="data-lost",
            place=place,
            remedy="Bring the topic back, or start the query over by removing its folder under .penstock/state/.",
        )
    if "UNKNOWN_TOPIC" in text.upper() or "UnknownTopicOrPartition" in text:
        return DeclarationError(
            f"Query {query.name!r} reads or writes a topic that is not there.",
            code="topic-unknown",
            place=place,
            remedy="Create it: penstock topics create NAME",
        )
    raised = re.findall(r"^\s*((?:\w+\.)*\w*(?:Error|Exception): .*)$", text, re.MULTILINE)
    first = raised[-1] if raised else next((line for line in text.splitlines() if line.strip()), type(error).__name__)
    return TransientError(
        f"Query {query.name!r} stopped: {first[:400]}",
        code="query-stopped",
        remedy=f"It was tried again and stopped again; the whole trace is in {FAILURE} beside its checkpoint.",
    )
