"""q14: some of the bids, with what is computed of each."""

from pyspark.sql import DataFrame
from topics import answer, read

import penstock as ps

q14 = ps.Pipeline("nexmark-q14")
read(q14, "bid")


@q14.flow
def computed(bid: DataFrame) -> DataFrame:
    some = bid.withColumn("price", 0.908 * bid.price).filter("price > 1000000 AND price < 50000000")
    when = """
        CASE WHEN hour(dateTime) BETWEEN 8 AND 18 THEN 'dayTime'
             WHEN hour(dateTime) <= 6 OR hour(dateTime) >= 20 THEN 'nightTime' ELSE 'otherTime' END AS bidTimeType"""
    count = "length(extra) - length(replace(extra, 'c', '')) AS c_counts"
    return some.selectExpr("auction", "bidder", "price", when, "dateTime", "extra", count)


answer(q14, computed)
