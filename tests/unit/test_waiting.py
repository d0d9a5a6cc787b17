"""Read your writes, over the store in memory."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from projections.declare import Catalog, Index, Source
from projections.errors import AskError
from projections.identity import Identity, Place
from projections.keys import Key
from projections.lookup import Lookup
from projections.memory import MemoryStore
from projections.provision import Layout, initialise
from projections.store import Delete, Document, Upsert
from projections.waiting import BehindError
from projections.worker import Worker

INDEX = Index(name="by-status", source=Source(container="orders", key="/shop"), key="/status")
LAYOUT = Layout(Catalog(projections=(INDEX,)), "db")
SOURCE, KEY = LAYOUT.source(INDEX), Key.of("s")


async def a_shop() -> tuple[MemoryStore, Lookup]:
    store = MemoryStore()
    await initialise(store, LAYOUT)
    return store, Lookup(store, LAYOUT, INDEX)


async def put(store: MemoryStore, n: int) -> Document:
    await store.write(SOURCE, KEY, [Upsert({"id": str(n), "shop": "s", "status": "open"})])
    return (await store.read(SOURCE, [Place(str(n), KEY)]))[Place(str(n), KEY)]


async def run(store: MemoryStore) -> None:
    await Worker(store, LAYOUT, [INDEX]).run(until_caught_up=True)


async def test_what_was_written_is_there_after_waiting() -> None:
    store, lookup = await a_shop()
    await put(store, 1)
    await run(store)
    item = await put(store, 2)
    writes: list[Any] = [item, Identity(KEY, "2"), await store.session(SOURCE, KEY), 2]
    for written in writes:
        with pytest.raises(BehindError, match="1 transactions"):
            await lookup.wait_for(written, timeout=0)
    waiting = [asyncio.create_task(lookup.wait_for(written, timeout=5)) for written in writes]
    await asyncio.sleep(0.01)
    assert not any(task.done() for task in waiting)
    await run(store)
    await asyncio.gather(*waiting)
    assert len((await lookup.entries("open")).entries) == 2


async def test_writes_of_long_ago_need_no_waiting() -> None:
    store, lookup = await a_shop()
    item, token = await put(store, 1), await store.session(SOURCE, KEY)
    await put(store, 2)
    await run(store)
    await lookup.wait_for(item, timeout=0)
    await lookup.wait_for(token, timeout=0)


async def test_a_deletion_is_passed_when_nothing_is_pending() -> None:
    store, lookup = await a_shop()
    item = await put(store, 1)
    await run(store)
    await store.write(SOURCE, KEY, [Delete("1", item["_etag"])])
    await lookup.wait_for(await store.session(SOURCE, KEY), timeout=0)


async def test_who_waits_too_long_is_told_how_far_behind_it_is() -> None:
    store, lookup = await a_shop()
    await run(store)
    await put(store, 1)
    await put(store, 2)
    with pytest.raises(BehindError, match=r"after 0\.1 s it is 2 transactions \(LSN\) behind .* \d+ s old") as caught:
        await lookup.wait_for(2, timeout=0.1)
    assert (caught.value.projection, "projections status" in str(caught.value.hint)) == ("by-status", True)


async def test_a_projection_that_never_ran_says_so() -> None:
    store, lookup = await a_shop()
    item = await put(store, 1)
    with pytest.raises(BehindError, match="no position is stored") as caught:
        await lookup.wait_for(item, timeout=0)
    assert "projections run by-status" in str(caught.value.hint)


@pytest.mark.parametrize("written", ["yesterday", None, True, 1.5, {}, {"id": "1", "shop": "s"}, ["0:-1#1"]], ids=repr)
async def test_what_is_no_write_is_refused(written: Any) -> None:
    store, lookup = await a_shop()
    await run(store)
    with pytest.raises(AskError) as caught:
        await lookup.wait_for(written, timeout=0)
    assert caught.value.hint
    assert caught.value.projection == "by-status"
