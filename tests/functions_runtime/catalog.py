"""The catalog that the app's tests run: the example's projections, and one whose source is full of dates."""

from projections.declare import Catalog, Index, Source
from projections.example import catalog as example

# A reading's id is the moment it was taken at, and its key the start of its day.
readings = Index(name="readings.by-device", source=Source(container="readings", key="/day"), key="/device")

catalog = Catalog(projections=(*example.projections, readings))
