"""q2: the bids for some auctions."""

from pyspark.sql import DataFrame
from topics import answer, read

import penstock as ps

q2 = ps.Pipeline("nexmark-q2")
read(q2, "bid")


@q2.flow
def chosen(bid: DataFrame) -> DataFrame:
    return bid.filter("auction % 123 = 0").select("auction", "price")


answer(q2, chosen)
