"""More of the shop of the demo: lines, customers, totals.

PROJECTIONS_CATALOG=projections.example.shop:catalog. An order is {"id", "customerId", "orderId", "createdAt", "total",
"status", "lines": [{"product", "price", "quantity"}]}, a customer {"id", "name", "city"}.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from projections.aggregate import Aggregate
from projections.buckets import TimeBucket
from projections.declare import Catalog, Custom, Index, SoftDelete, Source
from projections.embed import Embed, Reference
from projections.measures import Avg, Count, Distinct, Max, Sum
from projections.strategies import HashSuffix, RandomSuffix

orders = Source(container="orders", key="/customerId")
customers = Source(container="customers", key="/id")
deleted = SoftDelete("/deleted", equals=(True,))

# Who bought this product? One entry for every line of every order.
lines_by_product = Index(
    name="lines-by-product",
    source=orders,
    key="/lines/product",
    each="/lines",
    include=("orderId", "customerId", "lines"),
    deletes=deleted,
)

# What does a customer spend, month by month?
by_month = Aggregate(
    name="spent-by-month",
    source=orders,
    key=("/customerId", TimeBucket("/createdAt", "month", path="/month")),
    measures={"orders": Count(), "spent": Sum("/total"), "mean": Avg("/total"), "largest": Max("/total")},
    deletes=deleted,
)

# How does a product sell? Every order has a part in few products: the groups are hot, and each is spread over eight.
sold = Aggregate(
    name="sold-by-product",
    source=orders,
    key=HashSuffix("/lines/product", of="/customerId", count=8),
    each="/lines",
    measures={"quantity": Sum("/lines/quantity"), "customers": Distinct("/customerId")},
    deletes=deleted,
)

# An order as the packer needs it: with the customer's name and city.
with_customer = Embed(
    name="orders-with-customer",
    source=orders,
    key="/orderId",
    include=("customerId", "status", "total"),
    references={"customer": Reference(source=customers, id="/customerId", fields=("name", "city"))},
    deletes=deleted,
)

# All that is open, spread over four keys, since everything begins there.
open_orders = Index(
    name="open-orders",
    source=orders,
    key=RandomSuffix("/status", count=4),
    where=lambda order: order.get("status") == "open",
    include=("orderId", "total"),
    deletes=deleted,
)


def pairs(order: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Products that were bought together: what no other kind can say."""
    products = sorted({line["product"] for line in order.get("lines") or ()})
    for n, one in enumerate(products):
        for other in products[n + 1 :]:
            yield {"product": one, "with": other, "orderId": order["orderId"]}


bought_together = Custom(
    name="bought-together", source=orders, key="/product", project=pairs, by=("/product", "/with"), deletes=deleted
)

catalog = Catalog(projections=(lines_by_product, by_month, sold, with_customer, open_orders, bought_together))
