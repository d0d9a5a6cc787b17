"""Text that looks like a date, through the real SDK on the embedded emulator: two feed ranges, a host that rewrites it.

The samples' handler stores what it is given. Ours finds the true items, even where their identities had to be deferred.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from projections.cosmos import connect
from projections.declare import Catalog, Index, Source, Throughput
from projections.deferred import Deferral, Deferred
from projections.emulator import Emulator
from projections.errors import ThrottledError
from projections.functions import TriggeredWorker
from projections.keys import Key
from projections.lookup import Lookup
from projections.provision import Layout, initialise
from projections.settings import Settings
from projections.store import Container, Delete, Description, Document, Store, Upsert
from projections.triggers import lease_prefix
from projections.waiting import BehindError
from tests.converged import assert_converged, documents
from tests.host.simulator import Host, Lease, Retry, Trigger
from tests.host.world import Line

READINGS = Index(name="by-device", source=Source(container="readings", key="/day"), key="/device")
CATALOG = Catalog(projections=(READINGS,))
LAYOUT = Layout(CATALOG, "site")
COPIES = Container("site", "copies")
DAY = "2023-07-04T12:00:00.100+00:00"
IDS = ("2021-08-23T06:23:40.000Z", "2021-08-23T06:23:40Z", "2021-08-23T06:23:40+02:00", "plain")  # two look like one


@dataclass
class Site:
    """Readings in an account, and whether it is busy."""

    store: Store
    leases: list[Lease] = field(default_factory=list)
    busy: bool = False

    async def hook(self, _: Line, name: str, container: Container) -> None:
        if self.busy and (name, container) == ("read", LAYOUT.source(READINGS)):
            raise ThrottledError("429")

    def line(self) -> Line:
        return Line(self.store, self.hook)

    async def put(self, *items: Document) -> None:
        for item in items:
            await self.store.write(LAYOUT.source(READINGS), Key.of(item["day"]), [Upsert(item)])

    async def deferred(self) -> list[Deferral]:
        deferred = Deferred(self.store, LAYOUT.deadletters, READINGS.full_name)
        return [deferral async for page in deferred.pages() for deferral in page]


class Samples:
    def __init__(self, site: Site) -> None:
        self._store = site.line()

    async def changes(self, documents: list[Document]) -> None:
        for document in documents:
            copy = {name: value for name, value in document.items() if not name.startswith("_")}
            await self._store.write(COPIES, Key.of(copy["device"]), [Upsert(copy)])

    def kill(self) -> None: ...


class Ours:
    def __init__(self, site: Site, timeout: float = 60.0) -> None:
        self._site = site
        settings = Settings("http://nowhere/", "…", "site", "tests.host.test_dates:CATALOG")
        self.worker = TriggeredWorker(settings, timeout, self._open)

    async def _open(self, _: Settings) -> Store:
        return self._site.line()

    async def changes(self, documents: list[Document]) -> None:
        await self.worker.apply(READINGS, documents)

    def kill(self) -> None: ...


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with Emulator() as emulator, connect(Settings(emulator.url, emulator.connection_string)) as store:
        source = Description(LAYOUT.source(READINGS), ("/day",), -1, throughput=Throughput(manual=20_000))
        await store.create_container(source)
        await store.create_container(Description(COPIES, ("/device",)))
        await initialise(store, LAYOUT)
        leases = [Lease(feed_range) for feed_range in await store.feed_ranges(LAYOUT.source(READINGS))]
        yield Site(store, leases)


async def run(site: Site, app: Samples | Ours) -> Host:
    """Read the feed from its beginning, as with new leases."""
    trigger = Trigger(LAYOUT.source(READINGS), Retry(), leases=LAYOUT.leases, prefix=lease_prefix(READINGS))
    running = Host("a", site.store, trigger, [Lease(lease.feed_range) for lease in site.leases], lambda: app)
    for lease in running.leases:
        await running.until_end(lease)
    return running


def readings() -> list[Document]:
    dated = [{"id": id_, "day": day, "device": "d1", "note": id_} for id_ in IDS for day in (DAY, "monday")]
    return [*dated, *({"id": f"r{n}", "day": f"day-{n}", "device": "d2", "at": DAY} for n in range(20))]


async def test_the_samples_store_what_was_rewritten(site: Site) -> None:
    await site.put(*readings())
    used = await run(site, Samples(site))

    copies = await documents(site.store, COPIES)
    assert len(used.leases) == 2
    assert len(copies) < len(readings())  # items that look like one are one
    assert {copy["at"] for copy in copies if copy["device"] == "d2"} == {"2023-07-04T14:00:00.1+02:00"}


async def test_ours_finds_the_true_items(site: Site) -> None:
    await site.put(*readings())
    await run(site, Ours(site))
    await assert_converged(site.store, LAYOUT)


async def test_identities_in_doubt_are_deferred_in_a_form_that_can_still_be_resolved(site: Site) -> None:
    await site.put(*readings())
    site.busy = True
    await run(site, Ours(site, timeout=1.0))
    deferred = await site.deferred()
    assert len(deferred) == len(readings())
    assert sum(deferral.rid is not None for deferral in deferred) == 7  # all but plain of monday
    assert await documents(site.store, LAYOUT.target(READINGS)) == []

    site.busy = False
    await Ours(site).worker.drain()
    assert await site.deferred() == []
    await assert_converged(site.store, LAYOUT)


async def test_writes_are_passed_when_the_leases_are_and_nothing_that_may_be_the_item_is_deferred(site: Site) -> None:
    lookup = Lookup(site.store, LAYOUT, READINGS)
    await site.put(*readings())
    items = await documents(site.store, LAYOUT.source(READINGS))
    with pytest.raises(BehindError, match="no position"):
        await lookup.wait_for(items[0], timeout=0)
    await run(site, Ours(site))
    for item in items:
        await lookup.wait_for(item, timeout=0)
    await site.put({"id": "late", "day": "tuesday", "device": "d1"})
    [late] = [item for item in await documents(site.store, LAYOUT.source(READINGS)) if item["id"] == "late"]
    with pytest.raises(BehindError, match="transactions"):
        await lookup.wait_for(late, timeout=0)
    site.busy = True
    await run(site, Ours(site, timeout=1.0))
    for item in (late, items[0]):
        with pytest.raises(BehindError, match="has deferred items"):
            await lookup.wait_for(item, timeout=0)
    site.busy = False
    await Ours(site).worker.drain()
    await lookup.wait_for(late, timeout=0)


async def test_an_item_that_is_deleted_while_it_is_deferred(site: Site) -> None:
    await site.put(*readings())
    await run(site, Ours(site))
    site.busy = True
    await site.put(*({**reading, "note": "again"} for reading in readings()[:8]))
    await run(site, Ours(site, timeout=1.0))
    assert len(await site.deferred()) == len(readings())

    source = LAYOUT.source(READINGS)
    for item in await documents(site.store, source):
        if item["id"] in IDS[:2] and item["day"] == DAY:
            await remove(site, item)
    site.busy = False
    await Ours(site).worker.drain()
    assert await site.deferred() == []
    await assert_converged(site.store, LAYOUT)


async def remove(site: Site, item: Document) -> None:
    await site.store.write(LAYOUT.source(READINGS), Key.of(item["day"]), [Delete(item["id"], item["_etag"])])
