"""Orders of version 1 as orders of version 2: who reads `orders.v2` never sees the old ones.

A price became an amount with a currency, which no reader of the old rows could take: so it is a new topic version,
and this pipeline brings the old one along until the last producer has moved.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import penstock as ps

upcast = ps.Pipeline("upcast-orders")
upcast.source("orders_v1", ps.Kafka("orders.v1", format=ps.Avro("schemas/order-v1.avsc")))


@upcast.flow(expect={"has an amount": "price.amount IS NOT NULL"})
def orders_v2(orders_v1: DataFrame) -> DataFrame:
    """One old order as a new one."""
    price = F.struct(F.col("amount").cast("decimal(18,2)").alias("amount"), F.lit("EUR").alias("currency"))
    return orders_v1.select("order_id", price.alias("price"), "created_at", "channel")


upcast.sink(orders_v2, ps.Kafka("orders.v2", key="order_id", format=ps.Avro("schemas/order-v2.avsc")))
