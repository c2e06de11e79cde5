"""The queries as a person writes them in PySpark, with the settings that Spark has of its own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path[0] = str(Path(__file__).parents[3])

import pyspark
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from bench.peers.lines import serve
from penstock.local.jars import JarStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

COLUMNS = {
    "person": "id LONG, name STRING, emailAddress STRING, creditCard STRING, city STRING, state STRING,"
    " dateTime TIMESTAMP, extra STRING",
    "auction": "id LONG, itemName STRING, description STRING, initialBid LONG, reserve LONG, dateTime TIMESTAMP,"
    " expires TIMESTAMP, seller LONG, category LONG, extra STRING",
    "bid": "auction LONG, bidder LONG, price LONG, channel STRING, url STRING, dateTime TIMESTAMP, extra STRING",
}
UPDATES = ("q17", "q18")


def q0(bid: DataFrame) -> DataFrame:
    """Every bid."""
    return bid.select("auction", "bidder", "price", "dateTime", "extra")


def q1(bid: DataFrame) -> DataFrame:
    """In another currency."""
    return q0(bid).withColumn("price", F.col("price") * 0.908)


def q2(bid: DataFrame) -> DataFrame:
    """Of some auctions."""
    return bid.where("auction % 123 = 0").select("auction", "price")


def q5(bid: DataFrame) -> DataFrame:
    """Hot auctions."""
    window = F.window("dateTime", "10 seconds", "2 seconds")
    counts = bid.withWatermark("dateTime", "4 seconds").groupBy(window, "auction").agg(F.count("*").alias("num"))
    together = counts.groupBy("window").agg(
        F.collect_list(F.struct("auction", "num")).alias("all"), F.max("num").alias("m")
    )
    found = together.select("window", F.explode(F.filter("all", lambda one: one["num"] == F.col("m"))).alias("one"))
    return found.select("one.*", F.col("window.start").alias("starttime"), F.col("window.end").alias("endtime"))


def q7(bid: DataFrame) -> DataFrame:
    """The highest."""
    windows = bid.withWatermark("dateTime", "4 seconds").groupBy(F.window("dateTime", "10 seconds"))
    best = windows.agg(F.max_by(F.struct("auction", "price", "bidder", "dateTime", "extra"), "price", 8).alias("best"))
    return best.selectExpr("inline(filter(best, one -> one.price = best[0].price))")


def q8(person: DataFrame, auction: DataFrame) -> DataFrame:
    """New sellers."""
    came = person.withWatermark("dateTime", "4 seconds").select("id", "name", F.window("dateTime", "10 seconds"))
    opened = auction.withWatermark("dateTime", "4 seconds")
    opened = opened.groupBy("seller", F.window("dateTime", "10 seconds").alias("opened")).count()
    found = came.join(opened, (came.id == opened.seller) & (came.window == opened.opened))
    return found.select("id", "name", F.col("window.start").alias("starttime"))


def q11(bid: DataFrame) -> DataFrame:
    """Sessions."""
    sessions = bid.withWatermark("dateTime", "4 seconds").groupBy("bidder", F.session_window("dateTime", "10 seconds"))
    counts = sessions.agg(F.count("*").alias("bid_count"))
    ends = (F.col("session_window.start").alias("starttime"), F.col("session_window.end").alias("endtime"))
    return counts.select("bidder", "bid_count", *ends)


def q13(bid: DataFrame, side: DataFrame) -> DataFrame:
    """With a table."""
    return bid.join(side, bid.auction % 10_000 == side.key).select("auction", "bidder", "price", "dateTime", "value")


def q14(bid: DataFrame) -> DataFrame:
    """Computed."""
    hour = F.hour("dateTime")
    kind = F.when(hour.between(8, 18), "dayTime").when((hour <= 6) | (hour >= 20), "nightTime").otherwise("otherTime")
    count = F.length("extra") - F.length(F.replace("extra", F.lit("c"), F.lit("")))
    some = q1(bid).where("price > 1000000 AND price < 50000000")
    return some.select(
        "auction", "bidder", "price", kind.alias("bidTimeType"), "dateTime", "extra", count.alias("c_counts")
    )


def q17(bid: DataFrame) -> DataFrame:
    """Statistics of a day."""
    return bid.groupBy("auction", F.date_format("dateTime", "yyyy-MM-dd").alias("day")).agg(
        F.count("*").alias("total_bids"),
        F.count_if(F.col("price") < 10_000).alias("rank1_bids"),
        F.count_if((F.col("price") >= 10_000) & (F.col("price") < 1_000_000)).alias("rank2_bids"),
        F.count_if(F.col("price") >= 1_000_000).alias("rank3_bids"),
        F.min("price").alias("min_price"),
        F.max("price").alias("max_price"),
        F.avg("price").alias("avg_price"),
        F.sum("price").alias("sum_price"),
    )


def q18(bid: DataFrame) -> DataFrame:
    """Last bids."""
    last = F.max_by(F.struct("price", "channel", "url", "dateTime", "extra"), "dateTime").alias("last")
    return bid.groupBy("bidder", "auction").agg(last).select("bidder", "auction", "last.*")


def q22(bid: DataFrame) -> DataFrame:
    """Folders."""
    parts = F.split("url", "/")
    return bid.select("auction", "bidder", "price", "channel", *(parts[at].alias(f"dir{at - 2}") for at in (3, 4, 5)))


QUERIES: dict[str, Callable[..., DataFrame]] = {
    one.__name__: one for one in (q0, q1, q2, q5, q7, q8, q11, q13, q14, q17, q18, q22)
}


class Peer:
    """One session for all requests."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        jars = ",".join(str(one) for one in JarStore().paths("spark"))
        session = SparkSession.builder.master("local[*]").config("spark.jars", jars)  # without it nothing reads Kafka
        # 1 GB of heap, Spark's own, does not hold two million rows of state; the time zone is that of the rows
        session = session.config("spark.driver.memory", "4g").config("spark.sql.session.timeZone", "UTC")
        self._spark = session.getOrCreate()
        self._spark.sparkContext.setLogLevel("ERROR")

    def run(self, request: dict[str, Any]) -> None:
        """One query until all is read."""
        given = [self._read(table, topic, request["format"]) for table, topic in request["sources"].items()]
        if request["query"] == "q13":
            given.append(self._spark.read.schema("key LONG, value STRING").csv(request["side"]))
        rows = QUERIES[request["query"]](*given).select(F.to_json(F.struct("*")).alias("value"))
        writer = rows.writeStream.format("kafka").option("kafka.bootstrap.servers", self._bootstrap)
        writer = writer.option("topic", request["sink"]).option("checkpointLocation", request["folder"])
        writer = writer.outputMode("update" if request["query"] in UPDATES else "append")
        writer.trigger(availableNow=True).start().awaitTermination()

    def _read(self, table: str, topic: str, form: str) -> DataFrame:
        if form != "json":
            raise ValueError("JSON only")
        reader = self._spark.readStream.format("kafka").option("kafka.bootstrap.servers", self._bootstrap)
        raw = reader.option("subscribe", topic).option("startingOffsets", "earliest").load()
        return raw.select(F.from_json(F.col("value").cast("string"), COLUMNS[table]).alias("row")).select("row.*")


if __name__ == "__main__":
    serve(pyspark.__version__, list(QUERIES), Peer(sys.argv[1]).run)
