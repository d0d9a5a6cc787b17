"""Catalogs as they follow one another when a projection is changed."""

from __future__ import annotations

from typing import Any

from projections.declare import Catalog, Index, Source
from projections.where import field

ORDERS = Source(container="orders", key="/customerId")
ONE = Index(name="by-number", source=ORDERS, key="/orderId")
TWO = Index(name="by-number", version=2, source=ORDERS, key=("/orderId", "/status"), include=("total",))


def dear(item: Any) -> bool:
    return bool(item["total"] > 5)


def cheap(item: Any) -> bool:
    return bool(item["total"] < 5)


before = Catalog(projections=(ONE,))
both = Catalog(projections=(ONE, TWO))
after = Catalog(projections=(TWO,))
rekeyed = Catalog(projections=(Index(name="by-number", source=ORDERS, key="/orderId", placement_buckets=4),))
narrowed = Catalog(projections=(Index(name="by-number", source=ORDERS, key="/orderId", where=field("/total") > 5),))
judged = Catalog(projections=(Index(name="by-number", source=ORDERS, key="/orderId", where=dear),))
judged_again = Catalog(projections=(Index(name="by-number", source=ORDERS, key="/orderId", where=cheap),))
