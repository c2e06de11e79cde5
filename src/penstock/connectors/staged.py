"""Rows on their way out of Spark: computed once into files of a folder, then read piece by piece.

So a batch of any size goes through a small driver, and all work of Spark is over before a sink is touched.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa
    from pyarrow import parquet
    from pyspark.sql import DataFrame

__all__ = ["Staged"]

_PIECE = 20_000
_PIECE_BYTES = 32 << 20
_FAST = {"compression": "none", "parquet.enable.dictionary": "false"}  # read once, soon, from this disk


class Staged:
    """The rows of a DataFrame in a folder, in their order."""

    def __init__(self, rows: DataFrame, folder: Path) -> None:
        self.folder = folder
        shutil.rmtree(folder, ignore_errors=True)
        rows.write.options(**_FAST).parquet(str(folder))

    def pieces(self, size: int = _PIECE) -> Iterator[pa.RecordBatch]:
        """The rows, at most so many at a time."""
        from pyarrow import parquet

        for path in sorted(self.folder.glob("part-*.parquet")):
            with parquet.ParquetFile(path) as file:
                yield from file.iter_batches(min(size, _rows_in_memory(file)))

    def reader(self) -> pa.RecordBatchReader:
        """The rows as a stream of Arrow."""
        import pyarrow as pa
        from pyarrow import parquet

        files = sorted(self.folder.glob("part-*.parquet"))
        schema = parquet.read_schema(files[0])
        return pa.RecordBatchReader.from_batches(schema, self.pieces())

    def remove(self) -> None:
        """Give the space back."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _rows_in_memory(file: parquet.ParquetFile) -> int:
    """How many rows of a file are held at once: fewer if they are large."""
    told = file.metadata
    size = sum(told.row_group(number).total_byte_size for number in range(told.num_row_groups))
    return max(1, int(_PIECE_BYTES * told.num_rows // max(size, 1)))
