"""Databases, containers and throughput: what is filled in, what is refused, what can be changed."""

from __future__ import annotations

from typing import Any

import pytest
from azure.cosmos import PartitionKey, ThroughputProperties
from azure.cosmos.aio import ContainerProxy, CosmosClient, DatabaseProxy
from azure.cosmos.exceptions import CosmosHttpResponseError, CosmosResourceExistsError, CosmosResourceNotFoundError

from .conftest import Call, listed


async def test_a_definition_is_completed_as_by_the_service(database: DatabaseProxy, call: Call) -> None:
    made = await call("POST", "/dbs/shop/colls", {"id": "js", "partitionKey": {"paths": ["/pk"]}})
    body = made.json
    assert body["partitionKey"] == {"paths": ["/pk"], "kind": "Hash", "version": 1}
    assert body["indexingPolicy"]["indexingMode"] == "consistent"
    assert body["indexingPolicy"]["includedPaths"] == [{"path": "/*"}]
    assert body["indexingPolicy"]["excludedPaths"] == [{"path": '/"_etag"/?'}]
    assert body["conflictResolutionPolicy"]["mode"] == "LastWriterWins"
    assert body["geospatialConfig"] == {"type": "Geography"}
    assert body["_self"] == f"dbs/{(await database.read())['_rid']}/colls/{body['_rid']}/"


@pytest.mark.parametrize(
    ("definition", "says"),
    [
        ({"id": "x", "partitionKey": {"paths": ["/a", "/b"]}}, "Too many partition key paths"),
        ({"id": "x", "partitionKey": {"paths": ["/a", "/b", "/c", "/d"], "kind": "MultiHash"}}, "Too many"),
        ({"id": "x", "partitionKey": {"paths": []}}, "paths"),
        ({"id": "x", "partitionKey": {"paths": ["a"]}}, "start with"),
        ({"id": "x" * 255, "partitionKey": {"paths": ["/a"]}}, "less than '255' characters"),
        ({"id": "", "partitionKey": {"paths": ["/a"]}}, "non-empty"),
        ({"id": "a/b", "partitionKey": {"paths": ["/a"]}}, "may not contain"),
        ({"id": "x", "partitionKey": {"paths": ["/a"]}, "defaultTtl": 0}, "ttl"),
        ({"id": "x", "partitionKey": {"paths": ["/a"]}, "changeFeedPolicy": {}}, "retentionDuration"),
        ({"id": "x", "partitionKey": {"paths": ["/a"]}, "uniqueKeyPolicy": {"uniqueKeys": [{}]}}, "uniqueKeys"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
async def test_what_a_definition_may_not_be(database: DatabaseProxy, call: Call, definition: Any, says: str) -> None:
    answer = await call("POST", "/dbs/shop/colls", definition)
    assert answer.status == 400
    assert says in answer.json["message"]


async def test_a_replace_keeps_the_items_and_the_key(database: DatabaseProxy, container: ContainerProxy) -> None:
    await container.create_item({"id": "1", "pk": "a"})
    await database.replace_container(container, PartitionKey("/pk"), default_ttl=77)
    assert (await container.read())["defaultTtl"] == 77
    assert await container.read_item("1", "a")
    with pytest.raises(CosmosHttpResponseError) as refused:
        await database.replace_container(container, PartitionKey("/other"))
    assert refused.value.status_code == 400


async def test_deleting_takes_everything_below(client: CosmosClient, database: DatabaseProxy) -> None:
    container = await database.create_container("items", PartitionKey("/pk"), offer_throughput=400)
    await container.create_item({"id": "1", "pk": "a"})
    await client.delete_database("shop")
    with pytest.raises(CosmosResourceNotFoundError):
        await client.get_database_client("shop").read()
    again = await client.create_database("shop")
    fresh = await again.create_container("items", PartitionKey("/pk"))
    assert await listed(fresh.read_all_items()) == []
    with pytest.raises(CosmosResourceExistsError):
        await client.create_database("shop")


async def test_autoscale_and_manual_throughput(database: DatabaseProxy) -> None:
    auto = await database.create_container(
        "auto", PartitionKey("/pk"), offer_throughput=ThroughputProperties(auto_scale_max_throughput=4000)
    )
    offer = await auto.get_throughput()
    assert offer.auto_scale_max_throughput == 4000
    await auto.replace_throughput(ThroughputProperties(auto_scale_max_throughput=5000))
    assert (await auto.get_throughput()).auto_scale_max_throughput == 5000
    with pytest.raises(CosmosHttpResponseError, match="less than required minimum throughput 1000"):
        await auto.replace_throughput(ThroughputProperties(auto_scale_max_throughput=-200))
    for wrong in (300, 450):
        with pytest.raises(CosmosHttpResponseError) as refused:
            await database.create_container("wrong", PartitionKey("/pk"), offer_throughput=wrong)
        assert refused.value.status_code == 400


async def test_a_database_can_share_its_throughput(client: CosmosClient, call: Call) -> None:
    database = await client.create_database("shared", offer_throughput=1000)
    assert (await database.get_throughput()).offer_throughput == 1000
    container = await database.create_container("c", PartitionKey("/pk"))
    query = {"query": f"SELECT * FROM c WHERE c.resource = '{(await container.read())['_self']}'"}
    assert (await call("POST", "/offers", query, {"content-type": "application/query+json"})).json["Offers"] == []
    own = await database.create_container("own", PartitionKey("/pk"), offer_throughput=500)
    assert (await own.get_throughput()).offer_throughput == 500


async def test_offers_can_be_asked_for_with_the_link_inlined(container: ContainerProxy, call: Call) -> None:
    link = (await container.read())["_self"]
    query = {"query": f"SELECT * from root where root.resource = '{link}'"}
    answer = await call("POST", "/offers", query, {"content-type": "application/query+json"})
    assert answer.json["Offers"][0]["content"]["offerThroughput"] == 400
    assert answer.json["Offers"][0]["resource"] == link


async def test_quota_and_statistics_on_request(container: ContainerProxy) -> None:
    for n in range(3):
        await container.create_item({"id": str(n), "pk": "a"})
    seen = await container.read(populate_quota_info=True, populate_partition_key_range_statistics=True)
    assert "documentsCount=3" in container.client_connection.last_response_headers["x-ms-resource-usage"]
    assert seen["statistics"][0]["documentCount"] == 3
