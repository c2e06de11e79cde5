"""q18: the last bid of each bidder for each auction, at every change."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from topics import answer, read

import penstock as ps

q18 = ps.Pipeline("nexmark-q18", state="memory")
read(q18, "bid")


@q18.flow(emit="changes", unbounded=True)
def last_bids(bid: DataFrame) -> DataFrame:
    row = F.struct("price", "channel", "url", "dateTime", "extra")
    return (
        bid.groupBy("auction", "bidder")
        .agg(F.max_by(row, "dateTime").alias("last"))
        .select("auction", "bidder", "last.*")
    )


answer(q18, last_bids, key="auction")
