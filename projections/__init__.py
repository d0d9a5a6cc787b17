"""Keeps read models and secondary indexes in step with an Azure Cosmos DB container."""

from projections.aggregate import Aggregate
from projections.buckets import Span, TimeBucket
from projections.declare import Catalog, Custom, Index, SoftDelete, Source, Target, Throughput
from projections.embed import Embed, Reference
from projections.measures import Avg, Count, Distinct, Max, Min, Sum
from projections.strategies import Concat, HashSuffix, RandomSuffix
from projections.where import field

__all__ = [
    "Aggregate", "Avg", "Catalog", "Concat", "Count", "Custom", "Distinct", "Embed", "HashSuffix", "Index", "Max",
    "Min", "RandomSuffix", "Reference", "SoftDelete", "Source", "Span", "Sum", "Target", "Throughput", "TimeBucket",
    "field",
]  # fmt: skip
