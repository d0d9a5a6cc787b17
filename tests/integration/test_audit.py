"""Audit on the emulator: what live work has left wrong is found some minutes later, and repaired."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from projections.audit import Audit, AuditReport
from projections.declare import Catalog, Index, SoftDelete, Source
from projections.identity import Place
from projections.keys import Key
from projections.store import Create, Delete, Replace, Start
from projections.worker import Engine

ORDERS = Source(container="orders", key="/customerId")
BY_STATUS = Index(name="by-status", source=ORDERS, key="/status", deletes=SoftDelete("/deleted"))
CATALOG = Catalog(projections=(BY_STATUS,))
LATER = 400.0

OpenShop = Callable[[Catalog], Any]


def order(n: int, status: str = "open", **fields: Any) -> dict[str, Any]:
    return {"id": str(n), "customerId": "c1", "status": status} | fields


async def audit(s: Any, *, later: float = LATER, **options: Any) -> AuditReport:
    """Audit as it would be after this time."""
    engine = await Engine.open(s.store, s.layout, BY_STATUS)
    clock = options.pop("now", lambda: time.time() + later)
    return await Audit(s.store, s.layout, engine, now=clock, **options).run()


async def test_where_nothing_is_wrong_nothing_is_written(shop: OpenShop) -> None:
    s = await shop(CATALOG)
    await s.put(*(order(n) for n in range(30)))
    await s.run()
    before = await s.entries("by-status")
    report = await audit(s)
    assert (report.examined, report.repaired.total) == (30, 0)
    assert await s.entries("by-status") == before
    again = await audit(s)
    assert again.examined == 0


async def test_a_batch_that_the_host_lost_is_applied(shop: OpenShop) -> None:
    s = await shop(CATALOG)
    await s.put(*(order(n) for n in range(10)))
    report = await audit(s)
    assert report.repaired.outcomes == {"written": 10}
    await s.assert_converged()


async def test_what_is_young_is_left_to_live_work(shop: OpenShop) -> None:
    s = await shop(CATALOG)
    await s.put(*(order(n) for n in range(10)))
    report = await audit(s, later=0)
    assert (report.examined, await s.entries("by-status")) == (0, [])
    assert (await audit(s)).examined == 10


async def test_a_page_is_cut_before_what_is_young(shop: OpenShop) -> None:
    """Otherwise a source that is always being written to would never be audited."""
    s = await shop(CATALOG)
    await s.put(order(1), order(2))
    [_, second] = await s.all(s.layout.source(BY_STATUS))
    await asyncio.sleep(second["_ts"] + 1.01 - time.time())
    await s.put(order(3))
    horizon = second["_ts"] + 300.0
    report = await audit(s, now=lambda: horizon)
    assert report.examined == 2
    assert (await audit(s)).examined == 1


async def test_an_entry_that_a_dead_worker_left_at_a_former_place_is_removed(shop: OpenShop) -> None:
    """Overtaken after its placement record, it put the old entry after the owner had finished, and died."""
    s = await shop(CATALOG)
    await s.put(order(1))
    await s.run()
    [old] = await s.entries("by-status")
    await s.put(order(1, "paid"))
    await s.run()
    left = {name: value for name, value in old.items() if name in ("id", "customerId", "status", "_source")}
    await s.store.write(s.layout.target(BY_STATUS), Key.of("open"), [Create(left)])
    assert len(await s.entries("by-status")) == 2
    report = await audit(s)
    assert report.repaired.total == 1
    await s.assert_converged()


async def test_an_entry_with_old_content_is_brought_up_to_date(shop: OpenShop) -> None:
    s = await shop(CATALOG)
    await s.put(order(1, total=1))
    await s.run()
    [entry] = await s.entries("by-status")
    wrong = {n: v for n, v in entry.items() if n in ("id", "customerId", "status")} | {"total": 0}
    mark = entry["_source"] | {"hash": "0" * 32, "etag": '"older"', "ts": entry["_source"]["ts"] - 5}
    await s.store.write(
        s.layout.target(BY_STATUS), Key.of("open"), [Replace(wrong | {"_source": mark}, entry["_etag"])]
    )
    assert (await audit(s)).repaired.outcomes == {"written": 1}
    await s.assert_converged()


async def test_an_item_deleted_for_good_since_loses_its_entry(shop: OpenShop) -> None:
    s = await shop(CATALOG)
    await s.put(order(1), order(2))
    await s.run()
    source = s.layout.source(BY_STATUS)
    place = Place("1", Key.of("c1"))
    read = await s.store.read(source, [place])
    engine = await Engine.open(s.store, s.layout, BY_STATUS)
    await s.store.write(source, place.key, [Delete("1", read[place]["_etag"])])
    results = await engine.audit_page([read[place] | {"_lsn": 1}])
    assert [result.outcome.value for result in results] == ["removed"]
    await s.assert_converged()


async def test_a_parked_item_is_not_parked_again(shop: OpenShop) -> None:
    s = await shop(CATALOG)
    await s.put(order(1) | {"status": {"odd": True}})
    await s.run()
    [before] = await s.parked("by-status")
    report = await audit(s)
    assert (report.examined, report.repaired.total) == (1, 0)
    assert await s.parked("by-status") == [before]


async def test_it_goes_on_where_it_stopped(shop: OpenShop) -> None:
    s = await shop(CATALOG)
    await s.put(*(order(n) for n in range(25)))
    engine = await Engine.open(s.store, s.layout, BY_STATUS)
    one = Audit(s.store, s.layout, engine, page_size=10, now=lambda: time.time() + LATER)
    first = await one.run(stop=lambda: True)
    assert (first.examined, first.caught_up) == (10, False)
    rest = await one.run()
    assert (rest.examined, rest.caught_up) == (15, True)
    await s.assert_converged()


async def test_ranges_take_turns(shop: OpenShop) -> None:
    """One that is never done must not keep the others from being looked at."""
    s = await shop(CATALOG)
    source = s.layout.source(BY_STATUS)
    await (
        s.store._client.get_database_client(source.database)
        .get_container_client(source.name)
        .replace_throughput(20_000)
    )
    await s.put(*({"id": str(n), "customerId": f"c{n}", "status": "open"} for n in range(60)))
    low, high = await s.store.feed_ranges(source)
    engine = await Engine.open(s.store, s.layout, BY_STATUS)
    turns = 0

    def twice() -> bool:
        nonlocal turns
        turns += 1
        return turns == 2

    await Audit(s.store, s.layout, engine, page_size=5, now=lambda: time.time() + LATER).run(stop=twice)
    seen = {entry["_source"]["key"][0] for entry in await s.entries("by-status")}
    in_low = {i["customerId"] async for page in s.store.changes(source, low, Start(), 100) for i in page.items}
    in_high = {i["customerId"] async for page in s.store.changes(source, high, Start(), 100) for i in page.items}
    assert (len(seen & in_low), len(seen & in_high)) == (5, 5)
