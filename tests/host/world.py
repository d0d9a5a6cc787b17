"""An account in memory, one app on it, and faults by script."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any

from projections.declare import Catalog, Index, SoftDelete, Source, Throughput
from projections.deferred import Deferred
from projections.errors import ProjectionsError
from projections.functions import TriggeredWorker
from projections.identity import Place
from projections.keys import Key
from projections.memory import MemoryStore
from projections.provision import Layout, initialise
from projections.settings import Settings
from projections.store import (
    Container,
    Description,
    Document,
    FeedRange,
    Operation,
    Page,
    Rows,
    Start,
    Store,
    Upsert,
)
from projections.triggers import lease_prefix
from tests.converged import assert_converged, documents
from tests.host.simulator import App, Host, Lease, Retry, Trigger

ORDERS = Source(container="orders", key="/customer")
BY_STATUS = Index(name="by-status", source=ORDERS, key="/status", deletes=SoftDelete("/deleted"))
CATALOG = Catalog(projections=(BY_STATUS,))
LAYOUT = Layout(CATALOG, "shop")
SOURCE, TARGET = LAYOUT.source(BY_STATUS), LAYOUT.target(BY_STATUS)
SETTINGS = Settings("http://nowhere/", "…", "shop", "tests.host.world:CATALOG")
BEGAN = 1_790_000_000.0

Hook = Callable[["Line", str, Container], Awaitable[None]]


class Line:
    """One process's connection to the account. Once cut, no call of it comes back."""

    def __init__(self, store: Store, hook: Callable[[Line, str, Container], Awaitable[None]]) -> None:
        self._store = store
        self._hook = hook
        self._cut = False

    def cut(self) -> None:
        self._cut = True

    async def _pass(self, name: str, container: Container) -> None:
        if not self._cut:
            await self._hook(self, name, container)
        if self._cut:
            await asyncio.get_running_loop().create_future()

    async def read(self, container: Container, places: Collection[Place]) -> dict[Place, Document]:
        await self._pass("read", container)
        return await self._store.read(container, places)

    async def write(self, container: Container, key: Key, operations: Sequence[Operation]) -> list[str | None]:
        await self._pass("write", container)
        answer = await self._store.write(container, key, operations)
        await self._pass("written", container)
        return answer

    async def query(
        self, container: Container, text: str, parameters: Mapping[str, Any], key: Key | None = None, *,
        after: str | None = None, page_size: int | None = None,
    ) -> AsyncIterator[Rows]:  # fmt: skip
        await self._pass("query", container)
        async for page in self._store.query(container, text, parameters, key, after=after, page_size=page_size):
            yield page

    async def feed_ranges(self, container: Container) -> list[FeedRange]:
        await self._pass("feed_ranges", container)
        return await self._store.feed_ranges(container)

    async def changes(
        self, container: Container, feed_range: FeedRange, since: str | Start, page_size: int
    ) -> AsyncIterator[Page]:
        await self._pass("changes", container)
        async for page in self._store.changes(container, feed_range, since, page_size):
            yield page

    async def describe(self, container: Container) -> Description | None:
        await self._pass("describe", container)
        return await self._store.describe(container)

    async def throughput(self, container: Container) -> Throughput | None:
        return await self._store.throughput(container)

    async def containers(self, database: str) -> list[str]:
        return await self._store.containers(database)

    async def create_container(self, wanted: Description) -> bool:
        return await self._store.create_container(wanted)

    async def delete_container(self, container: Container) -> bool:
        return await self._store.delete_container(container)

    async def close(self) -> None:
        return None


class World:
    """Orders, their entries by status, and the hosts of one app. Time is the loop's."""

    def __init__(
        self,
        app: Callable[[Line, World], App],
        *,
        retry: Retry | None = None,
        store: Store | None = None,
        **trigger: Any,
    ) -> None:
        self._make = app
        self.store: Store = store or MemoryStore(clock=self.now)
        self.trigger = Trigger(SOURCE, retry, leases=LAYOUT.leases, prefix=lease_prefix(BY_STATUS), **trigger)
        self.leases: list[Lease] = []
        self.hosts: list[Host] = []
        self.hooks: list[Hook] = []
        self.down: dict[str, tuple[float, ProjectionsError]] = {}  # container -> until when, and what it answers

    @staticmethod
    def now() -> float:
        return BEGAN + asyncio.get_running_loop().time()

    async def open(self) -> World:
        await initialise(self.store, LAYOUT)
        self.leases = [Lease(feed_range) for feed_range in await self.store.feed_ranges(SOURCE)]
        return self

    # faults

    async def hook(self, line: Line, name: str, container: Container) -> None:
        for hook in list(self.hooks):
            await hook(line, name, container)
        until, error = self.down.get(container.name, (0.0, None))
        if error is not None and name != "written" and self.now() < until:
            raise error

    def fail(self, container: Container, seconds: float, error: ProjectionsError) -> None:
        """From now on, for this long, every call about a container gets this answer."""
        self.down[container.name] = self.now() + seconds, error

    def once(self, name: str, container: Container, what: Callable[[Line], Awaitable[None]]) -> None:
        """When this is next called, do something first."""

        async def hook(line: Line, called: str, about: Container) -> None:
            if (called, about) == (name, container):
                self.hooks.remove(hook)
                await what(line)

        self.hooks.append(hook)

    # the source

    async def put(self, *orders: Document) -> None:
        for order in orders:
            await self.store.write(SOURCE, Key.of(order["customer"]), [Upsert(order)])

    # the app

    def process(self) -> App:
        return self._make(Line(self.store, self.hook), self)

    def host(self, name: str = "a") -> Host:
        host = Host(name, self.store, self.trigger, self.leases, self.process)
        self.hosts.append(host)
        return host

    async def timers(self) -> None:
        """What the two timers of our app do within some minutes."""
        worker = TriggeredWorker(SETTINGS, self.trigger.timeout, self._line, now=self.now)
        await self._until_drained(worker)
        await asyncio.sleep(400)
        await worker.audit()

    async def drain(self) -> None:
        """What one of them does."""
        await self._until_drained(TriggeredWorker(SETTINGS, self.trigger.timeout, self._line, now=self.now))

    async def _until_drained(self, worker: TriggeredWorker) -> None:
        for _ in range(30):
            await worker.drain()
            if await self.deferred() == 0:
                return
            await asyncio.sleep(60)
        raise AssertionError("deferred items are left")

    async def _line(self, _: Settings) -> Store:
        return Line(self.store, self.hook)

    # what has come of it

    async def deferred(self) -> int:
        return await Deferred(self.store, LAYOUT.deadletters, BY_STATUS.full_name).count()

    async def converged(self) -> None:
        """R1 and R2 of the field cases, and nothing is left to be drained."""
        assert await self.deferred() == 0
        await assert_converged(self.store, LAYOUT)

    async def wrong(self) -> list[str]:
        """Ids of orders whose plain copy by status is missing, differs, or should not be there."""
        wanted = {(d["id"], d["status"]): _plain(d) for d in await documents(self.store, SOURCE) if _good(d)}
        found = {(d["id"], d["status"]): _plain(d) for d in await documents(self.store, TARGET)}
        return sorted({key[0] for key in wanted.keys() | found.keys() if wanted.get(key) != found.get(key)})


def _good(order: Document) -> bool:
    return isinstance(order["status"], str) and not order.get("deleted")


def _plain(document: Document) -> Document:
    return {name: value for name, value in document.items() if not name.startswith("_")}
