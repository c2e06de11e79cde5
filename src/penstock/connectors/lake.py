"""What Iceberg and Delta share: Parquet by Spark, types, tidying up."""

from __future__ import annotations

import time
from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.connectors.writing import MarkedWriter
from penstock.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructType

__all__ = [
    "LakeWriter",
    "arrow_schema",
    "check_columns",
    "data_files",
    "local_path",
    "write_parquet",
]

_EVERY_SECONDS = 60.0
_UNKNOWN = ("void", "interval", "variant")


def check_columns(rows: DataFrame) -> None:
    """Every column has a type in a table of files."""
    for one in rows.schema.fields:
        if unknown := next((kind for kind in _kinds(one.dataType) if kind.startswith(_UNKNOWN)), None):
            raise DeclarationError(
                f"A lakehouse table has no type for column {one.name!r} ({unknown}).",
                code="type-unknown",
                remedy="Cast it in the flow.",
            )


def _kinds(kind: DataType) -> Iterator[str]:
    from pyspark.sql.types import ArrayType, MapType, StructType

    yield kind.simpleString()
    if isinstance(kind, StructType):
        for one in kind.fields:
            yield from _kinds(one.dataType)
    elif isinstance(kind, ArrayType):
        yield from _kinds(kind.elementType)
    elif isinstance(kind, MapType):
        yield from _kinds(kind.keyType)
        yield from _kinds(kind.valueType)


def arrow_schema(schema: StructType) -> pa.Schema:
    """The columns for a table of files: times in UTC, everything may be empty."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    made = to_arrow_schema(schema, timezone="UTC")
    return pa.schema([one.with_nullable(True) for one in made])


def write_parquet(rows: DataFrame, folder: str) -> list[str]:
    """Write the rows as files into a new folder; the paths of those that have rows."""
    rows.write.option("compression", "zstd").parquet(folder)
    return data_files(folder)


def data_files(folder: str) -> list[str]:
    """The files of a folder that have rows, as they are told to the table."""
    from pyarrow import parquet

    found = sorted(local_path(folder).glob("part-*.parquet"))
    return [str(path) for path in found if parquet.read_metadata(path).num_rows]


def local_path(place: str) -> Path:
    """A place on a disk that the driver sees."""
    return Path(place.removeprefix("file://").removeprefix("file:"))


class LakeWriter(MarkedWriter):
    """A writer whose table must be tidied up now and then."""

    def __init__(self) -> None:
        self._tidied = time.monotonic()

    def maintain(self) -> None:
        """Make small files one, let old ones go; at most once a minute."""
        if time.monotonic() - self._tidied < _EVERY_SECONDS:
            return
        self._tidied = time.monotonic()
        with self._told():
            self.compact()
            self.expire()

    @abstractmethod
    def compact(self) -> int:
        """Make small files one, if there are enough of them; return how many there were."""

    @abstractmethod
    def expire(self) -> int:
        """Let go of what is old enough; return how many files."""

    @abstractmethod
    def _told(self) -> AbstractContextManager[None]:
        """What the library says, as one of our errors."""
