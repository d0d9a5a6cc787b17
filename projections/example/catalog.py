"""The example's catalog: orders are stored by customer, and looked for by number, by status and by region."""

from __future__ import annotations

from projections.declare import Catalog, Index, SoftDelete, Source
from projections.example.models import Order
from projections.where import field

BIG = 500
"""The total from which on an open order is watched."""

orders = Source(container="orders", key="/customerId")
deleted = SoftDelete("/deleted", equals=(True,))

# A whole order by its number: one partition to ask instead of all of them.
by_id = Index(name="orders-by-id", source=orders, key="/orderId", deletes=deleted)

# A short form under a key that changes: an order moves when its status does.
by_status = Index(
    name="orders-by-status",
    source=orders,
    key="/status",
    include=("orderId", "customerId", "total", "createdAt"),
    deletes=deleted,
)

# Only the few that matter, checked against a model, under a key of two levels: ask for a region or a customer in it.
big_open = Index(
    name="big-open-orders",
    source=orders,
    key=("/region", "/customerId"),
    include=("orderId", "total", "createdAt"),
    where=(field("/status") == "open") & (field("/total") >= BIG),
    model=Order,
    deletes=deleted,
)

catalog = Catalog(projections=(by_id, by_status, big_open))
