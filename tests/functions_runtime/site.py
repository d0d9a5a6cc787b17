"""An account, the containers of a catalog in it, and the app at work on them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self

from projections.cosmos import CosmosStore, connect
from projections.declare import Catalog
from projections.emulator import Emulator
from projections.identity import Place
from projections.keys import UNDEFINED, Key
from projections.provision import Layout, initialise
from projections.settings import Settings
from projections.store import VERSIONS, Container, Delete, Document, Start, Upsert
from projections.triggers import triggers
from tests.functions_runtime.catalog import catalog
from tests.functions_runtime.client import FunctionsHost, Invocation
from tests.functions_runtime.payload import as_delivered

DATABASE = "site"


class Site:
    """The app of this repository, with one of the tests' catalogs, on an emulator of its own."""

    def __init__(self, catalog: Catalog = catalog, name: str = "catalog", **settings: str) -> None:
        self.layout = Layout(catalog, DATABASE)
        self.catalog = catalog
        self._name = name
        latest = [trigger for trigger in triggers(self.layout) if not trigger.all_versions]
        self.functions = {trigger.projection.name: trigger.function for trigger in latest}
        self._more = settings
        self._stack = AsyncExitStack()
        self.emulator: Emulator
        self.store: CosmosStore
        self.host: FunctionsHost

    @property
    def settings(self) -> dict[str, str]:
        """The app settings."""
        return {
            "COSMOS": self.emulator.connection_string,
            "COSMOS_DATABASE": DATABASE,
            "PROJECTIONS_CATALOG": f"tests.functions_runtime.catalog:{self._name}",
            **self._more,
        }

    async def __aenter__(self) -> Self:
        self.emulator = await self._stack.enter_async_context(Emulator())
        opened = await self._stack.enter_async_context(connect(Settings.read(self.settings)))
        assert isinstance(opened, CosmosStore)
        self.store = opened
        await initialise(self.store, self.layout)
        self.host = await self._stack.enter_async_context(FunctionsHost(self.settings))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    def container(self, name: str) -> Container:
        return Container(DATABASE, name)

    # the source

    async def put(self, container: str, key: str, *items: Document) -> None:
        """Write items, each to the partition that this field says."""
        for item in items:
            await self.store.write(self.container(container), Key.of(item.get(key, UNDEFINED)), [Upsert(dict(item))])

    async def remove(self, container: str, key: Any, id_: str) -> None:
        """Delete an item for good."""
        place = Place(id_, Key.of(key))
        found = await self.store.read(self.container(container), [place])
        await self.store.write(self.container(container), place.key, [Delete(id_, found[place]["_etag"])])

    async def feed(self, container: str, *ids: str) -> list[Document]:
        """The latest changes of some items."""
        found = []
        for feed_range in await self.store.feed_ranges(self.container(container)):
            async for page in self.store.changes(self.container(container), feed_range, Start(), 100):
                found += [item for item in page.items if item["id"] in ids]
        return found

    async def now(self, container: str) -> str:
        """The present position in the feed of all versions."""
        [feed_range] = await self.store.feed_ranges(self.container(container))
        [page] = [page async for page in self.store.changes(self.container(container), feed_range, VERSIONS, 100)]
        return page.position

    async def versions(self, container: str, since: str) -> list[Document]:
        """All versions from a position on."""
        [feed_range] = await self.store.feed_ranges(self.container(container))
        pages = self.store.changes(self.container(container), feed_range, since, 100)
        return [change async for page in pages for change in page.items]

    # the app

    async def deliver(self, projection: str, items: Sequence[Document], hours_east: int = 0) -> Invocation:
        """Call a projection's function with changes, rewritten on the way as the host rewrites them."""
        return await self.host.deliver(self.functions[projection], as_delivered(items, hours_east))

    async def entries(self, projection: str, *ids: str) -> list[Document]:
        """The entries made from some items, by source id."""
        target = self.layout.target(self.catalog[projection])
        found: list[Document] = []
        async for page in self.store.query(target, "SELECT * FROM c", {}):
            found += [entry for entry in page if entry["_source"]["id"] in ids]
        return sorted(found, key=lambda entry: str(entry["_source"]["id"]))

    async def letters(self, *ids: str) -> list[Document]:
        """The dead letters of some items."""
        found: list[Document] = []
        async for page in self.store.query(self.layout.deadletters, "SELECT * FROM c", {}):
            found += [letter for letter in page if letter["source"]["id"] in ids]
        return found
