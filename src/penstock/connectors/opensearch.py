"""OpenSearch indexes as a sink: documents by their key, with a version that never goes back."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.connectors.base import Context, IdempotentSink
from penstock.connectors.keyed import POSITION, KeyedSink
from penstock.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import DataFrame

    from penstock.connectors.opensearch_writer import OpenSearchWriter
    from penstock.connectors.writing import Opening

__all__ = ["OpenSearch"]


@dataclass(frozen=True)
class OpenSearch(KeyedSink, IdempotentSink):
    """One index of documents; the `key` (a column, or several) is the id of a document.

    `version` is a SQL expression for the position of a row in its source, a whole number: `version="kafka.offset"`. A
    document is never replaced by one of a lower version, whatever comes late or again. Rows of a captured table
    (`ps.rows_of`) bring theirs along; without any the last batch wins.
    `delete` is a SQL condition that makes a row delete its document. An index that is not there is made with `mapping`.
    """

    index: str
    key: str | tuple[str, ...]
    version: str | None = None
    delete: str | None = None
    mapping: Mapping[str, Any] | None = None

    system: ClassVar = "opensearch"
    summary: ClassVar = "Documents in an OpenSearch index, by key and version; what it rejects is a dead letter."
    sentence: ClassVar = "a document is what its newest row says: rows that come again change nothing"

    def target(self) -> str:
        """The index."""
        return f"opensearch:{self.index}"

    def problems(self) -> Iterator[tuple[str, str]]:
        """Names that an index can't have."""
        if not re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,254}", self.index):
            yield f"{self.index!r} is not an index's name.", "Use small letters, digits, dots, dashes."
        if not self.keys:
            yield "Documents need a key.", "Name a column: key='id'."

    def check(self, rows: DataFrame, context: Context) -> None:
        """The key columns are there, the version is a number."""
        self.check_key(rows)
        if self.version:
            kind = rows.selectExpr(f"{self.version} AS version").schema[0].dataType.simpleString()
            if kind not in ("bigint", "int", "smallint", "tinyint"):
                raise DeclarationError(
                    f"version={self.version!r} is {kind}, not a whole number.",
                    code="version-wrong",
                    remedy="Name the offset or another position: version='kafka.offset'.",
                )

    def beside(self, unique: str) -> OpenSearch:
        """Another index, which gets the name as an alias."""
        return replace(self, index=f"{self.index}-{unique}")

    def position(self, rows: DataFrame) -> str | None:
        """Where a row stands in its source, as SQL."""
        return self.version or (POSITION if POSITION in rows.columns else None)

    def open(self, opening: Opening) -> OpenSearchWriter:
        """The bulk requests of one index."""
        from penstock.connectors.opensearch_writer import OpenSearchWriter

        ((flow, _),) = opening.sinks
        return OpenSearchWriter(opening, flow, self)
