"""q8: who came and opened an auction within the same ten seconds."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from topics import answer, read

import penstock as ps

q8 = ps.Pipeline("nexmark-q8", state="memory")
read(q8, "person", "auction", timed=True)


@q8.flow
def new_sellers(person: DataFrame, auction: DataFrame) -> DataFrame:
    came = person.select("id", "name", F.lit(0).alias("opened"), "dateTime")
    opened = auction.select(F.col("seller").alias("id"), F.lit(None).cast("string").alias("name"), F.lit(1), "dateTime")
    both = came.union(opened).groupBy(F.window("dateTime", "10 seconds"), "id")
    found = both.agg(F.max("name").alias("name"), F.max("opened").alias("opened"))
    return found.filter("name IS NOT NULL AND opened = 1").selectExpr("id", "name", "window.start AS starttime")


answer(q8, new_sellers)
