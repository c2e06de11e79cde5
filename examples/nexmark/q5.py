"""q5: the auctions with the most bids of the last ten seconds, every two seconds."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from topics import answer, read

import penstock as ps

q5 = ps.Pipeline("nexmark-q5")
read(q5, "bid", timed=True)


@q5.flow
def hot_auctions(bid: DataFrame) -> DataFrame:
    counts = bid.groupBy(F.window("dateTime", "10 seconds", "2 seconds"), "auction").agg(F.count("*").alias("num"))
    hottest = counts.groupBy("window").agg(
        F.collect_list(F.struct("auction", "num")).alias("all"), F.max("num").alias("most")
    )
    ties = hottest.selectExpr("window", "inline(filter(all, one -> one.num = most))")
    return ties.selectExpr("auction", "num", "window.start AS starttime", "window.end AS endtime")


answer(q5, hot_auctions)
