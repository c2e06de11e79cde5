"""q5: the auctions with the most bids of the last ten seconds, every two seconds."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from topics import answer, read

import penstock as ps

q5 = ps.Pipeline("nexmark-q5", state="memory")
read(q5, "bid", timed=True)


@q5.flow
def counts(bid: DataFrame) -> DataFrame:
    return bid.groupBy(F.window("dateTime", "10 seconds", "2 seconds"), "auction").agg(F.count("*").alias("num"))


@q5.flow
def hot_auctions(counts: DataFrame) -> DataFrame:
    most = F.max("num").over(Window.partitionBy("window.end"))
    found = counts.withColumn("most", most).filter("num = most")
    return found.selectExpr("auction", "num", "window.start AS starttime", "window.end AS endtime")


answer(q5, hot_auctions)
