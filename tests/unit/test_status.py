"""How a projection is said to stand, in each phase of its life."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from projections.alarm import Raised
from projections.audit import Audit
from projections.cli.health import status_table
from projections.declare import Catalog, Index, Source
from projections.deferred import Deferred, Pending
from projections.keys import Key
from projections.memory import MemoryStore
from projections.provision import Layout, initialise
from projections.status import AuditStatus, Health, Status, status
from projections.store import Upsert
from projections.verify import Verify
from projections.worker import Engine, Worker
from tests.support import gone

BY_STATUS = Index(name="by-status", source=Source(container="orders", key="/shop"), key="/status")
LAYOUT = Layout(Catalog(projections=(BY_STATUS,)), "db")


async def put(store: MemoryStore, *items: dict[str, Any]) -> None:
    for item in items:
        await store.write(LAYOUT.source(BY_STATUS), Key.of("s"), [Upsert({"shop": "s", **item})])


async def started() -> MemoryStore:
    store = MemoryStore()
    await initialise(store, LAYOUT)
    await put(store, {"id": "1", "status": "open"}, {"id": "2"}, {"id": "3", "status": {}})
    return store


async def look(store: MemoryStore, ahead: float = 0) -> Status:
    return await status(store, LAYOUT, BY_STATUS, now=time.time() + ahead)


async def test_missing_containers_are_named() -> None:
    found = await look(MemoryStore())
    assert found.health is Health.MISSING
    assert [container.name for container in found.missing] == [
        "orders", "by-status", "projections-state", "projections-deadletters",
    ]  # fmt: skip
    assert (found.entries, found.gap, found.lag, found.deadletters) == (None, None, None, None)


async def test_before_the_first_run() -> None:
    found = await look(await started())
    assert (found.health, found.entries, found.ranges, found.gap) == (Health.NOT_STARTED, 0, 0, None)


async def test_caught_up() -> None:
    store = await started()
    await Worker(store, LAYOUT, [BY_STATUS]).run(until_caught_up=True)
    found = await look(store, ahead=50)
    assert (found.health, found.entries, found.ranges) == (Health.OK, 1, 1)
    assert (found.gap, found.lag, found.deadletters) == ("0", 0.0, 1)
    assert found.tally.outcomes == {"written": 1, "skipped": 1, "parked": 1}
    assert found.tally.reasons["skipped: missing key"] == 1


async def test_behind_by_the_age_of_the_first_pending_change() -> None:
    store = await started()
    await Worker(store, LAYOUT, [BY_STATUS]).run(until_caught_up=True)
    await put(store, {"id": "4", "status": "open"})
    found = await look(store, ahead=50)
    assert (found.health, found.gap) == (Health.BEHIND, ">=1")
    assert found.lag is not None
    assert 49 <= found.lag <= 52


async def test_for_programs() -> None:
    store = await started()
    await Worker(store, LAYOUT, [BY_STATUS]).run(until_caught_up=True)
    found = await look(store, ahead=90)
    assert found.oldest_deadletter is not None
    assert 89 <= found.oldest_deadletter <= 92
    assert replace(found, oldest_deadletter=90.0).to_json() == {
        "projection": "by-status", "version": 1, "target": "db/by-status", "health": "ok", "missing": [], "entries": 1,
        "ranges": 1, "gap": "0", "lagSeconds": 0.0, "deadLetters": 1, "fanOuts": None,
        "oldestDeadLetterSeconds": 90.0, "deferred": 0, "oldestDeferredSeconds": None, "alarm": None, "audit": None,
        "handingOver": 0, "missedDeletes": [], "verify": None, "replayDue": [],
        "outcomes": {"parked": 1, "skipped": 1, "written": 1},
        "reasons": {"parked: ItemError": 1, "skipped: missing key": 1},
    }  # fmt: skip


async def test_what_is_deferred_is_counted_for_its_projection_alone() -> None:
    store = await started()
    now = time.time()
    for n, name in ((1, "by-status@1"), (2, "by-status@1"), (3, "by-status@2")):
        deferred = Deferred(store, LAYOUT.deadletters, name, clock=lambda n=n: now - 100 * n)  # type: ignore[misc]
        await deferred.defer(Pending(known=[gone(f"o{n}")]), "busy (429)")
    found = await status(store, LAYOUT, BY_STATUS, now=now)
    assert (found.deferred, found.deadletters) == (2, 0)
    assert found.oldest_deferred is not None
    assert 199 <= found.oldest_deferred <= 201
    assert replace(found, oldest_deferred=200.0).to_json()["oldestDeferredSeconds"] == 200.0
    [row] = [str(cell) for cell in status_table([found]).columns[6].cells]
    assert row == "2, oldest 3m 20s"


async def test_the_audit_and_the_alarm() -> None:
    store = await started()
    await Worker(store, LAYOUT, [BY_STATUS]).run(until_caught_up=True)
    engine = await Engine.open(store, LAYOUT, BY_STATUS)
    await Audit(store, LAYOUT, engine, behind=-10).run()
    assert (await look(store)).audit == AuditStatus(lag=0.0, examined=3, repaired=0)
    await put(store, {"id": "4", "status": "open"})  # and the host loses it
    found = await look(store, ahead=50)
    assert found.audit is not None
    assert 49 <= found.audit.lag <= 52
    await Audit(store, LAYOUT, engine, behind=-10).run()
    found = await look(store)
    assert found.audit == AuditStatus(lag=0.0, examined=4, repaired=1)
    assert found.to_json()["audit"] == {"lagSeconds": 0.0, "examined": 4, "repaired": 1, "missedDeletes": []}
    assert found.health is Health.BEHIND
    raised = Raised("ItemError", 1000, {}, 5)
    await store.write(LAYOUT.state, Key.of("by-status@1"), [Upsert(raised.to_stored("by-status@1"))])
    found = await look(store)
    assert (found.health, found.to_json()["alarm"]) == (Health.ALARM, {"error": "ItemError", "items": 1000, "at": 5})


async def test_the_last_verify_and_one_that_was_cut_off() -> None:
    store = await started()
    await Worker(store, LAYOUT, [BY_STATUS]).run(until_caught_up=True)
    await (await Verify.open(store, LAYOUT, BY_STATUS)).run()
    found = await look(store, ahead=60)
    assert found.verify is not None
    assert 59 <= found.verify.age <= 62
    assert replace(found.verify, age=60.0).to_json() == {
        "phase": "done", "scope": "all", "differences": 0, "ageSeconds": 60.0,
    }  # fmt: skip
    [row] = [str(cell) for cell in status_table([found]).columns[8].cells]
    assert row.startswith("clean, 1m")
    cut_off = await Verify.open(store, LAYOUT, BY_STATUS, page_size=1)
    assert not (await cut_off.run(stop=lambda: True)).complete
    found = await look(store)
    assert found.verify is not None
    assert found.verify.phase == "compare"
    [row] = [str(cell) for cell in status_table([found]).columns[8].cells]
    assert row == "not done (compare)"
