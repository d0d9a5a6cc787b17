"""Ranges cover the key space without gap or overlap, before and after splits."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from azure.cosmos.aio import ContainerProxy, DatabaseProxy

from projections.emulator import Emulator
from projections.emulator.errors import ServiceError
from projections.emulator.keys import KeyDefinition
from projections.emulator.partitions import Partitions, ranges_for

from .conftest import Call, listed

V2 = KeyDefinition((("pk",),), multi=False, version=2)
V1 = KeyDefinition((("pk",),), multi=False, version=1)


@pytest.mark.parametrize(("throughput", "count"), [(400, 1), (10_000, 1), (10_100, 2), (11_000, 2), (30_000, 3)])
def test_a_range_serves_10_000_request_units(throughput: int, count: int) -> None:
    assert ranges_for(throughput) == count


def test_two_ranges_part_where_the_service_parts_them() -> None:
    assert [one.minimum for one in Partitions.even(V2, 2).live] == ["", "1FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF"]
    assert [one.minimum for one in Partitions.even(V1, 2).live] == ["", "05C1DFFFFFFFFC"]


@pytest.mark.parametrize("key", [V1, V2], ids=["v1", "v2"])
def test_ranges_cover_the_space_through_any_splits(key: KeyDefinition) -> None:
    partitions = Partitions.even(key, 3)
    for range_id in ("1", "3", "0", "2", "6"):
        partitions.split(range_id)
    live = partitions.live
    assert live[0].minimum == ""
    assert live[-1].maximum == "FF"
    assert all(left.maximum == right.minimum for left, right in pairwise(live))
    for n in range(500):
        epk = key.epk_of([f"k{n}"])
        found = partitions.find(epk)
        assert found.minimum <= epk < found.maximum
    assert len({partitions.find(key.epk_of([f"k{n}"])).id for n in range(500)}) == len(live)


def test_children_remember_all_ancestors_oldest_first() -> None:
    partitions = Partitions.even(V2, 1)
    left, _ = partitions.split("0")
    child, _ = partitions.split(left.id)
    assert child.parents == ("0", left.id)
    with pytest.raises(ServiceError) as gone:
        partitions.get("0")
    assert (gone.value.status, gone.value.substatus) == (410, 1002)


def test_ranges_survive_storing() -> None:
    partitions = Partitions.even(V2, 3)
    partitions.split("1")
    again = Partitions.from_json(V2, partitions.to_json())
    assert again.live == partitions.live
    assert again.gone == partitions.gone
    assert again.split("0")[0].id == "5"


async def test_the_range_feed_ends_on_a_literal_304(wide: ContainerProxy, emulator: Emulator, call: Call) -> None:
    path = "/dbs/shop/colls/wide/pkranges"
    first = await call("GET", path)
    assert [one["id"] for one in first.json["PartitionKeyRanges"]] == ["0", "1", "2"]
    same = await call("GET", path, headers={"If-None-Match": first.headers["etag"]})
    assert (same.status, same.body, same.headers["etag"]) == (304, b"", first.headers["etag"])
    emulator.split("shop", "wide", "1")
    newer = await call("GET", path, headers={"If-None-Match": first.headers["etag"]})
    assert [(one["id"], one["parents"]) for one in newer.json["PartitionKeyRanges"]] == [("3", ["1"]), ("4", ["1"])]
    whole = await call("GET", path)
    assert [one["id"] for one in whole.json["PartitionKeyRanges"]] == ["0", "3", "4", "2"]


async def test_raising_the_throughput_splits_and_nothing_is_lost(database: DatabaseProxy) -> None:
    container = await database.create_container("grows", {"paths": ["/pk"], "kind": "Hash"}, offer_throughput=400)
    for n in range(30):
        await container.create_item({"id": str(n), "pk": f"p{n}"})
    assert len(await listed(container.read_feed_ranges())) == 1
    await container.replace_throughput(30_000)
    assert len(await listed(container.read_feed_ranges(force_refresh=True))) == 3
    assert len(await listed(container.query_items("SELECT * FROM c"))) == 30
    assert (await container.get_throughput()).offer_throughput == 30_000
    await container.replace_throughput(400)  # a cut merges nothing
    assert len(await listed(container.read_feed_ranges(force_refresh=True))) == 3


async def test_a_split_can_come_from_another_thread(wide: ContainerProxy, emulator: Emulator) -> None:
    assert await asyncio.to_thread(emulator.split, "shop", "wide", "1") == ("3", "4")
    with pytest.raises(ServiceError):
        await asyncio.to_thread(emulator.split, "shop", "wide", "1")


async def test_a_page_of_a_range_continues_in_its_children(
    wide: ContainerProxy, emulator: Emulator, call: Call
) -> None:
    for n in range(40):
        await wide.create_item({"id": str(n), "pk": f"p{n}"})
    headers = {
        "x-ms-documentdb-isquery": "true",
        "content-type": "application/query+json",
        "x-ms-documentdb-partitionkeyrangeid": "0",
        "x-ms-max-item-count": "3",
    }
    path, body = "/dbs/shop/colls/wide/docs", {"query": "SELECT VALUE c.id FROM c"}
    whole = (await call("POST", path, body, headers | {"x-ms-max-item-count": "1000"})).json["Documents"]
    assert len(whole) > 6
    first = await call("POST", path, body, headers)
    left, right = emulator.split("shop", "wide", "0")
    gone = await call("POST", path, body, headers)
    assert (gone.status, gone.headers["x-ms-substatus"]) == (410, "1002")
    seen = first.json["Documents"]
    for child in (left, right):
        token = first.headers["x-ms-continuation"]
        while token:
            more = {"x-ms-documentdb-partitionkeyrangeid": child, "x-ms-continuation": token}
            page = await call("POST", path, body, headers | more)
            seen += page.json["Documents"]
            token = page.headers.get("x-ms-continuation", "")
    assert sorted(seen) == sorted(whole)
