"""Aggregates on the emulator, through the real SDK: totals that equal what the items come to, whatever happens."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from projections import Aggregate, Avg, Count, Distinct, Max, Min, SoftDelete, Source, Sum, field
from projections.declare import Catalog
from projections.entries import State
from projections.errors import TransientError
from projections.example.data import orders
from projections.identity import Identity, Place
from projections.keys import Key
from projections.lookup import Lookup
from projections.metering import measured
from projections.store import Container, Delete
from projections.strategies import HashSuffix, RandomSuffix, TimeBucket
from projections.version import Version
from projections.worker import Engine, Progress, Worker
from tests.converged import assert_entries

ORDERS = Source(container="orders", key="/customerId")
BY_MONTH = Aggregate(
    name="orders-by-customer-and-month",
    source=ORDERS,
    key=("/customerId", TimeBucket("/createdAt", "month", path="/month")),
    measures={
        "orders": Count(), "revenue": Sum("/total"), "largest": Max("/total"), "first": Min("/createdAt"),
        "mean": Avg("/total"), "statuses": Distinct("/status"),
    },
    where=field("/status") != "cancelled",
    deletes=SoftDelete("/deleted"),
)  # fmt: skip
BY_PRODUCT = Aggregate(
    name="sold-by-product",
    source=ORDERS,
    key="/lines/product",
    each="/lines",
    measures={"count": Count(), "sold": Sum("/lines/quantity"), "dearest": Max("/lines/price")},
    deletes=SoftDelete("/deleted"),
)
CATALOG = Catalog(projections=(BY_MONTH, BY_PRODUCT))

OpenShop = Callable[[Catalog], Any]


def order(n: int, total: Any = 10, *, customer: str = "c1", **fields: Any) -> dict[str, Any]:
    created = {"createdAt": f"2026-11-{n % 28 + 1:02}T00:00:00Z", "status": "open", "lines": []}
    return {"id": str(n), "customerId": customer, "total": total, **created, **fields}


def hot(**fields: Any) -> Aggregate:
    """One group for all."""
    measures = {"orders": Count(), "revenue": Sum("/total"), "largest": Max("/total")}
    return Aggregate(**{"name": "by-status", "source": ORDERS, "key": "/status", "measures": measures, **fields})


async def look(s: Any, name: str, *key: Any) -> list[dict[str, Any]]:
    return (await Lookup(s.store, s.layout, s.catalog[name]).entries(*key)).entries


async def total(s: Any, name: str, *key: Any) -> dict[str, Any]:
    [found] = await look(s, name, *key)
    return {measure: found[measure] for measure in s.catalog[name].measures}


async def remove(s: Any, *numbers: int, customer: str = "c1") -> None:
    source = s.layout.source(s.catalog.projections[0])
    places = [Place(str(n), Key.of(customer)) for n in numbers]
    for place, found in (await s.store.read(source, places)).items():
        await s.store.write(source, place.key, [Delete(place.id, found["_etag"])])


async def apply(s: Any, *numbers: int, customer: str = "c1") -> None:
    """Tell the projection of changes that its feed does not tell of, as a feed with deletes would."""
    engine = await Engine.open(s.store, s.layout, s.catalog.projections[0])
    notices = [State(Identity(Key.of(customer), str(n)), Version(), None) for n in numbers]
    await engine.apply_present(notices)


async def test_totals_equal_what_the_orders_come_to(shop: OpenShop) -> None:
    s = await shop(CATALOG)
    made = list(orders(300))
    await s.put(*made)
    await s.run()
    await s.assert_converged()
    own = [o for o in made if o["customerId"] == made[0]["customerId"] and o["status"] != "cancelled"]
    months = await look(s, BY_MONTH.name, made[0]["customerId"])
    assert sum(month["orders"] for month in months) == len(own)
    assert round(sum(month["revenue"] for month in months), 2) == round(sum(o["total"] for o in own), 2)


async def test_items_that_change_move_and_go(shop: OpenShop) -> None:
    s = await shop(CATALOG)
    await s.put(*orders(120))
    await s.run()
    for item in list(orders(120))[::3]:
        await s.put(item | {"total": 1.1, "createdAt": "2027-01-01T00:00:00Z", "lines": item["lines"][1:]})
    for item in list(orders(120))[1::3]:
        await s.put(item | {"deleted": True})
    await s.run()
    await s.assert_converged()


async def test_a_redelivery_changes_nothing_and_writes_nothing(shop: OpenShop) -> None:
    s = await shop(CATALOG)
    await s.put(*orders(60))
    await s.run()
    before = [await s.entries(p.name) for p in s.catalog]
    for projection in s.catalog:
        engine = await Engine.open(s.store, s.layout, projection)
        items = await s.all(s.layout.source(projection))
        for _ in range(2):
            await engine.apply_page(items, time.monotonic())
    assert [await s.entries(p.name) for p in s.catalog] == before


async def test_deleted_and_restored(shop: OpenShop) -> None:
    s = await shop(Catalog(projections=(hot(deletes=SoftDelete("/deleted")),)))
    await s.put(order(1, 5), order(2, 0.1), order(3, 0.2))
    await s.run()
    await s.put(order(1, 5, deleted=True))
    await s.run()
    assert await total(s, "by-status", "open") == {"orders": 2, "revenue": 0.3, "largest": 0.2}
    await s.put(order(2, deleted=True), order(3, deleted=True))
    await s.run()
    assert await s.entries("by-status") == []
    await s.put(order(1, 5), order(2, 0.1), order(3, 0.2))
    await s.run()
    assert await total(s, "by-status", "open") == {"orders": 3, "revenue": 5.3, "largest": 5}
    await s.assert_converged()


async def test_items_that_are_gone_leave_their_totals(shop: OpenShop) -> None:
    s = await shop(Catalog(projections=(hot(),)))
    await s.put(*(order(n, n) for n in range(250)))
    await s.run()
    await remove(s, *range(150, 250))
    await apply(s, *range(250))
    assert await total(s, "by-status", "open") == {"orders": 150, "revenue": sum(range(150)), "largest": 149}
    await s.assert_converged()


async def test_the_next_extreme_is_found_among_numbers_and_text(shop: OpenShop) -> None:
    s = await shop(Catalog(projections=(hot(measures={"most": Max("/total"), "least": Min("/total")}),)))
    values = [3, "b", 7.5, "a", 2**53 + 2, None, -1]
    await s.put(*(order(n, value) for n, value in enumerate(values)))
    await s.run()
    seen = [await total(s, "by-status", "open")]
    for n in (1, 3, 4, 6):
        await s.put(order(n, status="gone"))
        await s.run()
        seen.append(await total(s, "by-status", "open"))
    assert [found["most"] for found in seen] == ["b", "a", 2**53 + 2, 7.5, 7.5]
    assert [found["least"] for found in seen] == [-1, -1, -1, -1, 3]
    await s.assert_converged()


async def test_sums_have_every_digit(shop: OpenShop) -> None:
    s = await shop(Catalog(projections=(hot(measures={"sum": Sum("/total")}),)))
    await s.put(*(order(n, 0.1) for n in range(10)), order(10, 2**60), order(11, 1))
    await s.run()
    [found] = await look(s, "by-status", "open")
    assert found["_source"]["exact"]["sum"] == str(2**60 + 2)
    await s.put(order(10, 0))
    await s.run()
    assert await total(s, "by-status", "open") == {"sum": 2}


async def test_values_of_a_wrong_type_park_their_item_and_leave_the_totals_alone(shop: OpenShop) -> None:
    s = await shop(Catalog(projections=(hot(),)))
    await s.put(order(1, 5), order(2, "5"))
    await s.run()
    assert await total(s, "by-status", "open") == {"orders": 1, "revenue": 5, "largest": 5}
    [letter] = await s.parked("by-status")
    assert letter.path == "/total"
    await s.assert_converged()


# several workers


async def test_two_workers_at_once(shop: OpenShop) -> None:
    s = await shop(Catalog(projections=(hot(key="/customerId"),)))
    await s.put(*(order(n, n / 10) for n in range(300)))
    items = await s.all(s.layout.source(s.catalog.projections[0]))
    engines = [await Engine.open(s.store, s.layout, s.catalog.projections[0]) for _ in range(2)]
    began = time.monotonic()
    await asyncio.gather(*(e.apply_page(items[n::3], began) for n in range(3) for e in engines))
    assert await total(s, "by-status", "c1") == {"orders": 300, "revenue": 4485, "largest": 29.9}
    await s.assert_converged()


@pytest.mark.parametrize("dies_at", [4, 6, 8, 11])
@pytest.mark.parametrize("after", [False, True])
async def test_a_worker_that_is_killed(shop: OpenShop, mortal: Any, dies_at: int, after: bool) -> None:
    s = await shop(Catalog(projections=(BY_MONTH,)))
    await s.put(*(order(n, n, status="open" if n % 2 else "paid") for n in range(5)))
    await s.run()
    await s.put(*(order(n, 7, customer="c1", createdAt=f"2026-{n + 1:02}-01T00:00:00Z") for n in range(5)))
    store = mortal(s.store, dies_at, after=after)
    items = await s.all(s.layout.source(BY_MONTH))

    async def work() -> None:
        engine = await Engine.open(store, s.layout, BY_MONTH)
        await engine.apply_page(items, time.monotonic())

    with pytest.raises(BaseException):  # noqa: B017, PT011
        await work()
    assert store.died
    await s.run()
    await s.assert_converged()


# hot groups


async def test_the_changes_of_a_page_share_batches(shop: OpenShop) -> None:
    s = await shop(Catalog(projections=(hot(),)))
    await s.put(*(order(n, n, customer=f"c{n % 7}") for n in range(1_000)))
    with measured() as cost:
        await s.run()
    assert await total(s, "by-status", "open") == {"orders": 1_000, "revenue": 499_500, "largest": 999}
    assert cost.calls / 1_000 < 0.2
    await assert_entries(s.store, s.layout, s.catalog.projections[0])


@pytest.mark.parametrize(
    "key",
    [RandomSuffix("/status", 4), HashSuffix("/status", "/customerId", 4), (HashSuffix("/status", "/id", 3), "/x")],
    ids=["random", "hash", "levels"],
)
async def test_shards_are_added_up(shop: OpenShop, key: Any) -> None:
    measures = {"orders": Count(), "revenue": Sum("/total"), "largest": Max("/total"), "mean": Avg("/total")}
    if isinstance(key, HashSuffix):
        measures["customers"] = Distinct("/customerId")
    s = await shop(Catalog(projections=(hot(key=key, measures=measures),)))
    await s.put(*(order(n, n / 10, customer=f"c{n % 7}", x=n % 2) for n in range(60)))
    await s.run()
    shards = [d for d in await s.entries("by-status") if d["id"] == "total"]
    assert len(shards) >= 3
    found = await look(s, "by-status", "open")
    assert sum(one["orders"] for one in found) == 60
    assert len(found) == (2 if isinstance(key, tuple) else 1)
    assert found[0]["partitionKey"] == "open"
    if len(found) == 1:
        assert (found[0]["revenue"], found[0]["largest"], found[0]["mean"]) == (177, 5.9, 2.95)
    if isinstance(key, HashSuffix):
        assert found[0]["customers"] == 7
    await s.assert_converged()


# reading


async def test_totals_below_a_prefix_come_in_an_order(shop: OpenShop) -> None:
    s = await shop(CATALOG)
    await s.put(*(order(n, n, createdAt=f"2026-{n:02}-01") for n in (3, 1, 2)))
    await s.run()
    found = await Lookup(s.store, s.layout, BY_MONTH).entries("c1", order_by="/revenue", descending=True)
    assert [(one["month"], one["revenue"]) for one in found.entries] == [("2026-03", 3), ("2026-02", 2), ("2026-01", 1)]
    [one] = await look(s, BY_MONTH.name, "c1", "2026-02")
    assert one["first"] == "2026-02-01"
    assert await look(s, BY_MONTH.name, "c1", "2025-02") == []


async def test_groups_can_be_ranked_by_what_they_come_to(shop: OpenShop) -> None:
    """The target's own indexing: totals by their measures."""
    s = await shop(Catalog(projections=(hot(key="/customerId"),)))
    await s.put(*(order(n, n, customer=f"c{n}") for n in range(5)))
    await s.run()
    pages = s.store.query(s.layout.target(s.catalog.projections[0]),
                          'SELECT TOP 2 * FROM c WHERE c.id = "total" ORDER BY c.revenue DESC', {})  # fmt: skip
    assert [row["customerId"] async for page in pages for row in page] == ["c4", "c3"]


# expiry


async def test_what_expires_leaves_its_total(shop: OpenShop) -> None:
    s = await shop(Catalog(projections=(hot(),)))
    await s.put(order(1, 5), order(2, 7, ttl=2))
    await s.run()
    assert (await total(s, "by-status", "open"))["orders"] == 2
    assert not any("ttl" in entry for entry in await s.entries("by-status"))
    await asyncio.sleep(3)
    worker = await s.run()
    assert await total(s, "by-status", "open") == {"orders": 1, "revenue": 5, "largest": 5}
    assert worker.progress["by-status"].tally.outcomes == {"removed": 1}
    await s.assert_converged()


async def test_a_running_worker_sweeps(shop: OpenShop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("projections.worker.SWEEP_SECONDS", 0.2)
    s = await shop(Catalog(projections=(hot(),)))
    await s.put(order(1, 5), order(2, 7, ttl=1))
    swept = asyncio.Event()

    def told(progress: Progress) -> None:
        if progress.tally.outcomes["removed"]:
            swept.set()

    worker = Worker(s.store, s.layout, list(s.catalog), on_progress=told)
    running = asyncio.create_task(worker.run())
    await asyncio.wait_for(swept.wait(), 60)
    worker.stop()
    await running
    assert (await total(s, "by-status", "open"))["orders"] == 1


async def test_somebody_elses_hand_in_a_total_is_noticed(shop: OpenShop) -> None:
    s = await shop(Catalog(projections=(hot(),)))
    await s.put(order(1, 5))
    await s.run()
    target: Container = s.layout.target(s.catalog.projections[0])
    [found] = (await s.store.read(target, [Place("total", Key.of("open"))])).values()
    await s.store.write(target, Key.of("open"), [Delete("total", found["_etag"])])
    await s.put(order(1, 6))
    with pytest.raises(TransientError, match="not what its contributions come to"):
        await apply(s, 1)
