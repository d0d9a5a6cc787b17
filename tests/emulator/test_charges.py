"""Request charges stay near the published figures, and in their order."""

from __future__ import annotations

from azure.cosmos import PartitionKey
from azure.cosmos.aio import ContainerProxy, DatabaseProxy

from projections.emulator import charges

from .conftest import listed


def charge(container: ContainerProxy) -> float:
    return float(container.client_connection.last_response_headers["x-ms-request-charge"])


def test_a_point_read_is_1_for_1_kb_and_10_for_100() -> None:
    assert charges.point_read(1024) == 1.0
    assert charges.point_read(100 * 1024) == 10.0


def test_writes_cost_by_size_and_indexed_properties() -> None:
    assert 5 <= charges.create(1024, 5) <= 6
    assert 45 <= charges.create(100 * 1024, 5) <= 60
    assert charges.create(1024, 0) < charges.create(1024, 5) < charges.create(1024, 50)
    assert 1.7 <= charges.replace(1024, 5) / charges.create(1024, 5) <= 2


async def test_the_order_of_costs(container: ContainerProxy) -> None:
    item = {"id": "1", "pk": "a", "x": "y" * 700}
    await container.upsert_item(item)
    create = charge(container)
    await container.upsert_item(item)
    replace = charge(container)
    await container.read_item("1", "a")
    read = charge(container)
    await container.delete_item("1", "a")
    delete = charge(container)
    assert read == 1.0
    assert 4.5 < create == delete < 7
    assert replace > 1.7 * create


async def test_without_an_index_a_write_is_cheaper(database: DatabaseProxy, container: ContainerProxy) -> None:
    policy = {"indexingMode": "consistent", "includedPaths": [], "excludedPaths": [{"path": "/*"}]}
    bare = await database.create_container("bare", PartitionKey("/pk"), indexing_policy=policy)
    item = {"id": "1", "pk": "a"} | {f"f{n}": n for n in range(20)}
    await container.create_item(item)
    full = charge(container)
    await bare.create_item(item)
    assert charge(bare) < full - 2


async def test_a_query_costs_by_range_and_by_items(wide: ContainerProxy, container: ContainerProxy) -> None:
    await listed(container.query_items("SELECT * FROM c WHERE c.x = 1"))
    empty = charge(container)
    assert 2.3 <= empty <= 3
    for n in range(50):
        await container.create_item({"id": str(n), "pk": "a"})
    await listed(container.query_items("SELECT * FROM c"))
    assert charge(container) > empty
    await listed(wide.query_items("SELECT * FROM c ORDER BY c.x"))
    assert charge(wide) > 2.9 * empty
