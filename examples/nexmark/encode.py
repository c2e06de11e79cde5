"""Rows of an Arrow table as messages, column by column: JSON objects, or Avro in the registry's frame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["as_avro", "as_json", "avro_schema"]


def as_json(rows: pa.Table) -> pa.BinaryArray:
    """One object a row; texts must need no escapes, times are as ISO 8601 says."""
    parts: list[Any] = []
    for at, name in enumerate(rows.column_names):
        column = _whole(rows[name])
        mark = '"' if not pa.types.is_integer(column.type) else ""
        parts += [f'{"," if at else "{"}"{name}":{mark}', _text(column)]
        parts += [mark] if mark else []
    return _joined([*parts, "}"], pa.string()).cast(pa.binary())


def as_avro(rows: pa.Table, frame: bytes) -> pa.BinaryArray:
    """One record a row behind the frame."""
    parts: list[Any] = [frame]
    for name in rows.column_names:
        column = _whole(rows[name])
        if pa.types.is_string(column.type):
            raw = column.cast(pa.binary())
            parts += [_varints(pc.binary_length(raw).to_numpy().astype(np.int64)), raw]
        else:
            parts.append(_varints(column.cast(pa.int64()).to_numpy()))
    return _joined(parts, pa.binary())


def avro_schema(rows: pa.Table, name: str) -> dict[str, Any]:
    """The schema of the columns."""
    kinds: list[tuple[Callable[[pa.DataType], bool], Any]] = [
        (pa.types.is_string, "string"),
        (pa.types.is_integer, "long"),
        (pa.types.is_timestamp, {"type": "long", "logicalType": "timestamp-millis"}),
    ]
    fields = [
        {"name": column.name, "type": next(kind for fits, kind in kinds if fits(column.type))} for column in rows.schema
    ]
    return {"type": "record", "name": name, "namespace": "nexmark", "fields": fields}


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _joined(parts: list[Any], kind: pa.DataType) -> pa.Array:
    scalars = [part if isinstance(part, pa.Array) else pa.scalar(part, kind) for part in parts]
    return pc.binary_join_element_wise(*scalars, pa.scalar(b"" if kind == pa.binary() else "", kind))


def _text(column: pa.Array) -> pa.StringArray:
    if not pa.types.is_timestamp(column.type):
        return column.cast(pa.string())
    at = column.cast(pa.int64()).to_numpy()
    seconds, place = np.unique(at // 1000, return_inverse=True)  # few, and writing a time takes long
    dates = pa.array([f"{one}." for one in np.datetime_as_string(seconds.astype("datetime64[s]"))])
    parts = pa.array([f"{one:03}Z" for one in range(1000)])
    return pc.binary_join_element_wise(dates.take(pa.array(place)), parts.take(pa.array(at % 1000)), "")


def _varints(values: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pa.BinaryArray:
    """Avro's longs: small ones, also negative ones, in few bytes of seven bits."""
    left = ((values << 1) ^ (values >> 63)).astype(np.uint64)
    made = np.empty((len(left), 10), dtype=np.uint8)
    used = np.zeros((len(left), 10), dtype=bool)
    more = np.ones(len(left), dtype=bool)
    for at in range(10):
        used[:, at] = more
        rest = left >> np.uint64(7)
        more = more & (rest > 0)
        made[:, at] = (left & np.uint64(0x7F)).astype(np.uint8) | (more.astype(np.uint8) << 7)
        left = rest
        if not more.any():
            break
    ends = np.zeros(len(values) + 1, dtype=np.int32)
    np.cumsum(used.sum(axis=1), out=ends[1:])
    return pa.BinaryArray.from_buffers(
        pa.binary(), len(values), [None, pa.py_buffer(ends), pa.py_buffer(np.ascontiguousarray(made[used]))]
    )
