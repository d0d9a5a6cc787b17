"""Sources in all-versions mode: hard deletes arrive live, and the hand-over from the first load loses nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from projections.aggregate import Aggregate
from projections.audit import Audit
from projections.declare import Catalog, Custom, Index, Source
from projections.embed import Embed, Reference
from projections.emulator import Emulator
from projections.errors import NoVersionsError
from projections.feed import Checkpoints
from projections.identity import Place
from projections.keys import Key
from projections.measures import Count, Distinct, Max, Sum
from projections.memory import MemoryStore
from projections.provision import Layout, initialise
from projections.status import Health, status
from projections.store import VERSIONS, Container, Delete, Document, FeedRange, Page, Start, Store, Upsert
from projections.worker import Engine, Worker
from tests.converged import assert_converged
from tests.integration.conftest import KilledError, Shop

ALL = "AllVersionsAndDeletes"
ORDERS = Source(container="orders", key="/customer", mode=ALL)
CUSTOMERS = Source(container="customers", key="/id", mode=ALL)
BY_STATUS = Index(name="by-status", source=ORDERS, key="/status")
BY_PRODUCT = Index(name="by-product", source=ORDERS, each="/lines", by="value", key="/lines")
SPENT = Aggregate(
    name="spent", source=ORDERS, key="/customer",
    measures={"orders": Count(), "sum": Sum("/total"), "most": Max("/total"), "states": Distinct("/status")},
)  # fmt: skip
NAMED = Embed(
    name="named", source=ORDERS, key="/status",
    references={"buyer": Reference(source=CUSTOMERS, id="/customer", fields=("name",))},
)  # fmt: skip
PAIRS = Custom(name="pairs", source=ORDERS, key="/a", project=lambda order: [{"a": order["status"], "n": 1}])
EVERYTHING = Catalog(projections=(BY_STATUS, BY_PRODUCT, SPENT, NAMED, PAIRS))
ONLY = Catalog(projections=(BY_STATUS,))

Open = Callable[[Catalog], Awaitable[Shop]]


def order(n: int, **fields: Any) -> Document:
    own = {"id": f"o{n}", "customer": f"c{n % 3}", "status": ("open", "paid")[n % 2], "total": n}
    return {**own, "lines": ["p", f"p{n}"], **fields}


async def remove(s: Shop, *ids: str, source: Source = ORDERS) -> None:
    """Hard deletes."""
    container = s.layout._at(None, source.container)
    for item in await s.all(container):
        if item["id"] in ids:
            key = Key.of(*source.key.of(item))
            await s.store.write(container, key, [Delete(item["id"], item["_etag"])])


async def customers(s: Shop, *ids: str, **fields: Any) -> None:
    for id_ in ids:
        container = s.layout._at(None, "customers")
        await s.store.write(container, Key.of(id_), [Upsert({"id": id_, "name": f"Name of {id_}", **fields})])


async def stored(s: Shop, name: str = "by-status") -> list[Any]:
    return await Checkpoints(s.store, s.layout.state, s.catalog[name].full_name).load([])


# live


async def test_deletes_reach_every_kind_of_projection(shop: Open) -> None:
    s = await shop(EVERYTHING)
    await customers(s, "c0", "c1", "c2")
    await s.put(*(order(n) for n in range(12)))
    await s.run()
    await s.assert_converged()
    await remove(s, "o1", "o2", "o3", "o9")
    await s.put(order(4, status="paid"))
    await s.run()
    await s.assert_converged()
    assert {entry["_source"]["id"] for entry in await s.entries("by-status")} == {
        f"o{n}" for n in (0, 4, 5, 6, 7, 8, 10, 11)
    }
    await remove(s, *(f"o{n}" for n in range(12)))
    await s.run()
    for projection in EVERYTHING:
        assert await s.entries(projection.name) == []


async def test_a_referenced_item_that_goes_takes_its_copies_along(shop: Open) -> None:
    s = await shop(EVERYTHING)
    await customers(s, "c0", "c1", "c2")
    await s.put(*(order(n) for n in range(6)))
    await s.run()
    assert all("buyer" in entry for entry in await s.entries("named"))
    await remove(s, "c1", source=CUSTOMERS)
    await s.run()
    assert {entry["customer"] for entry in await s.entries("named") if "buyer" in entry} == {"c0", "c2"}
    await customers(s, "c1", name="New")
    await s.run()
    assert {e["buyer"]["name"] for e in await s.entries("named") if e["customer"] == "c1"} == {"New"}
    await s.assert_converged()


async def test_an_item_that_is_deleted_and_created_anew(shop: Open) -> None:
    s = await shop(EVERYTHING)
    await customers(s, "c0", "c1", "c2")
    await s.put(order(1), order(2))
    await s.run()
    await remove(s, "o1")
    await s.put(order(1, status="anew"))  # in one page
    await remove(s, "c1", source=CUSTOMERS)
    await customers(s, "c1", name="anew")
    await s.run()
    await s.assert_converged()
    await s.put(order(2, status="x"))
    await remove(s, "o2")
    await s.put(order(2, status="y"))
    await remove(s, "o2")
    await s.run(page_size=1)  # in pages of their own, each outdated by the next
    await s.assert_converged()
    assert {entry["_source"]["id"] for entry in await s.entries("by-status")} == {"o1"}


async def test_what_expires_goes_live(shop: Open) -> None:
    s = await shop(EVERYTHING)
    await customers(s, "c0")
    await customers(s, "c1", ttl=1)
    await s.put(order(0), order(1), order(3, ttl=1))
    await s.run()
    await asyncio.sleep(2.1)
    await s.run()
    named = await s.entries("named")
    assert sorted((entry["_source"]["id"], "buyer" in entry) for entry in named) == [("o0", True), ("o1", False)]
    await s.assert_converged()


async def test_a_delete_that_comes_late_removes_nothing_that_was_created_anew(shop: Open) -> None:
    s = await shop(ONLY)
    await s.put(order(1))
    await s.run()
    source = s.layout.source(BY_STATUS)
    [feed_range] = await s.store.feed_ranges(source)
    [start] = [page async for page in s.store.changes(source, feed_range, VERSIONS, 10)]
    await remove(s, "o1")
    await s.put(order(1, status="anew"))
    await s.run()
    [page, *_] = [page async for page in s.store.changes(source, feed_range, start.position, 10)]
    deleted, created = page.items
    engine = await Engine.open(s.store, s.layout, BY_STATUS)
    for late in ([deleted], [deleted, created], [created], [deleted]):
        await engine.apply_page(late, asyncio.get_running_loop().time())
        await s.assert_converged()


async def test_hierarchical_and_nested_keys(shop: Open) -> None:
    source = Source(container="deep", key=("/tenant", "/user/id"), mode=ALL)
    s = await shop(Catalog(projections=(Index(name="deep-by-k", source=source, key="/k"),)))
    await s.put(
        {"id": "1", "tenant": "t", "user": {"id": 7}, "k": "a"},
        {"id": "1", "tenant": "t", "user": {"id": "7"}, "k": "b"},
    )
    await s.run()
    place = Place("1", Key.of("t", 7))
    container = s.layout._at(None, "deep")
    found = await s.store.read(container, [place])
    await s.store.write(container, place.key, [Delete("1", found[place]["_etag"])])
    await s.run()
    [left] = await s.entries("deep-by-k")
    assert left["k"] == "b"


async def test_a_running_worker_takes_entries_out_within_moments(shop: Open) -> None:
    s = await shop(ONLY)
    await s.put(order(1), order(2))
    worker = Worker(s.store, s.layout, [BY_STATUS], poll_seconds=(0.01, 0.05))
    running = asyncio.create_task(worker.run())
    await _until(lambda: _count(s, 2))
    await remove(s, "o1")
    await _until(lambda: _count(s, 1))
    worker.stop()
    await running


async def _count(s: Shop, n: int) -> bool:
    return len(await s.entries("by-status")) == n


async def _until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(10):
        while not await holds():  # noqa: ASYNC110 - only the store knows
            await asyncio.sleep(0.02)


# the hand-over


class Busy:
    """A store beside which somebody is at work: `meanwhile` before a page of changes of either feed is handed on."""

    def __init__(self, store: Store, meanwhile: Callable[[int, bool], Awaitable[None]]) -> None:
        self._store = store
        self._meanwhile = meanwhile
        self.pages = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def changes(
        self, container: Container, feed_range: FeedRange, since: str | Start, page_size: int
    ) -> AsyncIterator[Page]:
        async for page in self._store.changes(container, feed_range, since, page_size):
            if page.items:
                self.pages += 1
                await self._meanwhile(self.pages, "_lsn" in page.items[0])
            yield page


async def test_deletes_and_updates_during_the_first_load_are_not_lost(shop: Open) -> None:
    s = await shop(EVERYTHING)
    await customers(s, "c0", "c1", "c2")
    await s.put(*(order(n) for n in range(30)))
    left = list(range(30))

    async def meanwhile(page: int, latest: bool) -> None:
        if latest and len(left) > 5:
            await remove(s, f"o{left.pop(0)}", f"o{left.pop()}")
            await s.put(order(left[len(left) // 2], status=f"at {page}"))

    await s.run(Busy(s.store, meanwhile), page_size=4)  # type: ignore[arg-type]
    await s.assert_converged()
    assert {e["_source"]["id"] for e in await s.entries("by-status")} == {f"o{n}" for n in left}
    assert all(not checkpoint.loading for checkpoint in await stored(s))


@pytest.mark.parametrize("loading", [True, False])
async def test_a_range_splits_in_either_phase(shop: Open, emulator: Emulator, loading: bool) -> None:
    s = await shop(ONLY)
    await s.put(*(order(n, customer=f"c{n}") for n in range(40)))
    split: list[Any] = []
    if not loading:
        await s.run()
        await remove(s, "o2", "o5", "o8")

    async def meanwhile(page: int, latest: bool) -> None:
        if latest == loading and not split:
            database, name = s.layout.source(BY_STATUS).database, "orders"
            split.append(emulator.split(database, name, "0"))
            split.append(emulator.split(database, name, split[0][0]))
            await remove(s, *(f"o{n}" for n in range(0, 40, 3)))
            await s.put(*(order(n, customer=f"c{n}", status="later") for n in range(1, 40, 3)))

    await s.run(Busy(s.store, meanwhile), page_size=7)  # type: ignore[arg-type]
    await s.run()
    assert split
    await s.assert_converged()
    await remove(s, *(f"o{n}" for n in range(1, 40, 3)))
    await s.run()
    await s.assert_converged()
    assert len(await stored(s)) == 1


async def test_a_source_of_several_ranges(shop: Open, emulator: Emulator) -> None:
    s = await shop(ONLY)
    emulator.split(s.layout.source(BY_STATUS).database, "orders", "0")
    await s.put(*(order(n, customer=f"c{n}") for n in range(30)))
    await s.run(page_size=5)
    await remove(s, *(f"o{n}" for n in range(0, 30, 2)))
    await s.run()
    await s.assert_converged()
    assert len(await stored(s)) == 2


async def test_killed_at_any_call_nothing_is_lost(mortal: Any) -> None:
    """In the first load, between the phases, and after."""
    died = 0
    for dies_at in range(1, 400):
        s = await Shop(MemoryStore(), ONLY).open()
        await s.put(*(order(n) for n in range(4)))
        for n, after in ((dies_at, False), (3, True), (dies_at, True)):
            store = mortal(s.store, n, after=after)
            worker = Worker(store, s.layout, [BY_STATUS], page_size=2)
            with suppress(KilledError):
                await worker.run(until_caught_up=True)
            died += store.died
            gone = [item["id"] for item in await s.all(s.layout.source(BY_STATUS))][:1]
            await remove(s, *gone)
            await s.put(order(3, status=f"after {n}"))
        await s.run(page_size=2)
        await s.assert_converged()
        if not store.died:
            break
    assert died > 50


async def test_a_position_that_is_too_old_means_another_load_and_a_word_about_deletes(
    shop: Open, emulator: Emulator, caplog: pytest.LogCaptureFixture
) -> None:
    s = await shop(ONLY)
    await s.put(*(order(n) for n in range(6)))
    await s.run()
    await remove(s, "o1")
    await s.put(order(2, status="later"), order(7))
    emulator.forget(s.layout.source(BY_STATUS).database, "orders")
    await s.run()
    assert "deletes may have been missed" in caplog.text
    entries = {entry["_source"]["id"]: entry["status"] for entry in await s.entries("by-status")}
    assert entries.pop("o1") == "paid"  # nobody told of it
    assert entries == {"o0": "open", "o2": "later", "o3": "paid", "o4": "open", "o5": "paid", "o7": "paid"}
    found = await status(s.store, s.layout, BY_STATUS)
    [span] = found.missed
    assert found.to_json()["missedDeletes"] == [[span.start, span.end]]
    assert (found.health, found.handing_over) == (Health.OK, 0)
    await remove(s, "o2")
    await s.run()
    assert "o2" not in {entry["_source"]["id"] for entry in await s.entries("by-status")}


async def test_from_a_latest_version_source_on(shop: Open) -> None:
    """What was read before is not read again; deletes from before are not told of."""
    before = Index(name="by-status", source=Source(container="orders", key="/customer"), key="/status")
    s = await shop(ONLY)
    await s.put(order(1), order(2), order(3))
    await Worker(s.store, s.layout, [before]).run(until_caught_up=True)
    worker = await s.run()
    assert worker.progress["by-status"].tally.total == 0
    await remove(s, "o2")
    await s.run()
    await s.assert_converged()


async def test_a_source_that_keeps_no_versions_is_refused(store: Store) -> None:
    layout = Layout(ONLY, "without")
    await initialise(store, layout, emulated=False)
    with pytest.raises(NoVersionsError, match="keeps no feed") as raised:
        await Worker(store, layout, [BY_STATUS]).run(until_caught_up=True)
    assert raised.value.projection == "by-status"
    assert "continuous backup" in str(raised.value.hint)


# the audit


async def test_the_audit_repairs_what_a_dead_worker_left_of_an_item_that_is_gone(shop: Open) -> None:
    s = await shop(ONLY)
    await s.put(*(order(n) for n in range(5)))
    await s.run()
    engine = await Engine.open(s.store, s.layout, BY_STATUS)
    audit = Audit(s.store, s.layout, engine, behind=-1)
    await audit.run()
    await remove(s, "o1", "o3")
    report = await audit.run()
    assert report.repaired.outcomes == {"removed": 2}
    await s.assert_converged()
    assert (await audit.run()).examined == 0


async def test_the_audit_notes_its_position_before_it_loads(shop: Open) -> None:
    s = await shop(ONLY)
    await s.put(*(order(n) for n in range(5)))
    engine = await Engine.open(s.store, s.layout, BY_STATUS)
    await Audit(s.store, s.layout, engine).note()
    await s.run()
    await remove(s, "o1")  # told of before the audit's first run
    report = await Audit(s.store, s.layout, engine, behind=-1).run()
    assert report.examined == 5  # four items, and a delete
    assert report.repaired.outcomes == {"removed": 1}
    await s.assert_converged()


async def test_the_audit_of_a_source_that_is_never_idle_comes_to_its_hand_over(shop: Open) -> None:
    s = await shop(ONLY)
    await s.put(order(1), order(2))
    engine = await Engine.open(s.store, s.layout, BY_STATUS)
    later = 0.0
    audit = Audit(s.store, s.layout, engine, behind=300, now=lambda: _time() + later)
    await audit.note()
    await s.put(order(1))
    later = -400  # noted long before the change
    audit = Audit(s.store, s.layout, engine, behind=300, now=lambda: _time() + later)
    [checkpoint] = await Checkpoints(s.store, s.layout.state, "by-status@1 audit").load([])
    assert checkpoint.loading
    report = await audit.run()
    assert report.examined == 0  # all is young
    later = 400
    report = await audit.run()
    assert report.examined >= 2
    [checkpoint] = await Checkpoints(s.store, s.layout.state, "by-status@1 audit").load([])
    assert not checkpoint.loading


def _time() -> float:
    import time

    return time.time()


async def test_everything_at_once_on_a_store_in_memory() -> None:
    s = await Shop(MemoryStore(), EVERYTHING).open()
    await customers(s, "c0", "c1", "c2")
    await s.put(*(order(n) for n in range(20)))
    await s.run(page_size=3)
    await remove(s, *(f"o{n}" for n in range(0, 20, 2)))
    await remove(s, "c2", source=CUSTOMERS)
    await s.run(page_size=3)
    await assert_converged(s.store, s.layout)
