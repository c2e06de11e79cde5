"""Two captured tables joined: whatever changes on either side, every sink has what the database would answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import penstock as ps
from penstock.broker import read
from penstock.cdc import Captures
from penstock.errors import DeclarationError
from penstock.pipeline.compile import compile_pipeline
from penstock.pipeline.run import start
from tests.cdc.conftest import Shop
from tests.cdc.test_changes import caught_up, in_lake

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame

    from penstock.connectors.base import Context
    from tests.conftest import Project

COLUMNS = {"id": "left.id", "amount": "left.amount", "name": "right.name"}


@pytest.fixture
def both(platform: Project) -> Iterator[Shop]:
    """Orders and customers, captured."""
    made = Shop(platform, ("customers", "orders"))
    made.sql("CREATE TABLE orders (id bigint PRIMARY KEY, customer int, amount numeric(10,2))")
    with Captures(made.settings) as captures:
        captures.create(made.capture)
    yield made
    made.close()


def joined(shop: Shop, how: str = "left", columns: dict[str, str] | None = None, **on: str) -> ps.Pipeline:
    pipeline = ps.Pipeline(f"joined-{shop.name}")
    for table in ("orders", "customers"):
        pipeline.source(table, ps.Changes(shop.topic(table)))

    @pipeline.flow(unbounded=True)
    def named(orders: DataFrame, customers: DataFrame) -> DataFrame:
        return ps.view(orders, customers, on=on or {"customer": "id"}, how=how, columns=columns)

    return pipeline


def test_every_change_of_either_side_corrects_it(both: Shop, context: Context, topic: Callable[..., str]) -> None:
    out = topic("named")
    pipeline = joined(both, columns=COLUMNS)
    pipeline.sink("named", ps.Postgres(f"{both.name}.copy", key="id", create=True))
    pipeline.sink("named", ps.Iceberg(f"{both.name}.named", key="id"))
    pipeline.sink("named", ps.Kafka(out, key="id"))
    own = both.into(context)
    counts = {"customers": 0, "orders": 0}

    def step(changes: dict[str, int], *statements: str) -> list[tuple[Any, ...]]:
        both.sql(*statements)
        for table, more in changes.items():
            counts[table] += more
            both.wait_for(counts[table], table)
        caught_up(pipeline, own)
        wanted = both.sql(
            "SELECT o.id, o.amount, c.name FROM orders AS o LEFT JOIN customers AS c ON c.id = o.customer ORDER BY 1"
        )
        assert both.sql("SELECT id, amount, name FROM copy ORDER BY id") == wanted
        lake = in_lake(own, f"{both.name}.named")
        assert sorted((one["id"], one["amount"], one["name"]) for one in lake) == wanted
        last = {one.key: one.json() if one.value is not None else None for one in read(both.settings.kafka, out)}
        shown = [(one["id"], one.get("name")) for one in last.values() if one is not None]
        assert sorted(shown) == [(key, name) for key, _, name in wanted]
        return wanted

    added = (
        "INSERT INTO customers VALUES (1, 'Ada', NULL), (2, 'Bob', NULL)",
        "INSERT INTO orders VALUES (10, 1, 5), (11, 1, 6), (12, 2, 7), (13, NULL, 8), (14, 3, 9)",
    )
    assert [one[2] for one in step({"customers": 2, "orders": 5}, *added)] == ["Ada", "Ada", "Bob", None, None]
    moved = (
        "UPDATE orders SET customer = 2 WHERE id = 10",
        "UPDATE orders SET customer = 1 WHERE id = 12",
        "UPDATE orders SET amount = 66 WHERE id = 11",
    )
    step({"orders": 3, "customers": 1}, *moved, "UPDATE customers SET name = 'Eve' WHERE id = 1")
    before = len(list(read(both.settings.kafka, out)))
    step({"customers": 1}, "UPDATE customers SET name = 'Zed' WHERE id = 2")
    assert len(list(read(both.settings.kafka, out))) - before == 1  # one order is Bob's, nothing else is touched
    gone = ("DELETE FROM customers WHERE id = 1", "DELETE FROM orders WHERE id = 14")
    step({"customers": 2, "orders": 1}, *gone, "INSERT INTO customers VALUES (3, 'Cid', NULL)")


def sunk(pipeline: ps.Pipeline, shop: Shop) -> ps.Pipeline:
    pipeline.sink("named", ps.Postgres(f"{shop.name}.copy", key="id", create=True))
    return pipeline


def test_binary_keys_and_replaced_partners(both: Shop, context: Context) -> None:
    """A price list by a code that is not its key: the code moves from one row to another, in whatever order."""
    both.sql(
        "ALTER TABLE customers ADD COLUMN code bytea",
        "ALTER TABLE orders ADD COLUMN code bytea",
        "INSERT INTO customers VALUES (1, 'Ada', NULL, '\\xff'), (2, 'Bob', NULL, '\\xfe')",
        "INSERT INTO orders VALUES (10, NULL, 5, '\\xff'), (11, NULL, 6, '\\xfe'), (12, NULL, 7, '\\x80')",
    )
    both.wait_for(2)
    both.wait_for(3, "orders")
    own = both.into(context)
    pipeline = sunk(joined(both, "left", COLUMNS, code="code"), both)

    def same() -> bool:
        caught_up(pipeline, own)
        wanted = both.sql("SELECT o.id, c.name FROM orders AS o LEFT JOIN customers AS c USING (code) ORDER BY 1")
        return both.sql("SELECT id, name FROM copy ORDER BY id") == wanted

    assert same()
    both.sql("INSERT INTO customers VALUES (3, 'Cid', NULL, '\\xff')")
    both.wait_for(3)
    caught_up(pipeline, own)  # two have the code for a while
    both.sql("DELETE FROM customers WHERE id = 1")
    both.wait_for(4)
    assert same()


def test_what_can_not_be_joined_is_refused(both: Shop, context: Context) -> None:
    own = both.into(context)

    def refused(pipeline: ps.Pipeline) -> str:
        pipeline.sink("named", ps.Postgres(f"{both.name}.copy", key="id", create=True))
        with pytest.raises(DeclarationError) as told:
            compile_pipeline(pipeline, own)
        return str(told.value)

    assert "Both tables have a column 'id'" in refused(joined(both, customer="city"))
    assert "customer is int and name is string" in refused(joined(both, columns=COLUMNS, customer="name"))
    lost = joined(both, columns=COLUMNS)

    @lost.flow
    def shown(named: DataFrame) -> DataFrame:
        return named.select("id", "name")

    lost.sink(shown, ps.Postgres(f"{both.name}.shown", key="id", create=True))
    assert "do not say any more which of them delete" in refused(lost)
    kept = [compile_pipeline(sunk(joined(both, how, COLUMNS), both), own).queries[0].state for how in ("inner", "left")]
    assert kept[0] != kept[1]  # one can't go on from the other's checkpoint
    assert "how='outer' is not known" in refused(joined(both, "outer", COLUMNS))
    weak = joined(both, columns=COLUMNS)
    weak.sink("named", ps.Kafka(f"{both.name}-weak", key="id"), guarantee="at-least-once")
    with pytest.raises(DeclarationError, match="which Spark's own writer does not keep"):
        start(compile_pipeline(weak, own), own, until_caught_up=True)
