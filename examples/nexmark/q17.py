"""q17: the bids of each auction and day in numbers, at every change."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from topics import answer, read

import penstock as ps

q17 = ps.Pipeline("nexmark-q17", state="memory")
read(q17, "bid")


@q17.flow(emit="changes", unbounded=True)
def statistics(bid: DataFrame) -> DataFrame:
    return bid.groupBy("auction", F.date_format("dateTime", "yyyy-MM-dd").alias("day")).agg(
        F.count("*").alias("total_bids"),
        F.count_if(bid.price < 10_000).alias("rank1_bids"),
        F.count_if((bid.price >= 10_000) & (bid.price < 1_000_000)).alias("rank2_bids"),
        F.count_if(bid.price >= 1_000_000).alias("rank3_bids"),
        F.min("price").alias("min_price"),
        F.max("price").alias("max_price"),
        F.avg("price").alias("avg_price"),
        F.sum("price").alias("sum_price"),
    )


answer(q17, statistics, key="auction")
