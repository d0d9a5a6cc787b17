"""A catalog with projections that a native index could stand in for, and with others."""

from __future__ import annotations

from projections import Catalog, Index, Source, Target, Throughput, field, gsi

orders = Source(container="orders", key="/customerId")

catalog = Catalog(
    projections=(
        gsi.index("SELECT c.id, c.ship.city FROM c", name="by-city", source=orders, key="/city"),
        Index(name="by-no", source=orders, key="/no", target=Target(throughput=Throughput(autoscale=4000))),
        Index(name="big", source=orders, key="/no", where=field("/total") > 500),
    )
)
