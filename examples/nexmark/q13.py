"""q13: bids with what a table knows of their auction."""

import os

from pyspark.sql import DataFrame
from topics import answer, read

import penstock as ps

q13 = ps.Pipeline("nexmark-q13")
read(q13, "bid")
q13.table("side", ps.Files(os.environ.get("NEXMARK_SIDE", "side.csv"), kind="csv", schema="key LONG, value STRING"))


@q13.flow
def enriched(bid: DataFrame, side: DataFrame) -> DataFrame:
    known = bid.join(side, bid.auction % 10_000 == side.key)
    return known.select("auction", "bidder", "price", "dateTime", "value")


answer(q13, enriched)
