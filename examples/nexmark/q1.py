"""q1: the price in another currency."""

from pyspark.sql import DataFrame
from topics import answer, read

import penstock as ps

q1 = ps.Pipeline("nexmark-q1")
read(q1, "bid")


@q1.flow
def in_euros(bid: DataFrame) -> DataFrame:
    return bid.selectExpr("auction", "bidder", "0.908D * price AS price", "dateTime", "extra")


answer(q1, in_euros)
