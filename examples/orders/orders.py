"""Orders come in, broken ones go to the dead letters, metrics per customer and ten seconds go out."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import penstock as ps

shop = ps.Pipeline("orders")

shop.source(
    "orders",
    ps.Kafka(
        "orders",
        format=ps.Json("order_id LONG, customer_id LONG, amount DOUBLE, currency STRING, created_at TIMESTAMP"),
        start="latest",
    ),
    time=ps.EventTime("created_at", delay="5 seconds"),
)


@shop.flow(expect={"positive amount": "amount > 0", "known currency": "currency IN ('EUR', 'USD')"})
def valid_orders(orders: DataFrame) -> DataFrame:
    """A row that breaks a rule goes to the topic orders-dead-letters."""
    return orders


@shop.flow
def order_metrics(valid_orders: DataFrame) -> DataFrame:
    """Orders and money per customer in windows of ten seconds."""
    windows = valid_orders.groupBy(F.window("created_at", "10 seconds"), "customer_id")
    return windows.agg(F.count("*").alias("orders"), F.round(F.sum("amount"), 2).alias("spent")).select(
        F.date_format("window.start", "HH:mm:ss").alias("since"), "customer_id", "orders", "spent"
    )


shop.sink(order_metrics, ps.Kafka("order-metrics", key="customer_id"))
