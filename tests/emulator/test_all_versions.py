"""The change feed of all versions and deletes: what it tells, where it starts, how long it remembers."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest
from azure.cosmos import PartitionKey
from azure.cosmos.aio import ContainerProxy, CosmosClient, DatabaseProxy
from azure.cosmos.exceptions import CosmosHttpResponseError

from projections.emulator import EMULATOR_KEY, Emulator

from .conftest import Answer, Call, listed

DOCS = "/dbs/shop/colls/kept/docs"
FULL = {
    "A-IM": "Full-Fidelity Feed",
    "x-ms-cosmos-changefeed-wire-format-version": "2021-09-15",
    "x-ms-documentdb-partitionkeyrangeid": "0",
}
NOW = {"If-None-Match": "*"}
POLICY = {"retentionDuration": 10}
LATER = 600_001
"""Milliseconds after which the retention of a change has passed."""


@pytest.fixture
async def kept(database: DatabaseProxy) -> ContainerProxy:
    """One range, keyed by /pk, with expiry on and every version kept for ten minutes."""
    return await database.create_container("kept", PartitionKey("/pk"), default_ttl=-1, change_feed_policy=POLICY)


async def position(call: Call) -> dict[str, str]:
    return {"If-None-Match": (await call("GET", DOCS, headers=FULL | NOW)).headers["etag"]}


async def token(container: ContainerProxy, **more: Any) -> str:
    """The SDK's continuation at the end of the feed."""
    hooked: dict[str, Any] = {}
    hook = {"response_hook": lambda headers, _: hooked.update(h=headers)}
    await listed(container.query_items_change_feed(mode="AllVersionsAndDeletes", **hook, **more))
    return str(hooked["h"]["etag"])


async def since(container: ContainerProxy, continuation: str, **more: Any) -> list[Any]:
    return await listed(container.query_items_change_feed(continuation=continuation, **more))


def told(changes: list[Any]) -> list[tuple[str, str]]:
    """What happened to which item."""
    return [(one["metadata"]["operationType"], one["current"].get("id", one["metadata"].get("id"))) for one in changes]


def numbers(answer: Answer) -> list[int]:
    return [one["metadata"]["lsn"] for one in answer.json["Documents"]]


# what it tells


async def test_creates_replaces_deletes_and_expiries_in_order(kept: ContainerProxy, call: Call) -> None:
    await kept.create_item({"id": "before", "pk": "a"})
    start = await position(call)
    await kept.create_item({"id": "1", "pk": "a"})
    await kept.upsert_item({"id": "1", "pk": "a", "n": 2})
    await kept.delete_item("1", "a")
    await kept.create_item({"id": "brief", "pk": "a", "ttl": 1})
    await asyncio.sleep(1.1)
    page = await call("GET", DOCS, headers=FULL | start)
    changes = page.json["Documents"]
    assert told(changes) == [
        ("create", "1"), ("replace", "1"), ("delete", "1"), ("create", "brief"), ("delete", "brief")
    ]  # fmt: skip
    assert numbers(page) == [2, 3, 4, 5, 6]
    assert [one["metadata"].get("previousImageLSN") for one in changes] == [None, 2, 3, None, 5]
    assert [one["metadata"].get("timeToLiveExpired") for one in changes] == [None, None, None, None, True]
    assert all(one["metadata"]["crts"] > 0 for one in changes)


async def test_a_version_is_the_item_as_it_was(kept: ContainerProxy) -> None:
    start = await token(kept)
    first = await kept.create_item({"id": "1", "pk": "a", "n": 1})
    second = await kept.replace_item("1", {"id": "1", "pk": "a", "n": 2})
    created, replaced = await since(kept, start)
    assert (created["current"], replaced["current"]) == (dict(first), dict(second))


async def test_a_delete_says_which_item_it_was_and_nothing_of_it(kept: ContainerProxy) -> None:
    start = await token(kept)
    await kept.create_item({"id": "1", "pk": "a", "secret": "x"})
    await kept.delete_item("1", "a")
    _, deleted = await since(kept, start)
    assert deleted["current"] == {}
    assert "previous" not in deleted
    metadata = deleted["metadata"]
    assert (metadata["id"], metadata["partitionKey"], metadata["previousImageLSN"]) == ("1", {"pk": "a"}, 1)


@pytest.mark.parametrize(
    ("paths", "item", "expected"),
    [
        (["/pk"], {"pk": None}, {"pk": None}),
        (["/pk"], {}, {}),
        (["/pk"], {"pk": 7}, {"pk": 7}),
        (["/a/b"], {"a": {"b": True}}, {"a/b": True}),
        (["/t", "/u/v"], {"t": "x", "u": {"v": 1.5}}, {"t": "x", "u/v": 1.5}),
    ],
)
async def test_the_key_of_a_delete_is_told_by_its_paths(
    database: DatabaseProxy, paths: list[str], item: dict[str, Any], expected: dict[str, Any]
) -> None:
    key = PartitionKey(paths, kind="MultiHash") if len(paths) > 1 else PartitionKey(paths[0])
    container = await database.create_container("k", key, default_ttl=-1, change_feed_policy=POLICY)
    start = await token(container)
    await container.create_item({"id": "1", "ttl": 1, **item})
    await asyncio.sleep(1.1)  # expiry needs no key from a client
    _, deleted = await since(container, start)
    assert deleted["metadata"]["partitionKey"] == expected


async def test_all_of_a_partition_and_all_of_a_batch_is_told(kept: ContainerProxy) -> None:
    start = await token(kept)
    await kept.execute_item_batch([("create", ({"id": n, "pk": "a"},)) for n in "123"], "a")
    await kept.delete_all_items_by_partition_key("a")
    changes = await since(kept, start)
    assert told(changes) == [*(("create", n) for n in "123"), *(("delete", n) for n in "123")]
    assert {one["metadata"]["lsn"] for one in changes[:3]} == {1}


async def test_a_page_never_cuts_a_transaction(kept: ContainerProxy, call: Call) -> None:
    start = await position(call)
    await kept.create_item({"id": "0", "pk": "a"})
    await kept.execute_item_batch([("create", ({"id": f"b{n}", "pk": "a"},)) for n in range(5)], "a")
    await kept.create_item({"id": "9", "pk": "a"})
    size = {"x-ms-max-item-count": "2"}
    first = await call("GET", DOCS, headers=FULL | start | size)
    second = await call("GET", DOCS, headers=FULL | size | {"If-None-Match": first.headers["etag"]})
    assert (numbers(first), numbers(second)) == ([1, 2, 2, 2, 2, 2], [3])


async def test_its_end_is_a_304_with_the_position(kept: ContainerProxy, call: Call) -> None:
    start = await position(call)
    await kept.create_item({"id": "1", "pk": "a"})
    page = await call("GET", DOCS, headers=FULL | start)
    end = await call("GET", DOCS, headers=FULL | {"If-None-Match": page.headers["etag"]})
    assert (page.status, end.status, end.body, end.headers["etag"]) == (200, 304, b"", page.headers["etag"])


# where it starts


async def test_it_needs_a_policy(container: ContainerProxy) -> None:
    with pytest.raises(CosmosHttpResponseError, match=r"All Versions and Deletes.*must be enabled") as raised:
        await token(container)
    assert raised.value.status_code == 400


async def test_a_retention_of_nothing_is_none(database: DatabaseProxy) -> None:
    off = await database.create_container("off", PartitionKey("/pk"), change_feed_policy={"retentionDuration": 0})
    with pytest.raises(CosmosHttpResponseError, match="must be enabled"):
        await token(off)


@pytest.mark.parametrize("start", [{}, {"If-Modified-Since": "Mon, 30 Nov 2026 09:38:27 GMT"}])
async def test_it_has_no_beginning_and_starts_at_no_time(
    kept: ContainerProxy, call: Call, start: dict[str, str]
) -> None:
    await kept.create_item({"id": "1", "pk": "a"})
    refused = await call("GET", DOCS, headers=FULL | start)
    assert refused.status == 400
    assert "starts now or from a continuation" in refused.json["message"]


async def test_the_feed_of_latest_versions_is_there_beside_it(kept: ContainerProxy) -> None:
    await kept.create_item({"id": "1", "pk": "a"})
    await kept.upsert_item({"id": "1", "pk": "a", "n": 2})
    [item] = await listed(kept.query_items_change_feed(start_time="Beginning"))
    assert (item["n"], item["_lsn"]) == (2, 2)


# how long it remembers


async def test_a_position_outside_the_retention_is_refused(kept: ContainerProxy, emulator: Emulator) -> None:
    start = await token(kept)
    await kept.create_item({"id": "1", "pk": "a"})
    middle = await token(kept)
    emulator.forget("shop", "kept")
    await kept.create_item({"id": "2", "pk": "a"})
    with pytest.raises(CosmosHttpResponseError, match="older than the retention") as raised:
        await since(kept, start)
    assert raised.value.status_code == 400
    assert told(await since(kept, middle)) == [("create", "2")]


async def test_what_is_older_than_the_retention_is_forgotten(
    kept: ContainerProxy, emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    from projections.emulator import items

    start = await token(kept)
    await kept.create_item({"id": "1", "pk": "a", "text": "x" * 1000})
    at_present = items.milliseconds()
    monkeypatch.setattr(items, "milliseconds", lambda: at_present + LATER)
    await kept.create_item({"id": "2", "pk": "a"})
    with pytest.raises(CosmosHttpResponseError, match="older than the retention"):
        await since(kept, start)
    rows = emulator.account.storage._sql.execute("SELECT body FROM history").fetchall()
    assert not any(b"xxx" in body for (body,) in rows)
    assert len(rows) == 2  # the newer change, and how far was forgotten


async def test_of_an_idle_container_nothing_is_missed(kept: ContainerProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    from projections.emulator import items

    await kept.create_item({"id": "1", "pk": "a"})
    start = await token(kept)
    at_present = items.milliseconds()
    monkeypatch.setattr(items, "milliseconds", lambda: at_present + LATER)
    assert await since(kept, start) == []
    await kept.create_item({"id": "2", "pk": "a"})
    assert told(await since(kept, start)) == [("create", "2")]


async def test_a_policy_that_comes_later_tells_nothing_of_before(database: DatabaseProxy, call: Call) -> None:
    container = await database.create_container("late", PartitionKey("/pk"))
    await container.create_item({"id": "1", "pk": "a"})
    definition = await container.read()
    await call("PUT", "/dbs/shop/colls/late", {**definition, "changeFeedPolicy": POLICY})
    early = await call("GET", "/dbs/shop/colls/late/docs", headers=FULL | {"If-None-Match": '"0"'})
    assert early.status == 400
    start = await token(container)
    await container.delete_item("1", "a")
    assert told(await since(container, start)) == [("delete", "1")]


async def test_versions_survive_the_process(tmp_path: Path) -> None:
    async with Emulator(tmp_path) as emulator, CosmosClient(emulator.url, EMULATOR_KEY) as client:
        database = await client.create_database("shop")
        kept = await database.create_container("kept", PartitionKey("/pk"), change_feed_policy=POLICY)
        start = await token(kept)
        await kept.create_item({"id": "1", "pk": "a"})
        await kept.delete_item("1", "a")
        too_old = start
        emulator.forget("shop", "kept")
        start = await token(kept)
        await kept.create_item({"id": "2", "pk": "a"})
        await kept.delete_item("2", "a")
    async with Emulator(tmp_path) as emulator, CosmosClient(emulator.url, EMULATOR_KEY) as client:
        kept = client.get_database_client("shop").get_container_client("kept")
        assert told(await since(kept, start)) == [("create", "2"), ("delete", "2")]
        with pytest.raises(CosmosHttpResponseError, match="older than the retention"):
            await since(kept, too_old)


# ranges


async def test_a_continuation_survives_splits_and_tells_everything_once(
    database: DatabaseProxy, emulator: Emulator
) -> None:
    wide = await database.create_container(
        "wide", PartitionKey("/pk"), offer_throughput=20_000, change_feed_policy=POLICY
    )
    [low, _] = [one async for one in wide.read_feed_ranges()]
    start = await token(wide, feed_range=low)
    every = await token(wide)
    chance = random.Random(1)
    for n in range(60):
        await wide.create_item({"id": str(n), "pk": f"p{n}"})
        if chance.random() < 0.5:
            await wide.delete_item(str(n), f"p{n}")
        if n == 30:
            emulator.split("shop", "wide", "0")
    everything = await since(wide, every, max_item_count=7)
    part = await since(wide, start, max_item_count=3)
    assert len(everything) == len({(kind, id_) for kind, id_ in told(everything)}) > 60
    assert 0 < len(part) < len(everything)
    assert {*told(part)} < {*told(everything)}
    order = [one["metadata"]["lsn"] for one in part]
    assert len(order) == len({*order})


async def test_now_of_a_range_that_has_split_holds_for_every_child(database: DatabaseProxy, emulator: Emulator) -> None:
    wide = await database.create_container("wide", PartitionKey("/pk"), change_feed_policy=POLICY)
    [whole] = [one async for one in wide.read_feed_ranges()]
    emulator.split("shop", "wide", "0")
    start = await token(wide, feed_range=whole)
    for n in range(20):
        await wide.create_item({"id": str(n), "pk": f"p{n}"})
    assert len(await since(wide, start)) == 20
