"""The pull worker on the emulator, through the real SDK: changes in, entries out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

from projections.cosmos import connect
from projections.declare import Catalog, Index, SoftDelete, Source, Target
from projections.emulator import Emulator
from projections.errors import FatalError, MissingContainerError, UnsafeError
from projections.feed import Checkpoints, LostRangeError
from projections.identity import Place
from projections.keys import Key
from projections.metering import measured
from projections.outcomes import Outcome
from projections.provision import Layout, initialise
from projections.settings import Settings
from projections.store import Create, Delete, Description, Upsert
from projections.where import field
from projections.worker import POLL_SECONDS, Engine, Worker
from tests.converged import assert_converged, documents

ORDERS = Source(container="orders", key="/customerId")
BY_ID = Index(name="by-id", source=ORDERS, key="/orderId", deletes=SoftDelete("/deleted"))
BY_STATUS = Index(name="by-status", source=ORDERS, key="/status", deletes=SoftDelete("/deleted"))
BIG = Index(name="big", source=ORDERS, key=("/status", "/orderId"), where=field("/total") >= 100)
CATALOG = Catalog(projections=(BY_ID, BY_STATUS, BIG))

OpenShop = Callable[[Catalog], Any]


def order(n: int, *, customer: str = "c1", status: str = "open", total: int = 10, **fields: Any) -> dict[str, Any]:
    return {
        "id": str(n),
        "customerId": customer,
        "orderId": f"{customer}-{n}",
        "status": status,
        "total": total,
    } | fields


def seen(entries: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(entry.get(name) for name in names) for entry in entries)


async def test_every_projection_gets_its_entries(shop: OpenShop) -> None:
    s = await shop(CATALOG)
    await s.put(order(1), order(2, total=500), order(1, customer="c2", status="paid"))
    worker = await s.run()
    assert seen(await s.entries("by-id"), "orderId") == [("c1-1",), ("c1-2",), ("c2-1",)]
    assert seen(await s.entries("by-status"), "status", "orderId") == [
        ("open", "c1-1"), ("open", "c1-2"), ("paid", "c2-1"),
    ]  # fmt: skip
    assert seen(await s.entries("big"), "orderId") == [("c1-2",)]
    assert worker.progress["big"].tally.outcomes == {"written": 1, "skipped": 2}
    assert worker.progress["big"].tally.reasons == {"skipped: where": 2}
    await s.assert_converged()


async def test_an_entry_says_what_it_was_made_from(shop: OpenShop) -> None:
    s = await shop(Catalog(projections=(BY_ID,)))
    await s.put(order(1, customer="c9"))
    await s.run()
    [entry] = await s.entries("by-id")
    [item] = await s.all(s.layout.source(BY_ID))
    mark = entry["_source"]
    assert (mark["id"], mark["key"], mark["etag"], mark["ts"]) == ("1", ["c9"], item["_etag"], item["_ts"])
    assert {k: v for k, v in entry.items() if not k.startswith("_") and k != "id"} == {
        k: v for k, v in item.items() if not k.startswith("_") and k != "id"
    }


async def test_a_change_of_key_moves_the_entry(shop: OpenShop) -> None:
    s = await shop(CATALOG)
    await s.put(order(1))
    await s.run()
    await s.put(order(1, status="paid"))
    worker = await s.run()
    assert seen(await s.entries("by-status"), "status") == [("paid",)]
    assert worker.progress["by-status"].tally.outcomes == {"moved": 1}
    assert worker.progress["by-id"].tally.outcomes == {"written": 1}
    await s.assert_converged()


async def test_a_second_run_reads_and_writes_nothing(shop: OpenShop) -> None:
    s = await shop(CATALOG)
    await s.put(*(order(n) for n in range(20)))
    await s.run()
    before = await s.all(s.layout.state)
    worker = await s.run()
    assert all(not progress.tally.total for progress in worker.progress.values())
    assert await s.all(s.layout.state) == before


async def test_a_replay_from_the_beginning_writes_no_entry(shop: OpenShop) -> None:
    s = await shop(Catalog(projections=(BY_ID,)))
    await s.put(*(order(n) for n in range(20)))
    await s.run()
    before = await s.entries("by-id")
    await forget_positions(s)
    worker = await s.run()
    assert worker.progress["by-id"].tally.outcomes == {"unchanged": 20}
    assert await s.entries("by-id") == before


async def forget_positions(s: Any) -> None:
    for projection in s.catalog:
        checkpoints = Checkpoints(s.store, s.layout.state, projection.full_name)
        for checkpoint in await checkpoints.load(await s.store.feed_ranges(s.layout.source(projection))):
            checkpoint.position = None
            await checkpoints.save(checkpoint)


async def test_soft_deleted_then_restored(shop: OpenShop) -> None:
    s = await shop(CATALOG)
    await s.put(order(1, total=200), order(2))
    await s.run()
    await s.put(order(1, total=200, deleted=True), order(2, deleted="true"))
    worker = await s.run()
    assert seen(await s.entries("by-id"), "id", "deleted")[0][1] == "true"
    assert len(await s.entries("by-id")) == 1
    tally = worker.progress["by-id"].tally
    assert tally.reasons == {"removed: deleted": 1, "delete marker has an unexpected type": 1}
    await s.put(order(1, total=200, deleted=False))
    await s.run()
    assert len(await s.entries("by-id")) == 2
    await s.assert_converged()


async def test_deleted_and_created_again(shop: OpenShop) -> None:
    s = await shop(CATALOG)
    await s.put(order(1), order(2))
    await s.run()
    source = s.layout.source(BY_ID)
    for n in ("1", "2"):
        place = Place(n, Key.of("c1"))
        etag = (await s.store.read(source, [place]))[place]["_etag"]
        await s.store.write(source, place.key, [Delete(n, etag)])
    await s.put(order(1, status="paid", orderId="new"))
    await s.run()
    assert ("new", "paid") in seen(await s.entries("by-id"), "orderId", "status")
    assert len(await s.entries("by-status")) == 2  # order 2 was deleted for good: the latest-version feed cannot say so


async def test_the_same_id_in_many_partitions(shop: OpenShop) -> None:
    s = await shop(CATALOG)
    await s.put(*(order(1, customer=f"c{n}") for n in range(30)))
    await s.run()
    assert len(await s.entries("by-id")) == 30
    await s.put(order(1, customer="c7", status="paid"))
    await s.run()
    assert seen(await s.entries("by-status"), "status").count(("open",)) == 29
    await s.assert_converged()


class Priced(BaseModel):
    total: int


async def test_a_bad_item_is_parked_and_the_others_go_on(shop: OpenShop) -> None:
    projection = Index(name="priced", source=ORDERS, key="/orderId", model=Priced)
    s = await shop(Catalog(projections=(projection,)))
    await s.put(order(1), order(2) | {"total": {"amount": "secret"}}, order(3))
    worker = await s.run()
    assert worker.progress["priced"].tally.outcomes == {"written": 2, "parked": 1}
    [letter] = await s.parked("priced")
    assert (letter.identity.id, letter.identity.key, letter.attempts) == ("2", Key.of("c1"), 1)
    assert "/total" in letter.reason
    assert "secret" not in letter.reason
    await s.assert_converged()


async def test_an_item_that_turns_bad_loses_its_entry_and_gets_it_back(shop: OpenShop) -> None:
    projection = Index(name="priced", source=ORDERS, key="/orderId", model=Priced)
    s = await shop(Catalog(projections=(projection,)))
    for total, entries, parked in ((1, 1, 0), ("bad", 0, 1), ("worse", 0, 1), (2, 1, 0)):
        await s.put(order(1) | {"total": total})
        await s.run()
        assert len(await s.entries("priced")) == entries
        assert len(await s.parked("priced")) == parked
        await s.assert_converged()


async def test_parked_keep_leaves_the_last_good_entry(shop: OpenShop) -> None:
    projection = Index(name="priced", source=ORDERS, key="/orderId", model=Priced, parked="keep")
    s = await shop(Catalog(projections=(projection,)))
    for total, shown, parked in ((1, 1, 0), ("bad", 1, 1), (3, 3, 0)):
        await s.put(order(1) | {"total": total})
        await s.run()
        assert seen(await s.entries("priced"), "total") == [(shown,)]
        assert len(await s.parked("priced")) == parked


async def test_a_parked_item_that_is_soft_deleted_is_no_longer_parked(shop: OpenShop) -> None:
    projection = Index(name="priced", source=ORDERS, key="/orderId", model=Priced, deletes=SoftDelete("/deleted"))
    s = await shop(Catalog(projections=(projection,)))
    await s.put(order(1) | {"total": "bad"})
    await s.run()
    await s.put(order(1, deleted=True))
    await s.run()
    assert await s.parked("priced") == []
    await s.assert_converged()


async def test_entries_expire_with_their_items(shop: OpenShop, monkeypatch: pytest.MonkeyPatch) -> None:
    s = await shop(Catalog(projections=(BY_ID,)))
    await s.put(order(1, ttl=100), order(2, ttl=500), order(3))
    await s.run()
    ttls = dict(seen(await s.entries("by-id"), "orderId", "ttl"))
    assert 0 < ttls["c1-1"] <= 100
    assert 400 < ttls["c1-2"] <= 500
    assert ttls["c1-3"] is None
    present = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: present() + 101 * 1_000_000_000)  # the clock of the emulator
    assert seen(await s.entries("by-id"), "orderId") == [("c1-2",), ("c1-3",)]


async def test_a_target_that_cannot_expire_entries_is_refused(shop: OpenShop) -> None:
    s = await shop(Catalog(projections=(BY_ID.model_copy(update={"target": Target(container="t", default_ttl=None)}),)))
    with pytest.raises(UnsafeError, match="expiry off"):
        await s.run()


async def test_a_source_keyed_otherwise_than_declared_is_refused(shop: OpenShop) -> None:
    s = await shop(Catalog(projections=(BY_ID,)))
    other = Source(container="other", key="/customerId")
    await s.store.create_container(Description(s.layout.source(Index(name="x", source=other, key="/k")), ("/else",)))
    wrong = Catalog(projections=(Index(name="by-id", source=other, key="/orderId"),))
    s.catalog, s.layout = wrong, type(s.layout)(wrong, s.layout.database)
    with pytest.raises(UnsafeError, match="keyed"):
        await s.run()


async def test_missing_containers_are_named_with_what_to_do(shop: OpenShop) -> None:
    s = await shop(Catalog(projections=(BY_ID,)))
    missing = Catalog(projections=(BY_ID, Index(name="elsewhere", source=ORDERS, key="/k")))
    s.catalog, s.layout = missing, type(s.layout)(missing, s.layout.database)
    with pytest.raises(MissingContainerError) as raised:
        await s.run()
    assert raised.value.projection == "elsewhere"
    assert raised.value.hint
    assert "projections init" in raised.value.hint


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_killed_at_every_call_it_goes_on_where_it_was(
    shop: OpenShop, mortal: Callable[..., Any], after: bool
) -> None:
    s = await shop(Catalog(projections=(BY_STATUS,)))
    await s.put(*(order(n) for n in range(6)))
    await s.run()
    await s.put(order(0, status="paid"), order(1, total=11), order(2, deleted=True), order(7), order(8, status="paid"))
    for n in range(1, 200):
        dying = mortal(s.store, n, after=after)
        await s.put(order(3, status=f"s{n % 3}"), order(4, total=n))
        try:
            await s.run(dying, page_size=3)
        except BaseException as death:
            if type(death).__name__ != "KilledError":
                raise
            continue
        break
    assert not dying.died
    assert n > 10
    await s.run()
    await s.assert_converged()


async def test_a_second_worker_on_the_same_range_stops_the_first(shop: OpenShop) -> None:
    s = await shop(Catalog(projections=(BY_ID,)))
    await s.put(order(1))
    first = Worker(s.store, s.layout, [BY_ID])
    running = asyncio.create_task(first.run())
    await until(lambda: first.progress["by-id"].caught_up)
    await s.put(order(2))
    await until(lambda: first.progress["by-id"].tally.total == 2)
    checkpoints = Checkpoints(s.store, s.layout.state, BY_ID.full_name)
    [checkpoint] = await checkpoints.load([])
    checkpoint.position = None
    await checkpoints.save(checkpoint)
    await s.put(order(3))
    with pytest.raises(LostRangeError):
        await asyncio.wait_for(running, 60)
    await s.run()
    await s.assert_converged()


async def test_a_source_that_was_created_anew_is_not_read_from_the_old_position(emulator: Emulator) -> None:
    """Its feed begins again: read from where the old one was, it would seem to have nothing new."""
    settings, layout = Settings(emulator.url, emulator.connection_string), Layout(CATALOG, "anew")
    for n in range(2):
        async with connect(settings) as store:
            await initialise(store, layout)
            await store.write(layout.source(BY_ID), Key.of("c1"), [Upsert(order(n))])
            if n == 0:
                await Worker(store, layout, [BY_ID]).run(until_caught_up=True)
                await store._client.get_database_client("anew").delete_container("orders")  # type: ignore[attr-defined]
                continue
            before = await documents(store, layout.state)
            with pytest.raises(FatalError, match="created anew") as caught:
                await Worker(store, layout, [BY_ID]).run(until_caught_up=True)
            assert "raise its version" in str(caught.value.hint)
            assert await documents(store, layout.state) == before
            second = BY_ID.model_copy(update={"version": 2})
            again = Layout(Catalog(projections=(second,)), "anew")
            await initialise(store, again)
            await Worker(store, again, [second]).run(until_caught_up=True)
            await assert_converged(store, again)


async def test_stop_finishes_the_page_and_stores_the_position(shop: OpenShop) -> None:
    s = await shop(Catalog(projections=(BY_ID,)))
    await s.put(*(order(n) for n in range(40)))
    worker = Worker(s.store, s.layout, [BY_ID], page_size=10)
    worker._on_progress = lambda progress: worker.stop()
    await worker.run()
    done = worker.progress["by-id"].tally.total
    assert 0 < done < 40
    rest = await s.run()
    assert done + rest.progress["by-id"].tally.total == 40
    await s.assert_converged()


async def test_changes_show_in_seconds(shop: OpenShop) -> None:
    """A source that has long been idle is looked at twice a second; the rest is up to the machine."""
    assert max(POLL_SECONDS) <= 0.5
    s = await shop(Catalog(projections=(BY_STATUS,)))
    worker = Worker(s.store, s.layout, [BY_STATUS])
    running = asyncio.create_task(worker.run())
    await until(lambda: worker.progress["by-status"].caught_up)
    await asyncio.sleep(1)  # long enough idle to be polling slowly
    for item, expected in (
        (order(1), [("open",)]),
        (order(1, status="paid"), [("paid",)]),
        (order(1, deleted=True), []),
        (order(1, status="again"), [("again",)]),
    ):
        await s.put(item)
        start = time.monotonic()
        while seen(await s.entries("by-status"), "status") != expected:
            assert time.monotonic() - start < 30
            await asyncio.sleep(0.02)
    worker.stop()
    await running


async def test_a_change_costs_few_calls(shop: OpenShop) -> None:
    """SDK calls per change at pages of 100, every entry in a partition of its own (counts are exact)."""
    s = await shop(Catalog(projections=(BY_STATUS,)))
    engine = await Engine.open(s.store, s.layout, BY_STATUS)

    async def calls_a_change(**fields: Any) -> float:
        await s.put(*(order(n, **{name: value(n) for name, value in fields.items()}) for n in range(100)))
        return await calls_for(await s.all(s.layout.source(BY_STATUS)))

    async def calls_for(items: list[dict[str, Any]]) -> float:
        with measured() as cost:
            await engine.apply_page(items, time.monotonic())
        return cost.calls / 100

    await s.put(order(1000))
    await engine.apply_page(await s.all(s.layout.source(BY_STATUS)), time.monotonic())  # the SDK gets to know them
    assert await calls_a_change(status=lambda n: f"s{n}") <= 1.25  # new
    assert await calls_a_change(status=lambda n: f"s{n}", total=lambda n: n) <= 1.12  # other content
    assert await calls_for(await s.all(s.layout.source(BY_STATUS))) <= 0.06  # unchanged
    assert await calls_a_change(status=lambda n: f"t{n}", total=lambda n: n) <= 2.45  # moved


async def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        await asyncio.sleep(0.01)


def test_outcomes_are_the_words_of_the_product() -> None:
    assert [o.value for o in Outcome] == ["written", "unchanged", "stale", "removed", "moved", "skipped", "parked"]


async def test_a_document_of_somebody_else_in_the_target_is_never_overwritten(shop: OpenShop) -> None:
    s = await shop(Catalog(projections=(BY_ID,)))
    await s.put(order(1))
    await s.run()
    [entry] = await s.entries("by-id")
    target, key = s.layout.target(BY_ID), Key.of("c1-1")
    await s.store.write(target, key, [Delete(entry["id"], entry["_etag"])])
    await s.store.write(target, key, [Create({"id": entry["id"], "orderId": "c1-1", "mine": True})])
    await s.put(order(1, total=99))
    await s.run()
    [kept] = await s.entries("by-id")
    assert kept["mine"]
    [letter] = await s.parked("by-id")
    assert "not the projection's" in letter.reason
