"""Keeps read models and secondary indexes in step with an Azure Cosmos DB container."""

from projections.aggregate import Aggregate
from projections.declare import Catalog, Custom, Index, SoftDelete, Source, Target, Throughput
from projections.embed import Embed, Reference
from projections.measures import Avg, Count, Distinct, Max, Min, Sum
from projections.where import field

__all__ = [
    "Aggregate", "Avg", "Catalog", "Count", "Custom", "Distinct", "Embed", "Index", "Max", "Min", "Reference",
    "SoftDelete", "Source", "Sum", "Target", "Throughput", "field",
]  # fmt: skip
