"""Request charges in RU: estimates that follow the published figures, so that costs can be compared.

Sources: "Request Units in Azure Cosmos DB" (learn.microsoft.com/azure/cosmos-db/request-units: a point read of a
1 KB item is 1 RU, of a 100 KB item 10 RU), the capacity planner's figures for a 1 KB item (create about
5 RU, replace about 10, delete about 5), and "Optimize request cost" (optimize-cost-reads-writes: queries start at
about 2.3-3 RU, and a write costs less the fewer properties are indexed).
"""

from __future__ import annotations

KB = 1024
POINT_READ = 1.0  # 1 KB item (request-units)
POINT_READ_PER_KB = 9.0 / 99  # so that 100 KB come to 10 RU (request-units)
WRITE = 4.9  # create of 1 KB without its index entries; about 5.5 with five properties (optimize-cost-reads-writes)
WRITE_PER_KB = 0.5  # 100 KB create about 50 RU (optimize-cost-reads-writes)
WRITE_PER_PROPERTY = 0.12  # index entries add to a write (index-policy: "write RU ... indexed paths")
REPLACE_FACTOR = 1.9  # replacing 1 KB is about 10 RU, nearly twice a create (capacity planner)
QUERY = 2.3  # a query that finds nothing, for each physical partition (optimize-cost-reads-writes)
QUERY_PER_ITEM = 0.02  # a page of 100 items of 1 KB by an index costs about 5-6 RU (query-metrics)
QUERY_PER_KB = 0.02
FEED = 1.0  # an empty change feed page (change-feed: charged as reads)
FEED_PER_KB = 0.05
METADATA_READ = 1.0  # portal figure for reading a database or container
METADATA_WRITE = 4.95  # response of CreateContainer in Microsoft's samples


def point_read(size: int) -> float:
    """Reading one item of ``size`` bytes by id and key."""
    return _rounded(POINT_READ + POINT_READ_PER_KB * _beyond_first_kb(size))


def create(size: int, indexed: int) -> float:
    """Writing an item that was not there; a delete costs the same."""
    return _rounded(WRITE + WRITE_PER_KB * _beyond_first_kb(size) + WRITE_PER_PROPERTY * indexed)


def replace(size: int, indexed: int) -> float:
    """Writing over an item: the old index entries go, the new ones come."""
    return _rounded(create(size, indexed) * REPLACE_FACTOR)


def query(partitions: int, scanned: int, size: int) -> float:
    """A query page: a base for each range visited, and a share for each item loaded."""
    return _rounded(QUERY * max(1, partitions) + QUERY_PER_ITEM * scanned + QUERY_PER_KB * size / KB)


def feed(size: int) -> float:
    """A change feed page of ``size`` bytes."""
    return _rounded(FEED + FEED_PER_KB * size / KB)


def _beyond_first_kb(size: int) -> float:
    return max(0, size - KB) / KB


def _rounded(charge: float) -> float:
    return round(charge, 2)
