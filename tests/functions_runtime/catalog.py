"""The catalog that the app's tests run: the example's projections, and one whose source is full of dates."""

from projections.declare import Catalog, Index, Source
from projections.embed import Embed, Reference
from projections.example import catalog as example

# A reading's id is the moment it was taken at, and its key the start of its day.
readings = Index(name="readings.by-device", source=Source(container="readings", key="/day"), key="/device")

catalog = Catalog(projections=(*example.projections, readings))

# Sources that tell of deletes: of one with dates for identities, and of items that are referred to.
ALL = "AllVersionsAndDeletes"
orders = Source(container="orders", key="/customerId", mode=ALL)
customers = Source(container="customers", key="/id", mode=ALL)
versions = Catalog(
    projections=(
        Index(name="by-status", source=orders, key="/status"),
        Index(name="by-device", source=Source(container="readings", key="/day", mode=ALL), key="/device"),
        Embed(
            name="named",
            source=orders,
            key="/status",
            references={"buyer": Reference(source=customers, id="/customerId", fields=("name",))},
        ),
    )
)
