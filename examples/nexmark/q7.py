"""q7: the highest bid of every ten seconds; of equals, up to eight."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from topics import answer, read

import penstock as ps

q7 = ps.Pipeline("nexmark-q7", state="memory")
read(q7, "bid", timed=True)


@q7.flow
def highest(bid: DataFrame) -> DataFrame:
    row = F.struct("auction", "price", "bidder", "dateTime", "extra")
    best = bid.groupBy(F.window("dateTime", "10 seconds")).agg(F.max_by(row, "price", 8).alias("best"))
    return best.selectExpr("inline(filter(best, one -> one.price = best[0].price))")


answer(q7, highest)
