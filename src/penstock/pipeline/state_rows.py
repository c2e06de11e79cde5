"""What a query remembers, read from its checkpoint; the query may run meanwhile."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from penstock.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, Row, SparkSession

__all__ = ["refuse_without_state", "state_rows"]

_VALUES = ("value", "list_element", "single_value", "user_map_value")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def refuse_without_state(checkpoint: Path) -> None:
    """Raise if a query keeps no state, or is none."""
    if not (checkpoint / "state").is_dir():
        raise DeclarationError(
            f"There is no state in {checkpoint}.", code="state-none", remedy="See `penstock state list`."
        )


def state_rows(spark: SparkSession, checkpoint: Path, key: str | None, limit: int) -> Iterator[dict[str, Any]]:
    """The rows of a query's state, at most so many of each operator; of one key if it is named."""
    metadata = spark.read.format("state-metadata").load(str(checkpoint)).collect()
    seen: set[tuple[int, str]] = set()
    for operator in metadata:
        for part, options in _parts(operator):
            if (operator["operatorId"], part) in seen:
                continue
            seen.add((operator["operatorId"], part))
            rows = _loaded(spark, checkpoint, {"operatorId": str(operator["operatorId"]), **options})
            for row in _of_key(rows, key).limit(limit).collect():
                yield {"operator": operator["operatorName"], "part": part, **_shown(row)}


def _parts(operator: Row) -> Iterator[tuple[str, dict[str, str]]]:
    """What there is to read of an operator: its variables, its sides, or all of it."""
    variables = json.loads(operator["operatorProperties"] or "{}").get("stateVariables") or []
    names = [one["stateName"] for one in variables if not one["stateName"].startswith("$")]
    if names:
        yield from ((name, {"stateVarName": name}) for name in names)
    elif operator["operatorName"] == "symmetricHashJoin":
        yield from ((side, {"joinSide": side}) for side in ("left", "right"))
    else:
        yield "", {}


def _loaded(spark: SparkSession, checkpoint: Path, options: dict[str, str]) -> DataFrame:
    return spark.read.format("statestore").options(**options).load(str(checkpoint))


def _of_key(rows: DataFrame, key: str | None) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    if key is None:
        return rows
    names = rows.schema["key"].dataType.names  # type: ignore[attr-defined]
    return rows.filter(F.concat_ws(",", *(F.col("key").getField(name).cast("string") for name in names)) == key)


def _row_in(line: str) -> Any:
    """The row in the text of one that waits: before it are its time, marks, and where it came from."""
    return json.JSONDecoder().raw_decode(line, line.index("{"))[0]


def _shown(row: Row) -> dict[str, Any]:
    known = row.asDict(recursive=True)
    value: dict[str, Any] = next((known[name] for name in _VALUES if known.get(name)), {})
    if "user_map_key" in known:
        value = {**known["user_map_key"], **value}
    if set(value) == {"memory", "waiting", "wakes"}:  # a process of ours
        waiting = value["waiting"].split("\n") if value["waiting"] else []
        remembered = json.loads(value["memory"]) if value["memory"] else {}
        value = {
            **(remembered if isinstance(remembered, dict) else {"value": remembered}),
            "waiting": [_row_in(line) for line in waiting],
            "bytes": len(value["memory"] or "") + len(value["waiting"] or ""),
            "wakes": (_EPOCH + timedelta(microseconds=value["wakes"])).isoformat() if value["wakes"] else None,
        }
    return {"key": known["key"], "value": value}
