"""q11: how many bids a bidder makes with at most ten seconds in between."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from topics import answer, read

import penstock as ps

q11 = ps.Pipeline("nexmark-q11", state="memory")
read(q11, "bid", timed=True)


@q11.flow
def visits(bid: DataFrame) -> DataFrame:
    found = bid.groupBy("bidder", F.session_window("dateTime", "10 seconds").alias("visit"))
    counts = found.agg(F.count("*").alias("bid_count"))
    return counts.selectExpr("bidder", "bid_count", "visit.start AS starttime", "visit.end AS endtime")


answer(q11, visits)
