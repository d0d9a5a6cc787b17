"""A shop on the embedded emulator, through the real SDK, for one test."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from projections.cosmos import connect
from projections.deadletters import DeadLetter, DeadLetters
from projections.declare import Catalog
from projections.emulator import Emulator
from projections.keys import Key
from projections.provision import Layout, initialise
from projections.settings import Settings
from projections.store import Container, Document, Store, Upsert
from projections.worker import Worker
from tests.converged import assert_converged, documents

_databases = itertools.count(1)


@pytest.fixture
async def emulator() -> AsyncIterator[Emulator]:
    async with Emulator() as running:
        yield running


@pytest.fixture
async def store(emulator: Emulator) -> AsyncIterator[Store]:
    async with connect(Settings(emulator.url, emulator.connection_string)) as opened:
        yield opened


@dataclass
class Shop:
    """One catalog in a database of its own, with what tests do to it."""

    store: Store
    catalog: Catalog
    layout: Layout = field(init=False)

    def __post_init__(self) -> None:
        self.layout = Layout(self.catalog, f"shop{next(_databases)}")

    async def open(self) -> Shop:
        await initialise(self.store, self.layout)
        return self

    async def put(self, *items: Document) -> None:
        """Upsert items in the source of the first projection."""
        projection = self.catalog.projections[0]
        for item in items:
            key = Key.of(*projection.source.key.of(item))
            await self.store.write(self.layout.source(projection), key, [Upsert(item)])

    async def run(self, store: Store | None = None, **options: Any) -> Worker:
        """Run every projection until it has caught up."""
        worker = Worker(store or self.store, self.layout, list(self.catalog), **options)
        await worker.run(until_caught_up=True)
        return worker

    async def all(self, container: Container) -> list[Document]:
        return await documents(self.store, container)

    async def entries(self, name: str) -> list[Document]:
        return await self.all(self.layout.target(self.catalog[name]))

    async def placements(self, name: str) -> list[Document]:
        prefix = f"{self.catalog[name].full_name}|"
        return [d for d in await self.all(self.layout.state) if d["pk"].startswith(prefix)]

    async def parked(self, name: str) -> list[DeadLetter]:
        letters = DeadLetters(self.store, self.layout.deadletters, self.catalog[name].full_name)
        return [letter async for letter in letters.all()]

    async def assert_converged(self) -> None:
        await assert_converged(self.store, self.layout)


@pytest.fixture
def shop(store: Store) -> Callable[..., Any]:
    """Open a shop with a catalog."""

    async def open_shop(catalog: Catalog) -> Shop:
        return await Shop(store, catalog).open()

    return open_shop


class KilledError(BaseException):
    """The process dies here."""


class MortalStore:
    """A store in a process that dies right before, or right after, its n-th call."""

    def __init__(self, store: Store, dies_at: int, *, after: bool = False) -> None:
        self._store = store
        self._left = dies_at
        self._after = after
        self._lock = asyncio.Lock()

    @property
    def died(self) -> bool:
        return self._left <= 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name in ("changes", "query", "close"):
            return found

        async def call(*args: Any, **kwargs: Any) -> Any:
            self._left -= 1
            if self._left < 0 or (self._left == 0 and not self._after):
                raise KilledError
            answer = await found(*args, **kwargs)
            if self._left == 0:
                raise KilledError
            return answer

        return call


@pytest.fixture
def mortal() -> type[MortalStore]:
    return MortalStore
