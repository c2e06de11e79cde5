"""The orders platform: what a shop sells, who pays with which card, who looks and clicks, as it happens."""

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import penstock as ps

shop = ps.Pipeline("orders")

# In: topics that the shop writes, with registered Avro schemas or as JSON; its tables, captured from PostgreSQL.


def streamed(name: str, time: str, kind: ps.Avro | ps.Json) -> None:
    """Rows up to two minutes out of order are waited for; what comes later is a dead letter of the flow it missed."""
    shop.source(name, ps.Kafka(name, format=kind), time=ps.EventTime(time, delay="2 minutes", late="keep"))


streamed("orders", "ordered_at", ps.Avro())
streamed("payments", "paid_at", ps.Avro())
streamed("impressions", "shown_at", ps.Json("impression_id LONG, ad STRING, customer_id LONG, shown_at TIMESTAMP"))
streamed("clicks", "clicked_at", ps.Json("impression_id LONG, clicked_at TIMESTAMP"))
shop.source("customer_changes", ps.Changes("shop.shop.customers"))
shop.source("product_changes", ps.Changes("shop.shop.products"))
shop.table("customers", ps.Changes("shop.shop.customers"))
shop.table("products", ps.Changes("shop.shop.products"))

# Orders: checked, with the customer and the product as they are now; by their key, so that a copy changes nothing.


@shop.flow(expect={"positive amount": "amount > 0", "known currency": "currency IN ('EUR', 'USD')"})
def valid_orders(orders: DataFrame) -> DataFrame:
    return orders


@shop.flow
def enriched(valid_orders: DataFrame, customers: DataFrame, products: DataFrame) -> DataFrame:
    who, what = customers.select("customer_id", "name", "tier"), products.select("product_id", "title", "category")
    return valid_orders.join(who, "customer_id", "left").join(what, "product_id", "left")


shop.sink(enriched, ps.Postgres("reports.orders", key="order_id", create=True))
shop.sink(enriched, ps.Iceberg("lake.orders", key="order_id"))
shop.sink(enriched, ps.OpenSearch("orders", key="order_id"))


@shop.flow
def order_metrics(valid_orders: DataFrame) -> DataFrame:
    once = ps.deduplicated(valid_orders, by="order_id", within="1 hour")
    windows = once.groupBy(F.window("ordered_at", "1 hour", "5 minutes"), "customer_id")
    return windows.agg(F.count("*").alias("orders"), F.sum("amount").alias("spent"))


shop.sink(order_metrics, ps.Kafka("order-metrics", key="customer_id"), guarantee="exactly-once")

# Payments: all of them in the lake; a stolen card shows in what it is used for.


@shop.flow(expect={"positive amount": "amount > 0", "a card": "card IS NOT NULL"})
def valid_payments(payments: DataFrame) -> DataFrame:
    return payments


@shop.keyed(by="card", returns="card STRING, payment_id LONG, amount DECIMAL(12, 2), paid_at TIMESTAMP")
class fraud:  # noqa: N801
    """A small payment, then one above 10,000 within a minute."""

    small = ps.ValueState("BOOLEAN", ttl="1 minute")

    def on_event(self, valid_payments: dict[str, Any], now: Any) -> None:
        if valid_payments["amount"] < 1:
            self.small.set(True)
        elif valid_payments["amount"] > 10_000 and self.small.get():
            now.emit({name: valid_payments[name] for name in ("card", "payment_id", "amount", "paid_at")})


@shop.flow
def failing_cards(valid_payments: DataFrame) -> DataFrame:
    three = ps.pattern("failed", "state = 'failed'").times(3).within("5 minutes").skip("past")
    return ps.matches(valid_payments, three, by="card").selectExpr(
        "card", "failed.payment_id AS payments", "start", "end"
    )


shop.sink(valid_payments, ps.Iceberg("lake.payments", key="payment_id"))
shop.sink(fraud, ps.Kafka("fraud-alerts", key="card"))
shop.sink(failing_cards, ps.Kafka("failing-cards", key="card"))

# Advertising: what was shown and clicked within half an hour.


@shop.flow
def clicked(impressions: DataFrame, clicks: DataFrame) -> DataFrame:
    clicks = clicks.withColumnRenamed("impression_id", "clicked")
    soon = "clicked = impression_id AND clicked_at BETWEEN shown_at AND shown_at + INTERVAL 30 MINUTES"
    return impressions.join(clicks, F.expr(soon)).drop("clicked")


shop.sink(clicked, ps.Iceberg("lake.clicked"))

# The shop's own tables, in the lake as they are now.


@shop.flow
def customers_now(customer_changes: DataFrame) -> DataFrame:
    return ps.rows_of(customer_changes)


@shop.flow
def products_now(product_changes: DataFrame) -> DataFrame:
    return ps.rows_of(product_changes)


shop.sink(customers_now, ps.Iceberg("lake.customers", key="customer_id"))
shop.sink(products_now, ps.Iceberg("lake.products", key="product_id"))
