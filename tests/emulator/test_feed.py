"""The change feed of latest versions: starts, order, the end signal, scopes, splits."""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from azure.cosmos import PartitionKey
from azure.cosmos.aio import ContainerProxy, DatabaseProxy

from projections.emulator import Emulator
from projections.emulator.feed import MAX_PAGE_BYTES

from .conftest import Answer, Call, listed

DOCS = "/dbs/shop/colls/items/docs"
FEED = {"A-IM": "Incremental Feed", "x-ms-documentdb-partitionkeyrangeid": "0"}


def ids(answer: Answer) -> list[str]:
    return [one["id"] for one in answer.json["Documents"]]


async def test_each_item_comes_once_in_its_newest_state_in_the_order_of_change(container: ContainerProxy) -> None:
    for item_id in ("1", "2", "3", "4"):
        await container.create_item({"id": item_id, "pk": "a"})
    await container.upsert_item({"id": "1", "pk": "a", "n": 2})
    await container.delete_item("3", "a")
    seen = await listed(container.query_items_change_feed(start_time="Beginning"))
    assert [(one["id"], one["_lsn"], one.get("n")) for one in seen] == [("2", 2, None), ("4", 4, None), ("1", 5, 2)]


async def test_304_ends_it_and_carries_the_position(container: ContainerProxy, call: Call) -> None:
    empty = await call("GET", DOCS, headers=FEED)
    assert (empty.status, empty.body, empty.headers["etag"]) == (304, b"", '"0"')
    await container.create_item({"id": "1", "pk": "a"})
    page = await call("GET", DOCS, headers=FEED | {"If-None-Match": empty.headers["etag"]})
    assert (page.status, ids(page), page.headers["etag"]) == (200, ["1"], '"1"')
    end = await call("GET", DOCS, headers=FEED | {"If-None-Match": page.headers["etag"]})
    assert (end.status, end.headers["etag"]) == (304, '"1"')


async def test_now_is_the_end_of_this_moment(container: ContainerProxy, call: Call) -> None:
    await container.create_item({"id": "1", "pk": "a"})
    now = await call("GET", DOCS, headers=FEED | {"If-None-Match": "*"})
    assert now.status == 304
    await container.create_item({"id": "2", "pk": "a"})
    assert ids(await call("GET", DOCS, headers=FEED | {"If-None-Match": now.headers["etag"]})) == ["2"]


async def test_a_time_start_holds_on_every_page(container: ContainerProxy, call: Call) -> None:
    await container.create_item({"id": "1", "pk": "a"})
    await asyncio.sleep(1.05)
    since = {"If-Modified-Since": format_datetime(datetime.now(UTC).replace(microsecond=0), usegmt=True)}
    await container.create_item({"id": "2", "pk": "a"})
    assert ids(await call("GET", DOCS, headers=FEED | since)) == ["2"]
    assert ids(await call("GET", DOCS, headers=FEED | since | {"If-None-Match": '"0"'})) == ["2"]
    future = {"If-Modified-Since": format_datetime(datetime.now(UTC) + timedelta(days=1), usegmt=True)}
    nothing = await call("GET", DOCS, headers=FEED | future)
    assert (nothing.status, nothing.headers["etag"]) == (304, '"2"')  # past what was filtered out


@pytest.mark.parametrize(
    "headers",
    [{"If-None-Match": '"x"'}, {"If-None-Match": '"-1"'}, {"If-None-Match": "9" * 40}, {"If-Modified-Since": "soon"}],
    ids=str,
)
async def test_a_start_that_is_none_is_refused(container: ContainerProxy, call: Call, headers: dict[str, str]) -> None:
    assert (await call("GET", DOCS, headers=FEED | headers)).status == 400


async def test_pages_have_the_size_asked_for(container: ContainerProxy) -> None:
    for n in range(7):
        await container.create_item({"id": str(n), "pk": "a"})
    pages = container.query_items_change_feed(start_time="Beginning", max_item_count=3).by_page()
    sizes = [len([one async for one in page]) async for page in pages]
    assert sizes == [3, 3, 1]


async def test_a_page_stays_below_the_limit_of_a_response(container: ContainerProxy, call: Call) -> None:
    for n in range(5):
        await container.create_item({"id": str(n), "pk": "a", "x": "y" * 1_500_000})
    first = await call("GET", DOCS, headers=FEED)
    assert len(first.body) < MAX_PAGE_BYTES + 2_000_000
    assert 0 < len(ids(first)) < 5


async def test_a_key_and_a_part_of_a_range_see_their_own_changes(wide: ContainerProxy, call: Call) -> None:
    for n in range(30):
        await wide.create_item({"id": str(n), "pk": f"p{n % 10}"})
    of_key = await listed(wide.query_items_change_feed(partition_key="p3", start_time="Beginning"))
    assert [one["id"] for one in of_key] == ["3", "13", "23"]
    seen: list[str] = []
    for feed_range in [one async for one in wide.read_feed_ranges()]:
        part = await listed(wide.query_items_change_feed(feed_range=feed_range, start_time="Beginning"))
        assert [one["_lsn"] for one in part] == sorted(one["_lsn"] for one in part)
        seen += [one["id"] for one in part]
    assert sorted(seen, key=int) == [str(n) for n in range(30)]
    js = {"A-IM": "Incremental Feed", "x-ms-documentdb-partitionkey": '["p3"]'}
    assert ids(await call("GET", "/dbs/shop/colls/wide/docs", headers=js)) == ["3", "13", "23"]


async def test_a_prefix_of_a_hierarchical_key_sees_all_below_it(database: DatabaseProxy) -> None:
    deep = await database.create_container("deep", PartitionKey(["/t", "/u"]), offer_throughput=30_000)
    for n in range(12):
        await deep.create_item({"id": str(n), "t": f"t{n % 3}", "u": n})
    seen = await listed(deep.query_items_change_feed(partition_key=["t1"], start_time="Beginning"))
    assert [one["id"] for one in seen] == ["1", "4", "7", "10"]


async def test_children_go_on_where_the_parent_stopped(wide: ContainerProxy, emulator: Emulator, call: Call) -> None:
    path = "/dbs/shop/colls/wide/docs"
    for n in range(20):
        await wide.create_item({"id": str(n), "pk": f"p{n}"})
    before = await call("GET", path, headers=FEED)
    token = {"If-None-Match": before.headers["etag"]}
    left, right = emulator.split("shop", "wide", "0")
    for n in range(20, 60):
        await wide.create_item({"id": str(n), "pk": f"p{n}"})
    gone = await call("GET", path, headers=FEED | token)
    assert (gone.status, gone.headers["x-ms-substatus"]) == (410, "1002")
    seen = []
    for child in (left, right, "1", "2"):
        start: dict[str, str] = token if child in (left, right) else {}
        seen += ids(await call("GET", path, headers=FEED | start | {"x-ms-documentdb-partitionkeyrangeid": child}))
    assert sorted(seen + ids(before), key=int) == [str(n) for n in range(60)]


async def test_a_sdk_continuation_survives_a_split(wide: ContainerProxy, emulator: Emulator) -> None:
    for n in range(30):
        await wide.create_item({"id": str(n), "pk": f"p{n}"})
    hooked: dict[str, Any] = {}
    first = wide.query_items_change_feed(start_time="Beginning", response_hook=lambda h, _: hooked.update(h=h))
    assert len(await listed(first)) == 30
    token = hooked["h"]["etag"]
    emulator.split("shop", "wide", "1")
    for n in range(30, 60):
        await wide.create_item({"id": str(n), "pk": f"p{n}"})
    more = await listed(wide.query_items_change_feed(continuation=token))
    assert sorted(int(one["id"]) for one in more) == list(range(30, 60))


@pytest.mark.parametrize("seed", range(3))
async def test_a_reader_ends_with_the_newest_state_of_all_through_any_writes_and_splits(
    wide: ContainerProxy, emulator: Emulator, call: Call, seed: int
) -> None:
    """Whatever happens while it reads: nothing is missed, and no older state comes after a newer one."""
    chance = random.Random(seed)
    path = "/dbs/shop/colls/wide/docs"
    positions: dict[str, dict[str, str]] = {"0": {}, "1": {}, "2": {}}
    view: dict[str, Any] = {}

    async def read(range_id: str) -> bool:
        size = {"x-ms-max-item-count": str(chance.randint(1, 5)), "x-ms-documentdb-partitionkeyrangeid": range_id}
        page = await call("GET", path, headers=FEED | positions[range_id] | size)
        if page.status == 410:
            parent = positions.pop(range_id)
            ranges = await call("GET", "/dbs/shop/colls/wide/pkranges")
            children = [one["id"] for one in ranges.json["PartitionKeyRanges"] if range_id in one["parents"]]
            positions.update(dict.fromkeys(children, parent))
            return True
        positions[range_id] = {"If-None-Match": page.headers["etag"]}
        for item in page.json["Documents"] if page.body else ():
            assert item["_lsn"] > view.get(item["id"], {"_lsn": 0})["_lsn"]
            view[item["id"]] = item
        return page.status == 200

    for step in range(150):
        item_id = str(chance.randrange(30))
        key = {"x-ms-documentdb-partitionkey": f'["p{int(item_id) % 12}"]'}
        if chance.random() < 0.15:
            await call("DELETE", f"{path}/{item_id}", headers=key)
        else:
            item = {"id": item_id, "pk": f"p{int(item_id) % 12}", "n": step}
            await call("POST", path, item, key | {"x-ms-documentdb-is-upsert": "true"})
        if chance.random() < 0.4:
            await read(chance.choice(list(positions)))
        if step % 50 == 25:
            live = emulator.account.catalog.container("shop", "wide").partitions.live
            emulator.split("shop", "wide", chance.choice(live).id)
    while any([await read(range_id) for range_id in list(positions)]):
        pass
    items = {one["id"]: one for one in await listed(wide.read_all_items())}
    assert {item_id: one["_etag"] for item_id, one in view.items() if item_id in items} == {
        item_id: one["_etag"] for item_id, one in items.items()
    }
