"""Deferred items: their stored shape, whom they are about, and that none is taken away before its time."""

from __future__ import annotations

import itertools
import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from projections.declare import Catalog, Index
from projections.deferred import Deferral, Deferred, Drain, Pending
from projections.entries import State
from projections.errors import PartitionFullError, ThrottledError, TransientError
from projections.identity import Identity
from projections.keys import Key
from projections.memory import MemoryStore
from projections.provision import Layout, initialise
from projections.store import Container, Operation, Upsert, WriteError
from projections.version import Version
from projections.worker import Engine
from tests.converged import assert_converged, documents
from tests.support import NOW, index

LAYOUT = Layout(Catalog(projections=(index(),)), "shop")
PROJECTION: Index = LAYOUT.catalog.projections[0]
DATE = "2023-07-04T12:00:00Z"


class Partitions(MemoryStore):
    """Of which one may be hot: nothing can be written there."""

    hot: str | None = None
    refused = 0

    async def write(self, container: Container, key: Key, operations: Sequence[Operation]) -> list[str | None]:
        if key == Key.of(self.hot):
            self.refused += 1
            raise ThrottledError("busy (429)")
        return await super().write(container, key, operations)


class Shop:
    """Orders in memory, and what is deferred of them; `before` is awaited with every call."""

    def __init__(self) -> None:
        self.before: Callable[[str, Container], Awaitable[None]] | None = None
        self.store = Partitions(before=self._before)
        self.times = itertools.count(NOW, 60)
        self.deferred = Deferred(self.store, LAYOUT.deadletters, PROJECTION.full_name, lambda: next(self.times))

    async def _before(self, name: str, container: Container) -> None:
        if self.before:
            await self.before(name, container)

    async def open(self) -> Shop:
        await initialise(self.store, LAYOUT)
        return self

    async def put(self, id_: str, **fields: Any) -> State:
        """An order, and the notice of it."""
        order = {"id": id_, "shop": "s1", "status": "open", **fields}
        [etag] = await self.store.write(LAYOUT.source(PROJECTION), Key.of("s1"), [Upsert(order)])
        return State(Identity(Key.of("s1"), id_), Version(etag, NOW), {**order, "_rid": id_})

    async def all(self) -> list[Deferral]:
        return [deferral async for page in self.deferred.pages() for deferral in page]

    async def drain(self) -> Drain:
        return Drain(self.deferred, await Engine.open(self.store, LAYOUT, PROJECTION))


@pytest.fixture
async def shop() -> Shop:
    return await Shop().open()


async def test_the_stored_shape(shop: Shop) -> None:
    """stored; change with a version: two deferrals of one item, and one whose identity the host may have rewritten."""
    known = State(Identity(Key.of("s1", 7), "o/1 é"), Version('"0100-e7"', NOW - 100, 42), None)
    noticed = State(Identity(Key.of("s1", DATE), "o2"), Version('"e"', NOW - 100, 43), {"_rid": "abc=="})
    await shop.deferred.defer(Pending(known=[known]), "busy (429)")
    await shop.deferred.defer(Pending(known=[known], noticed=[noticed]), "busy (503)")

    found = await documents(shop.store, LAYOUT.deadletters)
    stored = [{name: value for name, value in one.items() if name not in ("_etag", "_ts")} for one in found]
    golden = (Path(__file__).parent / "deferred.json").read_text(encoding="utf-8")
    assert json.dumps(stored, ensure_ascii=False, indent=1) == json.dumps(
        json.loads(golden), ensure_ascii=False, indent=1
    )
    assert (await shop.all())[0] == Deferral(
        known.identity.entry_id, known.identity, None, known.version, "busy (503)", 2, NOW, NOW + 60,
        found[0]["_etag"],
    )  # fmt: skip


async def test_dead_letters_are_not_disturbed(shop: Shop) -> None:
    engine = await Engine.open(shop.store, LAYOUT, PROJECTION)
    await shop.deferred.defer(Pending([await shop.put("o1")]), "busy")
    assert [letter async for letter in engine.deadletters.all()] == []
    assert await shop.deferred.count() == 1


async def test_two_items_that_look_like_one_are_two_deferrals(shop: Shop) -> None:
    same = Identity(Key.of("s1"), DATE)
    notices = [State(same, Version(f'"{rid}"', NOW), {"_rid": rid}) for rid in ("r1", "r2")]
    await shop.deferred.defer(Pending(notices), "busy")
    assert [deferral.rid for deferral in await shop.all()] == ["r1", "r2"]


async def test_an_identity_that_was_found_out_is_not_doubted_again(shop: Shop) -> None:
    notice = await shop.put(DATE)
    await shop.deferred.defer(Pending(known=[notice]), "busy")
    assert [deferral.rid for deferral in await shop.all()] == [None]
    await (await shop.drain()).run()  # the store in memory could not even search by _rid
    assert await shop.all() == []
    await assert_converged(shop.store, LAYOUT)


async def test_the_newest_version_that_was_heard_of_is_kept(shop: Shop) -> None:
    who = Identity(Key.of("s1"), "o1")
    newer, older = State(who, Version('"b"', NOW, 2), None), State(who, Version('"a"', NOW - 9, 1), None)
    for notice in (older, newer, older):
        await shop.deferred.defer(Pending(known=[notice]), "busy")
    (deferral,) = await shop.all()
    assert (deferral.version, deferral.attempts) == (newer.version, 3)


async def test_a_drain_applies_what_is_there_now(shop: Shop) -> None:
    await shop.deferred.defer(Pending([await shop.put("o1"), await shop.put("o2", status={"odd": 1})]), "busy")
    await shop.put("o1", status="paid")
    report = await (await shop.drain()).run()
    assert (report.tally.outcomes, report.finished) == ({"written": 1, "parked": 1}, True)
    assert await shop.all() == []
    await assert_converged(shop.store, LAYOUT)


async def test_a_deferral_that_is_renewed_during_a_drain_stays(shop: Shop) -> None:
    await shop.deferred.defer(Pending([await shop.put("o1")]), "busy")
    drain = await shop.drain()

    async def change_meanwhile(name: str, container: Container) -> None:
        if (name, container) == ("write", LAYOUT.target(PROJECTION)):
            shop.before = None
            await shop.deferred.defer(Pending([await shop.put("o1", status="paid")]), "busy again")

    shop.before = change_meanwhile
    await drain.run()
    (deferral,) = await shop.all()
    assert (deferral.attempts, deferral.reason) == (2, "busy again")
    await drain.run()
    assert await shop.all() == []
    await assert_converged(shop.store, LAYOUT)


async def test_two_that_defer_one_item_at_once(shop: Shop) -> None:
    first, second = await shop.put("o1"), await shop.put("o1", status="paid")

    async def another(name: str, container: Container) -> None:
        if name == "write":
            shop.before = None
            await shop.deferred.defer(Pending([second]), "second")

    shop.before = another
    await shop.deferred.defer(Pending([first]), "first")
    (deferral,) = await shop.all()
    assert deferral.attempts == 2


async def test_a_busy_store_is_left_in_peace(shop: Shop) -> None:
    await shop.deferred.defer(Pending([await shop.put(f"o{n}") for n in range(5)]), "busy")
    drain = await shop.drain()

    async def busy(name: str, container: Container) -> None:
        if (name, container) == ("read", LAYOUT.target(PROJECTION)):
            raise TransientError("busy (429)")

    shop.before = busy
    report = await drain.run()
    assert (report.finished, report.reason, report.tally.total) == (False, "busy (429)", 0)
    assert len(await shop.all()) == 5
    shop.before = None
    assert (await drain.run()).tally.outcomes == {"written": 5}


async def test_what_is_stuck_keeps_nobody_else(shop: Shop) -> None:
    stuck = [await shop.put(f"a{n}", status="stuck") for n in range(150)]
    await shop.deferred.defer(Pending(stuck + [await shop.put(f"b{n}") for n in range(150)]), "busy")
    shop.store.hot = "stuck"

    report = await (await shop.drain()).run()
    assert (report.finished, report.reason) == (False, "busy (429)")
    again = await (await shop.drain()).run()  # what was written beside something stuck is now found done
    assert {deferral.identity.id[0] for deferral in await shop.all()} == {"a"}
    assert again.tally.outcomes["unchanged"] + report.tally.total == 150


async def test_after_two_fruitless_pages_it_leaves_the_store_in_peace(shop: Shop) -> None:
    await shop.deferred.defer(Pending([await shop.put(f"a{n}", status="stuck") for n in range(900)]), "busy")
    shop.store.hot = "stuck"
    report = await (await shop.drain()).run()
    assert not report.finished
    assert shop.store.refused == 2 * 2  # batches of 100
    assert len(await shop.all()) == 900


async def test_what_was_found_out_is_deferred_under_its_true_identity(shop: Shop) -> None:
    """Of two that were in doubt, one cannot be done even now that it is known who it is."""
    stuck = await shop.put("2023-07-04T12:00:01Z", status="stuck", _rid="2023-07-04T12:00:01Z")
    good = await shop.put(DATE, _rid=DATE)
    await shop.deferred.defer(Pending([stuck, good]), "busy")
    assert all(deferral.rid for deferral in await shop.all())
    shop.store.hot = "stuck"

    await (await shop.drain()).run()
    await (await shop.drain()).run()
    (left,) = await shop.all()
    assert (left.identity, left.rid) == (stuck.identity, None)
    shop.store.hot = None
    await (await shop.drain()).run()
    assert await shop.all() == []
    await assert_converged(shop.store, LAYOUT)


async def test_it_stops_when_it_is_told(shop: Shop) -> None:
    await shop.deferred.defer(Pending([await shop.put("o1")]), "busy")
    report = await (await shop.drain()).run(stop=lambda: True)
    assert (report.finished, len(await shop.all())) == (False, 1)


async def test_deferring_that_is_refused_is_trouble(shop: Shop) -> None:
    notice = await shop.put("o1")

    async def full(name: str, container: Container) -> None:
        if name == "write":
            raise WriteError(0, PartitionFullError())

    shop.before = full
    with pytest.raises(TransientError, match=r"'o1' of .* cannot be deferred: The logical partition is full"):
        await shop.deferred.defer(Pending([notice]), "busy")
