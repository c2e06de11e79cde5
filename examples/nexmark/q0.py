"""q0: every bid as it is."""

from pyspark.sql import DataFrame
from topics import answer, read

import penstock as ps

q0 = ps.Pipeline("nexmark-q0")
read(q0, "bid")


@q0.flow
def bids(bid: DataFrame) -> DataFrame:
    return bid.select("auction", "bidder", "price", "dateTime", "extra")


answer(q0, bids)
