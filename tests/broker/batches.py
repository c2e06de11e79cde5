"""The record batches that a broker has on disk, read without any client: what was really sent."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_HEAD = struct.Struct(">qiibIhiqqqhii")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True)
class Batch:
    """One batch as the producer made it."""

    codec: str
    producer_id: int
    sequence: int
    records: int
    control: bool


def batches_on_disk(kafka_folder: Path, topic: str, partition: int = 0) -> list[Batch]:
    """All batches of a partition, in order."""
    found = []
    for segment in sorted((kafka_folder / f"{topic}-{partition}").glob("*.log")):
        data, at = segment.read_bytes(), 0
        while at + _HEAD.size <= len(data):
            fields = _HEAD.unpack_from(data, at)
            length, attributes, producer_id, sequence, records = (fields[at] for at in (1, 5, 9, 11, 12))
            if not length:  # the rest of the file is not written yet
                break
            found.append(Batch(CODECS[attributes & 7], producer_id, sequence, records, bool(attributes & 32)))
            at += 12 + length
    return found
