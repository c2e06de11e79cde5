"""How far each attempt of a key comes through steps in their order."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from penstock.pipeline.keyed.attempts import Attempts
from penstock.pipeline.keyed.keys import key_columns, key_text
from penstock.pipeline.keyed.on_spark import ROW, turns
from penstock.pipeline.operators.arguments import micros_of, names_of, refuse_clash, refused
from penstock.pipeline.operators.conditions import conditions_met, those_that_meet_one
from penstock.pipeline.operators.event_time import event_time_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame

__all__ = ["funnel"]

_MOST = 62  # as many conditions as a number has bits


def funnel(rows: DataFrame, by: str | Sequence[str], steps: Mapping[str, str], within: str) -> DataFrame:
    """One row per attempt of a key at steps in their order, each a name and a condition in SQL over the row's columns.

    `ps.funnel(clicks, by="user", steps={"view": "page = 'item'", "paid": "page = 'paid'"}, within="1 hour")`: out come
    the key, `view_at` and `paid_at` (null if not reached), `reached` (the last step), `completed` and `seconds` (from
    the first step to the last reached). An attempt begins with a row that meets the first step while none of the key is
    open; a later row, in the order of event time, takes it one step on, or none. It comes out when the last step is
    reached or `within` is over (the end excluded); then the next can begin.
    """
    keys = names_of(by)
    time = event_time_of(rows, "funnel")
    length = micros_of("within", within)
    if not 2 <= len(steps) <= _MOST:
        raise refused(f"A funnel of {len(steps)} steps can't be.", f"Give it 2 to {_MOST}.")
    times = [f"{step}_at" for step in steps]
    refuse_clash([*keys, *times, "reached", "completed", "seconds"], "Give a step, or a column, another name.")
    bits = conditions_met(list(steps.values()))
    met = those_that_meet_one(rows, bits, time)
    # With zeros in front, so that rows of one time come in the order of the steps.
    text = F.concat(F.lpad(bits.cast("string"), len(str(1 << len(steps))), "0"), F.lit(" "), key_text(keys))
    described = " then ".join(f"{name} [{condition}]" for name, condition in steps.items())
    keeps = f"attempts at {described} within {length / 1e6:g} s"
    over = turns(met, text, keys, partial(Attempts, len(steps), length), keeps)
    told = over.select(F.from_json(ROW, "key STRING, at ARRAY<BIGINT>").alias("attempt"))
    at = F.col("attempt.at")
    return told.select(
        *key_columns(F.col("attempt.key"), rows, keys),
        *(F.timestamp_micros(F.get(at, F.lit(place))).alias(name) for place, name in enumerate(times)),
        F.get(F.array(*map(F.lit, steps)), F.size(at) - 1).alias("reached"),
        (F.size(at) == len(steps)).alias("completed"),
        ((F.get(at, F.size(at) - 1) - F.get(at, F.lit(0))) / 1_000_000).alias("seconds"),
    )
