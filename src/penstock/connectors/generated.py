"""Generated orders, payments and clicks with controllable disorder, for demos and tests."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.connectors.base import BAD, ORIGIN, Context, SourceConnector

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import Column, DataFrame

__all__ = ["Generated"]

_KINDS = ("orders", "payments", "clicks")


@dataclass(frozen=True)
class Generated(SourceConnector):
    """So many rows a second; some late, some double, some broken, always the same ones for the same seed."""

    kind: str = "orders"
    rows_per_second: int = 10
    keys: int = 200
    late: float = 0.0
    late_seconds: int = 60
    broken: float = 0.0
    seed: int = 1

    system: ClassVar = "generated"
    summary: ClassVar = "Generated orders, payments or clicks."

    def target(self) -> str:
        """The kind."""
        return f"generated:{self.kind}"

    def problems(self) -> Iterator[tuple[str, str]]:
        """Kinds there are not, shares outside 0 to 1."""
        if self.kind not in _KINDS:
            yield (f"kind={self.kind!r} is not generated.", f"Write one of {', '.join(_KINDS)}.")
        for name in ("late", "broken"):
            if not 0 <= getattr(self, name) <= 1:
                yield (f"{name} is a share of rows.", "Write a number from 0 to 1.")

    def stream(self, context: Context) -> DataFrame:
        """Rows computed from a counter, so that a replay gives the same ones."""
        return self._made(context.spark.readStream.format("rate").option("rowsPerSecond", self.rows_per_second).load())

    def recognises(self, told: Mapping[str, Any]) -> bool:
        """The counter's offsets are seconds."""
        return isinstance(told["end"], int)

    def replay(self, context: Context, told: Mapping[str, Any]) -> DataFrame:
        """The same numbers between two seconds, at the same times: the source's log says when the first was."""
        from pyspark.sql import functions as F  # noqa: N812

        first, last = (told["begin"] or 0) * self.rows_per_second, told["end"] * self.rows_per_second
        began = int((Path(told["log"]) / "0").read_text(encoding="utf-8").splitlines()[1])
        at = F.timestamp_millis(F.lit(began) + F.floor(F.col("id") * 1000 / self.rows_per_second).cast("long"))
        ticks = context.spark.range(first, last).select(F.col("id").alias("value"), at.alias("timestamp"))
        return self._made(ticks)

    def _made(self, ticks: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812

        chance = [self._chance(salt) for salt in range(6)]
        late = F.when(chance[0] < self.late, F.make_interval(secs=chance[1] * self.late_seconds))
        at = F.when(late.isNotNull(), F.col("timestamp") - late).otherwise(F.col("timestamp"))
        bad = F.when(chance[2] < self.broken, F.lit("broken on purpose"))
        origin = F.struct(
            F.lit(self.target()).alias("topic"), F.lit(0).alias("partition"), F.col("value").alias("offset")
        )
        return ticks.select(*self._columns(chance, at), bad.alias(BAD), origin.alias(ORIGIN))

    def _chance(self, salt: int) -> Column:
        from pyspark.sql import functions as F  # noqa: N812

        return F.pmod(F.xxhash64(F.col("value"), F.lit(self.seed), F.lit(salt)), F.lit(1_000_003)) / F.lit(1_000_003.0)

    def _columns(self, chance: list[Column], at: Column) -> list[Column]:
        from pyspark.sql import functions as F  # noqa: N812

        number = F.col("value")
        who = (F.floor(F.pow(chance[3], F.lit(2.0)) * self.keys) + 1).cast("long")
        money = F.round(F.exp(chance[4] * 5) + 1, 2).cast("double")
        if self.kind == "orders":
            coin = F.when(chance[5] < 0.5, "EUR").otherwise("USD")
            named = {"order_id": number, "customer_id": who, "amount": money, "currency": coin, "created_at": at}
        elif self.kind == "payments":
            state = F.when(chance[5] < 0.9, "paid").otherwise("failed")
            named = {"payment_id": number, "customer_id": who, "amount": money, "state": state, "paid_at": at}
        else:
            page = F.concat(F.lit("/page/"), F.floor(chance[5] * 20).cast("string"))
            named = {"click_id": number, "user_id": who, "page": page, "clicked_at": at}
        return [column.alias(name) for name, column in named.items()]
