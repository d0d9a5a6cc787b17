"""Flights as an airline stores them, and six other ways to look at them.

PROJECTIONS_CATALOG=projections.example.flights:catalog. A flight is {"id", "date", "carrier", "flight", "origin",
"dest", "tailnum", "scheduled", "arr_delay", ...}, an airline {"id", "name"}, a plane {"id", "manufacturer", "model",
"seats"}.
"""

from __future__ import annotations

from projections.aggregate import Aggregate
from projections.buckets import TimeBucket
from projections.declare import Catalog, Index, Source
from projections.embed import Embed, Reference
from projections.measures import Avg, Count, Distinct, Max, Sum
from projections.strategies import Concat
from projections.where import field

flights = Source(container="flights", key="/carrier")
airlines = Source(container="airlines", key="/id")
planes = Source(container="planes", key="/id")

# Where has this plane been? Flights without a tail number are left out and counted.
by_plane = Index(name="flights-by-plane", source=flights, key="/tailnum", include=("date", "origin", "dest", "carrier"))

# What leaves this airport on that day? One key of two values, each always known.
by_origin_and_day = Index(
    name="flights-by-origin-and-day",
    source=flights,
    key=Concat("/origin", TimeBucket("/scheduled", "day")),
    include=("flight", "dest", "carrier", "scheduled"),
)

# Who flies this route, all of it or one of its airlines? The route is one value, the airline a level below.
by_route = Index(
    name="flights-by-route",
    source=flights,
    key=(Concat("/origin", "/dest", path="/route"), "/carrier"),
    include=("date", "flight", "tailnum"),
)

# A flight as a traveller sees it, with the names of airline and plane.
with_names = Embed(
    name="flights-with-names",
    source=flights,
    key="/date",
    include=("carrier", "flight", "origin", "dest", "tailnum", "scheduled"),
    references={
        "airline": Reference(source=airlines, id="/carrier", fields=("name",)),
        "plane": Reference(source=planes, id="/tailnum", fields=("manufacturer", "model", "seats")),
    },
)

# How late is this airline, month by month? A flight that was cancelled has no delay, and counts as a flight.
delays = Aggregate(
    name="delays",
    source=flights,
    key=("/carrier", TimeBucket("/scheduled", "month", path="/month")),
    measures={
        "flights": Count(),
        "minutes": Sum("/arr_delay"),
        "mean": Avg("/arr_delay"),
        "worst": Max("/arr_delay"),
        "planes": Distinct("/tailnum"),
    },
)

# The worst delays only: a sparse index.
very_late = Index(name="very-late", source=flights, key="/dest", where=field("/arr_delay") >= 300)

catalog = Catalog(projections=(by_plane, by_origin_and_day, by_route, with_names, delays, very_late))
