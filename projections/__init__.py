"""Keeps read models and secondary indexes in step with an Azure Cosmos DB container."""

from projections.declare import Catalog, Custom, Index, SoftDelete, Source, Target, Throughput
from projections.embed import Embed, Reference
from projections.where import field

__all__ = ["Catalog", "Custom", "Embed", "Index", "Reference", "SoftDelete", "Source", "Target", "Throughput", "field"]
