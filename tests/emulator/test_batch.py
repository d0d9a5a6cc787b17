"""Transactional batches: all or nothing, one LSN, one logical partition."""

from __future__ import annotations

from typing import Any

import pytest
from azure.cosmos import PartitionKey
from azure.cosmos.aio import ContainerProxy, DatabaseProxy
from azure.cosmos.exceptions import CosmosBatchOperationError, CosmosHttpResponseError

from .conftest import Call, listed


async def test_all_six_operations_and_their_codes(container: ContainerProxy) -> None:
    await container.create_item({"id": "old", "pk": "a", "n": 1})
    results = await container.execute_item_batch(
        [
            ("create", ({"id": "new", "pk": "a"},)),
            ("upsert", ({"id": "up", "pk": "a"},)),
            ("upsert", ({"id": "up", "pk": "a", "n": 2},)),
            ("replace", ("new", {"id": "new", "pk": "a", "n": 3})),
            (
                "patch",
                ("old", [{"op": "incr", "path": "/n", "value": 4}]),
                {"filter_predicate": "FROM c WHERE c.n = 1"},
            ),
            ("read", ("old",)),
            ("delete", ("up",)),
        ],
        "a",
    )
    assert [one["statusCode"] for one in results] == [201, 201, 200, 200, 200, 200, 204]
    assert results[5]["resourceBody"]["n"] == 5
    assert results[0]["eTag"] == results[0]["resourceBody"]["_etag"]
    assert results[0]["eTag"] != results[3]["eTag"]
    assert sorted(one["id"] for one in await listed(container.read_all_items())) == ["new", "old"]


@pytest.mark.parametrize(
    ("operation", "code"),
    [
        (("create", ({"id": "old", "pk": "a"},)), 409),
        (("read", ("gone",)), 404),
        (("delete", ("gone",)), 404),
        (("replace", ("gone", {"id": "gone", "pk": "a"})), 404),
        (("replace", ("old", {"id": "old", "pk": "a"}), {"if_match_etag": '"no"'}), 412),
        (("create", ({"id": "x", "pk": "b"},)), 400),
        (
            ("patch", ("old", [{"op": "set", "path": "/n", "value": 1}]), {"filter_predicate": "FROM c WHERE false"}),
            412,
        ),
    ],
    ids=lambda one: str(one)[:40],
)
async def test_one_failure_undoes_all(container: ContainerProxy, operation: tuple[Any, ...], code: int) -> None:
    await container.create_item({"id": "old", "pk": "a", "n": 0})
    before = await listed(container.query_items_change_feed(start_time="Beginning"))
    with pytest.raises(CosmosBatchOperationError) as failed:
        await container.execute_item_batch(
            [("upsert", ({"id": "first", "pk": "a"},)), operation, ("delete", ("old",))], "a"
        )
    assert [one["statusCode"] for one in failed.value.operation_responses] == [424, code, 424]
    assert failed.value.error_index == 1
    assert await listed(container.query_items_change_feed(start_time="Beginning")) == before


async def test_a_batch_is_one_lsn_and_no_feed_page_cuts_it(container: ContainerProxy, call: Call) -> None:
    await container.create_item({"id": "0", "pk": "a"})
    await container.execute_item_batch([("create", ({"id": f"b{n}", "pk": "a"},)) for n in range(10)], "a")
    await container.create_item({"id": "9", "pk": "a"})
    feed = {"A-IM": "Incremental Feed", "x-ms-documentdb-partitionkeyrangeid": "0", "x-ms-max-item-count": "3"}
    path = "/dbs/shop/colls/items/docs"
    first = await call("GET", path, headers=feed)
    assert [one["_lsn"] for one in first.json["Documents"]] == [1] + [2] * 10
    second = await call("GET", path, headers=feed | {"If-None-Match": first.headers["etag"]})
    assert [one["_lsn"] for one in second.json["Documents"]] == [3]


async def test_limits(container: ContainerProxy, database: DatabaseProxy) -> None:
    def creates(count: int, fill: str = "") -> list[Any]:
        return [("create", ({"id": str(n), "pk": "a", "x": fill},)) for n in range(count)]

    with pytest.raises(CosmosHttpResponseError, match="no operations"):
        await container.execute_item_batch([], "a")
    with pytest.raises(CosmosHttpResponseError, match="more operations than what is supported"):
        await container.execute_item_batch(creates(101), "a")
    with pytest.raises(CosmosHttpResponseError) as large:
        await container.execute_item_batch(creates(3, "y" * 800_000), "a")
    assert large.value.status_code == 413
    assert len(await container.execute_item_batch(creates(100), "a")) == 100
    deep = await database.create_container("deep", PartitionKey(["/t", "/u"]))
    with pytest.raises(CosmosHttpResponseError, match="doesn't correspond to definition"):
        await deep.execute_item_batch([("create", ({"id": "1", "t": "a", "u": "b"},))], ["a"])


async def test_the_charge_is_that_of_its_operations(container: ContainerProxy) -> None:
    results = await container.execute_item_batch(
        [("create", ({"id": "1", "pk": "a"},)), ("read", ("1",)), ("upsert", ({"id": "1", "pk": "a"},))], "a"
    )
    charge = float(container.client_connection.last_response_headers["x-ms-request-charge"])
    assert charge == pytest.approx(sum(one["requestCharge"] for one in results), abs=0.02)
