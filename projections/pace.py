"""How fast to call: as many calls at once as the store takes without complaint, and no more request units than allowed.

Two bounds. The number of calls under way adapts: one more for every round of calls that went well, half as many when
the store says 429 (additive increase, multiplicative decrease). Request units per second, where a cap is declared, are
a debt that has to be paid off before the next call: what a call costs is known only afterwards.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from projections.declare import Throughput
from projections.errors import ThrottledError
from projections.identity import Place
from projections.keys import Key
from projections.metering import Cost, measured
from projections.patience import PatientStore
from projections.store import Container, Description, Document, FeedRange, Operation, Page, Rows, Start, Store

BURST_SECONDS: Final = 0.25
"""How much unused allowance may be saved up: little, so that the cap holds over any second."""


MOST: Final = 32
"""Calls of one projection that may be under way."""


class Concurrency:
    """The number of calls that may be under way, between 1 and `most`."""

    def __init__(self, most: int = MOST, *, now: Callable[[], float] = time.monotonic) -> None:
        self.limit = float(most)
        self._most = most
        self._now = now
        self._under_way = 0
        self._changed = asyncio.Condition()
        self._calm_from = 0.0  # complaints about calls that began earlier have been answered already
        self.pause_until = 0.0

    async def enter(self) -> float:
        """Wait for a place; the moment at which the call begins."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._under_way < int(self.limit))
            self._under_way += 1
        wait = self.pause_until - self._now()
        if wait > 0:
            await asyncio.sleep(wait)
        return self._now()

    async def leave(self, began: float, complaint: ThrottledError | None) -> None:
        """Give the place back, and say whether the store complained."""
        async with self._changed:
            self._under_way -= 1
            if complaint is None:
                self.limit = min(self._most, self.limit + 1 / self.limit)
            else:
                self.pause_until = max(self.pause_until, self._now() + complaint.retry_after)
                if began >= self._calm_from:  # one storm halves it once, however many calls it hits
                    self.limit = max(1.0, self.limit / 2)
                    self._calm_from = self._now()
            self._changed.notify_all()


class Allowance:
    """Request units per second that may be used. `None` allows any number."""

    def __init__(self, per_second: float | None, *, now: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._now = now
        self._balance = 0.0
        self._at = now()

    async def wait(self) -> None:
        """Wait until what was used has been paid off; others may use more meanwhile."""
        while self._per_second and (owed := self.owed()) > 0:  # noqa: ASYNC110  (a debt has no event)
            await asyncio.sleep(owed / self._per_second)

    def owed(self) -> float:
        """Request units that have been used ahead of time."""
        return -self._present(self._per_second) if self._per_second else 0.0

    def use(self, request_units: float) -> None:
        if self._per_second:
            self._present(self._per_second)
            self._balance -= request_units

    def _present(self, per_second: float) -> float:
        now = self._now()
        self._balance = min(per_second * BURST_SECONDS, self._balance + (now - self._at) * per_second)
        self._at = now
        return self._balance


class PacedStore:
    """A store whose calls keep to a pace. One for each projection, so that none takes another's share."""

    def __init__(self, store: Store, concurrency: Concurrency, allowance: Allowance) -> None:
        self._store = store
        self._concurrency = concurrency
        self._allowance = allowance

    @staticmethod
    def below(store: Store, *, request_units: float | None = None, most: int = MOST) -> Store:
        """The store, keeping to a pace of its own: below the patience of one that is patient, so that waiting for a
        busy store takes no place, and every complaint is heard.
        """
        concurrency, allowance = Concurrency(most), Allowance(request_units)
        if isinstance(store, PatientStore):
            return store.over(lambda inner: PacedStore(inner, concurrency, allowance))
        return PacedStore(store, concurrency, allowance)

    @asynccontextmanager
    async def _call(self) -> AsyncIterator[None]:
        began = await self._concurrency.enter()
        complaint: ThrottledError | None = None
        cost = Cost()
        try:
            await self._allowance.wait()  # with a place, so that those who wait do not all go at once
            with measured() as cost:
                yield
        except ThrottledError as error:
            complaint = error
            raise
        finally:
            self._allowance.use(cost.request_units)
            await self._concurrency.leave(began, complaint)

    async def read(self, container: Container, places: Collection[Place]) -> dict[Place, Document]:
        async with self._call():
            return await self._store.read(container, places)

    async def write(self, container: Container, key: Key, operations: Sequence[Operation]) -> list[str | None]:
        async with self._call():
            return await self._store.write(container, key, operations)

    async def query(
        self, container: Container, text: str, parameters: Mapping[str, Any], key: Key | None = None, *,
        after: str | None = None, page_size: int | None = None,
    ) -> AsyncIterator[Rows]:  # fmt: skip
        pages = aiter(self._store.query(container, text, parameters, key, after=after, page_size=page_size))
        while (page := await self._next(pages)) is not None:
            yield page

    async def changes(
        self, container: Container, feed_range: FeedRange, since: str | Start, page_size: int
    ) -> AsyncIterator[Page]:
        pages = aiter(self._store.changes(container, feed_range, since, page_size))
        while (page := await self._next(pages)) is not None:
            yield page

    async def _next(self, pages: AsyncIterator[Any]) -> Any:
        async with self._call():
            return await anext(pages, None)

    async def session(self, container: Container, key: Key) -> str:
        async with self._call():
            return await self._store.session(container, key)

    async def behind(self, container: Container, feed_range: FeedRange, position: str | None, token: str) -> int:
        async with self._call():
            return await self._store.behind(container, feed_range, position, token)

    async def feed_ranges(self, container: Container) -> list[FeedRange]:
        async with self._call():
            return await self._store.feed_ranges(container)

    async def describe(self, container: Container) -> Description | None:
        async with self._call():
            return await self._store.describe(container)

    async def throughput(self, container: Container) -> Throughput | None:
        async with self._call():
            return await self._store.throughput(container)

    async def containers(self, database: str) -> list[str]:
        async with self._call():
            return await self._store.containers(database)

    async def create_container(self, wanted: Description) -> bool:
        async with self._call():
            return await self._store.create_container(wanted)

    async def delete_container(self, container: Container) -> bool:
        async with self._call():
            return await self._store.delete_container(container)

    async def close(self) -> None:
        await self._store.close()
