"""Queries through the SDK: scopes, pages, continuations, read_items."""

from __future__ import annotations

from typing import Any

import pytest
from azure.cosmos import PartitionKey
from azure.cosmos.aio import ContainerProxy, CosmosClient, DatabaseProxy
from azure.cosmos.exceptions import CosmosHttpResponseError

from projections.emulator import EMULATOR_KEY, Emulator

from .conftest import Call, listed

QUERY = {"x-ms-documentdb-isquery": "true", "content-type": "application/query+json"}
CROSS = QUERY | {"x-ms-documentdb-query-enablecrosspartition": "True"}
WIDE = "/dbs/shop/colls/wide/docs"


async def fill(container: ContainerProxy, count: int = 30) -> None:
    for n in range(count):
        await container.create_item({"id": str(n), "pk": f"p{n % 10}", "n": n, "tags": list(range(n % 4))})


async def test_cross_partition_has_to_be_wanted_unless_the_key_is_pinned(wide: ContainerProxy, call: Call) -> None:
    await fill(wide)
    refused = await call("POST", WIDE, {"query": "SELECT * FROM c WHERE c.n > 3"}, QUERY)
    assert refused.status == 400
    assert "Cross partition query is required but disabled" in refused.json["message"]
    pinned = {
        "query": "SELECT VALUE c.id FROM c WHERE c.n > 3 AND c.pk = @k",
        "parameters": [{"name": "@k", "value": "p3"}],
    }
    assert (await call("POST", WIDE, pinned, QUERY)).json["Documents"] == ["13", "23"]
    two = {"query": "SELECT VALUE c.id FROM c WHERE c.pk IN ('p3', 'p4')"}
    assert (await call("POST", WIDE, two, QUERY)).status == 400


async def test_pages_follow_the_ranges_and_never_span_two(wide: ContainerProxy, call: Call) -> None:
    await fill(wide)
    token, pages = "", []
    while True:
        more = {"x-ms-continuation": token} if token else {}
        page = await call("POST", WIDE, {"query": "SELECT * FROM c"}, CROSS | more)
        pages.append(page)
        token = page.headers.get("x-ms-continuation", "")
        if not token:
            break
    assert [page.headers["x-ms-documentdb-partitionkeyrangeid"] for page in pages] == ["0", "1", "2"]
    for page in pages:
        rids = [one["n"] for one in page.json["Documents"]]
        assert rids == sorted(rids)  # by age within a range
        assert page.headers["x-ms-item-count"] == str(page.json["_count"]) == str(len(rids))
    assert sum(page.json["_count"] for page in pages) == 30


@pytest.mark.parametrize("size", [1, 4, 1000])
@pytest.mark.parametrize(
    "text",
    [
        "SELECT VALUE c.n FROM c",
        "SELECT VALUE c.n FROM c ORDER BY c.n DESC",
        "SELECT VALUE t FROM c JOIN t IN c.tags",
        "SELECT DISTINCT VALUE c.pk FROM c",
        "SELECT TOP 7 VALUE c.n FROM c ORDER BY c.n",
        "SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 5 LIMIT 9",
        "SELECT VALUE SUM(c.n) FROM c",
        "SELECT c.pk, COUNT(1) AS n FROM c GROUP BY c.pk",
    ],
)
async def test_pages_of_any_size_make_up_the_same_answer(wide: ContainerProxy, text: str, size: int) -> None:
    await fill(wide)
    whole = await listed(wide.query_items(text))
    paged = await listed(wide.query_items(text, max_item_count=size))
    assert paged == whole
    assert whole


async def test_a_continuation_is_unmoved_by_new_and_deleted_items(container: ContainerProxy) -> None:
    for n in range(6):
        await container.create_item({"id": str(n), "pk": "a"})
    pager = container.query_items("SELECT VALUE c.id FROM c", partition_key="a", max_item_count=2).by_page()
    seen = [one async for one in await anext(pager)]
    await container.delete_item("0", "a")
    await container.delete_item("2", "a")
    await container.create_item({"id": "6", "pk": "a"})
    async for page in pager:
        seen += [one async for one in page]
    assert seen == ["0", "1", "3", "4", "5", "6"]


async def test_a_foreign_continuation_starts_over_and_a_broken_one_is_refused(
    container: ContainerProxy, call: Call
) -> None:
    await container.create_item({"id": "1", "pk": "a"})
    path, body = "/dbs/shop/colls/items/docs", {"query": "SELECT * FROM c"}
    foreign = await call("POST", path, body, CROSS | {"x-ms-continuation": "-RID:~x#RT:1#TRC:2"})
    assert foreign.json["_count"] == 1
    for token in ("x", "W10=", "e30=", "WyIiLCIiLC0xLC0xXQ=="):
        assert (await call("POST", path, body, CROSS | {"x-ms-continuation": token})).status == 400


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        {"query": 5},
        {"query": "SELECT"},
        {"query": "SELECT @x FROM c"},
        {"query": "SELECT 1", "parameters": [1]},
    ],
    ids=str,
)
async def test_what_is_no_query_is_refused(container: ContainerProxy, call: Call, body: Any) -> None:
    answer = await call("POST", "/dbs/shop/colls/items/docs", body, CROSS)
    assert answer.status == 400
    assert answer.json["message"]


@pytest.mark.parametrize("key", ["/id", "/pk"])
async def test_read_items_finds_what_is_there(database: DatabaseProxy, key: str, emulator: Emulator) -> None:
    container = await database.create_container("many", PartitionKey(key), offer_throughput=30_000)
    for n in range(60):
        await container.create_item({"id": str(n), "pk": n % 7})
    wanted: list[Any] = [(str(n), str(n) if key == "/id" else n % 7) for n in range(0, 60, 2)]
    wanted += [("gone", "gone" if key == "/id" else 1)]
    found = await container.read_items(wanted)
    assert sorted(int(one["id"]) for one in found) == list(range(0, 60, 2))


async def test_read_items_knows_a_hierarchical_key(database: DatabaseProxy) -> None:
    container = await database.create_container("deep", PartitionKey(["/t", "/u"]), offer_throughput=20_000)
    for n in range(40):
        await container.create_item({"id": str(n), "t": f"t{n % 5}", "u": n})
    found = await container.read_items([(str(n), [f"t{n % 5}", n]) for n in range(0, 40, 3)])
    assert [int(one["id"]) for one in found] == list(range(0, 40, 3))


async def test_counting_all_reads_no_document(wide: ContainerProxy) -> None:
    await fill(wide)
    assert await listed(wide.query_items("SELECT VALUE COUNT(1) FROM c")) == [30]
    assert await listed(wide.query_items("SELECT VALUE COUNT(1) FROM c", partition_key="p3")) == [3]


async def test_an_aggregate_over_nothing(wide: ContainerProxy, call: Call) -> None:
    whole = await call("POST", WIDE, {"query": "SELECT VALUE MAX(c.n) FROM c"}, CROSS)
    assert whole.json["Documents"] == [None]
    part = await call(
        "POST", WIDE, {"query": "SELECT VALUE MAX(c.n) FROM c"}, QUERY | {"x-ms-documentdb-partitionkeyrangeid": "1"}
    )
    assert part.json["Documents"] == []


async def test_a_plan_is_made_for_clients_that_ask(wide: ContainerProxy, call: Call) -> None:
    answer = await call(
        "POST", WIDE, {"query": "SELECT * FROM c ORDER BY c.n"}, {"x-ms-cosmos-is-query-plan-request": "True"}
    )
    assert answer.json["queryInfo"]["orderBy"] == ["Ascending"]
    assert answer.json["queryRanges"]


@pytest.mark.parametrize(
    "text",
    ["SELECT VALUE c.n FROM c ORDER BY c.n DESC", "SELECT VALUE SUM(c.n) FROM c", "SELECT DISTINCT VALUE c.pk FROM c"],
)
async def test_a_client_that_merges_comes_to_the_same_answer(text: str) -> None:
    async with (
        Emulator(merge_by_client=True) as strict,
        CosmosClient(strict.url, EMULATOR_KEY) as client,
    ):
        database = await client.create_database("shop")
        container = await database.create_container("wide", PartitionKey("/pk"), offer_throughput=30_000)
        await fill(container)
        merged = await listed(container.query_items(text))
        assert strict.statistics.requests["query_plan"] == 1
    if "ORDER BY" in text:
        assert merged == list(range(29, -1, -1))
    else:
        assert merged == [435] or sorted(merged) == [f"p{n}" for n in range(10)]


async def test_a_client_need_not_merge_what_one_key_answers() -> None:
    async with Emulator(merge_by_client=True) as strict, CosmosClient(strict.url, EMULATOR_KEY) as client:
        database = await client.create_database("shop")
        container = await database.create_container("wide", PartitionKey("/pk"), offer_throughput=30_000)
        await fill(container)
        found = await listed(container.query_items("SELECT VALUE c.n FROM c WHERE c.pk = 'p3' ORDER BY c.n DESC"))
        assert found == [23, 13, 3]
        assert strict.statistics.requests["query_plan"] == 0


async def test_metadata_can_be_queried(client: CosmosClient, database: DatabaseProxy, wide: ContainerProxy) -> None:
    found = await listed(client.query_databases("SELECT * FROM root r WHERE r.id = 'shop'"))
    assert [one["id"] for one in found] == ["shop"]
    assert [one["id"] for one in await listed(database.query_containers("SELECT * FROM c WHERE c.id = 'x'"))] == []


async def test_a_query_error_reaches_the_caller_as_400(container: ContainerProxy) -> None:
    with pytest.raises(CosmosHttpResponseError) as refused:
        await listed(container.query_items("SELEC * FROM c"))
    assert refused.value.status_code == 400
