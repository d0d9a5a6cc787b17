"""Sources in all-versions mode in the Functions app: what is registered, and that no delete is lost in between."""

from __future__ import annotations

import time
from typing import Any

import pytest

from projections.declare import Catalog, Index, Source
from projections.deferred import Deferred
from projections.errors import FatalError, TransientError
from projections.feed import Checkpoint, Checkpoints
from projections.functions import TriggeredWorker
from projections.identity import Place
from projections.keys import Key
from projections.memory import MemoryStore
from projections.provision import Layout, initialise
from projections.settings import Settings
from projections.store import Container, Delete, Document, FeedRange, Start, Upsert
from projections.triggers import triggers
from tests.converged import documents
from tests.functions_runtime.payload import as_delivered
from tests.support import index

SETTINGS = Settings("http://nowhere/", "…")
SOURCE = Source(container="orders", key="/shop", mode="AllVersionsAndDeletes")
BY_STATUS = Index(name="by-status", source=SOURCE, key="/status")
CATALOG = Catalog(projections=(BY_STATUS,))
ORDERS = Container("shop", "orders")
DATE = "2023-07-04T12:00:00.100+02:00"


class App:
    """A worker on a store in memory, at a time that can be set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Settings, "load_catalog", lambda _: CATALOG)
        self.later = 0.0
        self.down: set[str] = set()
        self.store = MemoryStore(before=self._before)
        self.worker = TriggeredWorker(SETTINGS, 600.0, self._open, now=lambda: time.time() + self.later)

    async def _before(self, name: str, container: Container) -> None:
        if container.name in self.down:
            raise TransientError(f"{container.name} is down (503)")

    async def _open(self, _: Settings) -> MemoryStore:
        return self.store

    async def put(self, id_: str, shop: str = "s1", **fields: Any) -> Document:
        """An order; its change, as the host hands on those of the latest versions."""
        key = Key.of(shop)
        await self.store.write(ORDERS, key, [Upsert({"id": id_, "shop": shop, "status": "open", **fields})])
        found = (await self.store.read(ORDERS, [Place(id_, key)]))[Place(id_, key)]
        return {**found, "_rid": f"rid of {id_}", "_lsn": 1}

    async def remove(self, id_: str, shop: str = "s1") -> Document:
        """Its delete, as the host hands it on."""
        place = Place(id_, Key.of(shop))
        found = (await self.store.read(ORDERS, [place]))[place]
        await self.store.write(ORDERS, place.key, [Delete(id_, found["_etag"])])
        return deleted(id_, {"shop": shop})

    async def apply(self, *changes: Document) -> Any:
        return await self.worker.apply(BY_STATUS, as_delivered(changes, hours_east=0))

    async def entries(self) -> set[str]:
        target = self.worker.layout.target(BY_STATUS)
        return {entry["_source"]["id"] for entry in await documents(self.store, target)}

    async def audited(self) -> list[Checkpoint]:
        return await Checkpoints(self.store, self.worker.layout.state, "by-status@1 audit").load([])


def deleted(id_: str, key: dict[str, Any]) -> Document:
    """A delete, as the host hands it on."""
    metadata = {"operationType": "delete", "lsn": 9, "crts": int(time.time()), "id": id_, "partitionKey": key}
    return {"current": None, "metadata": metadata}


@pytest.fixture
async def app(monkeypatch: pytest.MonkeyPatch) -> App:
    app = App(monkeypatch)
    await initialise(app.store, app.worker.layout)
    return app


# what is registered


def test_two_triggers_with_leases_of_their_own() -> None:
    latest, versions = triggers(Layout(CATALOG, "shop"))
    assert (latest.function, versions.function) == ("by-status-1", "by-status-1-versions")
    assert (latest.lease_prefix, versions.lease_prefix) == ("by-status-1-", "by-status-1-versions-")
    assert latest.binding["start_from_beginning"] is True
    assert versions.binding["change_feed_mode"] == "AllVersionsAndDeletes"
    assert not {"start_from_beginning", "start_from_time"} & versions.binding.keys()
    assert "change_feed_mode" not in latest.binding


def test_no_two_triggers_share_a_name_or_leases() -> None:
    others = (
        index(name="by-status-1-versions"),
        index(name="by-status-versions"),
        index(name="by.status", source=SOURCE),
    )
    found = list(triggers(Layout(Catalog(projections=(BY_STATUS, *others)), "shop")))
    assert len(found) == 6
    assert len({trigger.function.casefold() for trigger in found}) == 6
    assert len({trigger.lease_prefix for trigger in found}) == 6


# no delete is lost


async def test_a_delete_that_no_trigger_heard_of_is_found_by_the_audit(app: App) -> None:
    """It was made before the second trigger had a position: facts.md 4, 15."""
    await app.apply(await app.put("o1"), await app.put("o2"))
    await app.remove("o1")
    app.later = 600
    await app.worker.audit()
    assert await app.entries() == {"o2"}


async def test_a_position_is_on_record_before_the_first_load(app: App) -> None:
    change = await app.put("o1")
    app.down = {"projections-deadletters"}
    app.worker._work = app.worker._parking = 0.2
    with pytest.raises(TransientError):
        await app.apply(change)
    app.down = set()
    await app.apply(change)
    [checkpoint] = await app.audited()
    assert checkpoint.loading
    assert checkpoint.position is None


async def test_nothing_is_projected_while_no_position_can_be_stored(app: App) -> None:
    change = await app.put("o1")
    app.down = {"projections-state"}
    app.worker._work = 0.3
    await app.apply(change)  # it is deferred
    assert await app.entries() == set()
    app.down = set()
    await app.worker.drain()
    assert await app.entries() == {"o1"}
    assert (await app.audited())[0].loading


async def test_two_instances_that_note_a_position_at_once(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    other = TriggeredWorker(SETTINGS, 600.0, app._open)
    change = await app.put("o1")
    await app.apply(change)
    first = (await app.audited())[0].versions
    await app.put("o2")
    await other.apply(BY_STATUS, [change])
    assert (await app.audited())[0].versions == first


async def test_a_delete_is_a_notice_and_the_source_is_asked(app: App) -> None:
    await app.apply(await app.put("o1"))
    change = await app.remove("o1")
    await app.put("o1", status="anew")
    await app.apply(change)
    assert await app.entries() == {"o1"}
    await app.remove("o1")
    await app.apply(change)
    assert await app.entries() == set()


async def test_a_delete_of_a_rewritten_identity_is_resolved_when_it_is_drained(app: App) -> None:
    """Nothing in it tells which of the items it is that look like this one."""
    await app.put(DATE)
    change = await app.remove(DATE)
    app.down = {"by-status"}
    app.worker._work = 0.3
    await app.apply(change)
    deferred = Deferred(app.store, app.worker.layout.deadletters, "by-status@1")
    [deferral] = [deferral async for page in deferred.pages() for deferral in page]
    assert (deferral.rid, deferral.version.deleted) == ("", True)
    assert deferral.notice.item == {"_rid": ""}


async def test_a_delete_under_another_key_than_declared_stops_the_trigger(app: App) -> None:
    with pytest.raises(FatalError, match="declared with the key /shop"):
        await app.apply(deleted("o1", {"customer": "c1"}))


async def test_the_audit_hands_over_and_goes_on(app: App) -> None:
    await app.apply(await app.put("o1"))
    app.later = 600
    await app.worker.audit()
    [checkpoint] = await app.audited()
    assert not checkpoint.loading
    await app.remove("o1")
    await app.worker.audit()
    assert await app.entries() == set()
    assert FeedRange("", "FF") == checkpoint.feed_range
    assert [page async for page in app.store.changes(ORDERS, checkpoint.feed_range, Start(), 10)]
