"""What expires in the source leaves its total: of one page and of many, in the pull worker and in Functions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from projections.aggregate import Aggregate
from projections.declare import Catalog
from projections.entries import State
from projections.functions import TriggeredWorker
from projections.identity import Identity, Place
from projections.keys import Key
from projections.measures import Count
from projections.memory import MemoryStore
from projections.outcomes import Outcome, Result
from projections.provision import Layout, initialise
from projections.settings import Settings
from projections.store import Container, Create, Upsert
from projections.sweep import AT_ONCE, Sweep
from tests.support import NOW, ORDERS

BY_STATUS = Aggregate(name="by-status", source=ORDERS, key="/status", measures={"orders": Count()})
TARGET = Container("shop", "by-status")


async def holding(count: int, expires: int) -> MemoryStore:
    """A target with contributions that expire then."""
    store = MemoryStore()
    await initialise(store, Layout(Catalog(projections=(BY_STATUS,)), "shop"))
    for n in range(count):
        mark = {"id": str(n), "key": ["s1"], "etag": "e", "ts": NOW, "hash": "h"}
        document = {"id": f"{n}~", "status": "open", "expires": expires, "_source": mark}
        await store.write(TARGET, Key.of("open"), [Create(document)])
    return store


async def swept(store: MemoryStore, *, removes: bool = True) -> list[int]:
    """How many items are looked at, page by page."""
    pages = []

    async def apply(notices: Sequence[State]) -> list[Result]:
        pages.append(len(notices))
        for notice in notices if removes else ():
            place = Place(f"{notice.identity.id}~", Key.of("open"))
            del store._containers[TARGET].documents[place]
        outcome = Outcome.REMOVED if removes else Outcome.UNCHANGED
        return [Result(notice.identity, outcome) for notice in notices]

    await Sweep(store, TARGET, "_source", apply, now=lambda: NOW).run()
    return pages


async def test_nothing_that_is_still_to_expire_is_looked_at() -> None:
    assert await swept(await holding(2, NOW + 1)) == []
    assert await swept(await holding(2, NOW)) == [2]


async def test_it_goes_on_while_there_is_more() -> None:
    assert await swept(await holding(AT_ONCE + 1, NOW)) == [AT_ONCE, 1]


async def test_it_ends_where_nothing_more_can_be_done() -> None:
    assert await swept(await holding(AT_ONCE + 1, NOW), removes=False) == [AT_ONCE]


async def test_the_drain_timer_sweeps(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    monkeypatch.setattr(Settings, "load_catalog", lambda _: Catalog(projections=(BY_STATUS,)))

    async def opened(_: Any) -> MemoryStore:
        return store

    worker = TriggeredWorker(Settings("http://nowhere/", "…"), 600.0, opened)
    await initialise(store, worker.layout)
    notices = []
    for n, ttl in enumerate((1, -1)):
        order = {"id": str(n), "shop": "s1", "status": "open", "ttl": ttl}
        [etag] = await store.write(Container("shop", "orders"), Key.of("s1"), [Upsert(order)])
        notices.append({**order, "_rid": "r==", "_etag": etag, "_ts": 1})
    await worker.apply(BY_STATUS, notices)
    await asyncio.sleep(1.1)
    [report] = (await worker.drain()).values()

    assert report
    assert report.tally.outcomes == {"removed": 1}
    [total] = (await store.read(TARGET, [Place("total", Key.of("open"))])).values()
    assert total["orders"] == 1
    assert Identity(Key.of("s1"), "0").entry_id not in {place.id for place in store._containers[TARGET].documents}
