"""A store that is patient: what is only busy is tried again, until a deadline."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type

from projections.declare import Throughput
from projections.errors import TransientError
from projections.identity import Place
from projections.keys import Key
from projections.store import Container, Description, Document, FeedRange, Operation, Page, Start, Store

T = TypeVar("T")


class PatientStore:
    """Tries a call again while it fails with TransientError, for `seconds` at most; then the error goes on.

    Every write carries a condition or is the same when repeated, so trying again is always safe; a write whose answer
    was lost comes back as a conflict, which the writer settles. Feeds and queries are not tried again in their middle:
    whoever reads them starts again from the last position.
    """

    def __init__(self, store: Store, seconds: float = 60.0) -> None:
        self._store = store
        self._seconds = seconds

    def over(self, change: Callable[[Store], Store]) -> PatientStore:
        """As patient as this one, over another store made from the one below."""
        return PatientStore(change(self._store), self._seconds)

    async def _try(self, call: Callable[[], Awaitable[T]]) -> T:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._seconds
        retrying = AsyncRetrying(
            retry=retry_if_exception_type(TransientError),
            stop=lambda _: loop.time() >= deadline,
            wait=_wait,
            reraise=True,
        )
        async for attempt in retrying:
            with attempt:
                return await call()
        raise AssertionError("tenacity ends by returning or raising")

    async def read(self, container: Container, places: Collection[Place]) -> dict[Place, Document]:
        return await self._try(lambda: self._store.read(container, places))

    async def write(self, container: Container, key: Key, operations: Sequence[Operation]) -> list[str | None]:
        return await self._try(lambda: self._store.write(container, key, operations))

    def query(
        self, container: Container, text: str, parameters: Mapping[str, Any], key: Key | None = None
    ) -> AsyncIterator[list[Any]]:
        return self._store.query(container, text, parameters, key)

    async def feed_ranges(self, container: Container) -> list[FeedRange]:
        return await self._try(lambda: self._store.feed_ranges(container))

    def changes(
        self, container: Container, feed_range: FeedRange, since: str | Start, page_size: int
    ) -> AsyncIterator[Page]:
        return self._store.changes(container, feed_range, since, page_size)

    async def describe(self, container: Container) -> Description | None:
        return await self._try(lambda: self._store.describe(container))

    async def throughput(self, container: Container) -> Throughput | None:
        return await self._try(lambda: self._store.throughput(container))

    async def create_container(self, wanted: Description) -> bool:
        return await self._try(lambda: self._store.create_container(wanted))

    async def close(self) -> None:
        await self._store.close()


def _wait(state: RetryCallState) -> float:
    """At least what the store asked for; beyond that exponential with jitter, 5 s at most."""
    error = state.outcome.exception() if state.outcome else None
    asked = error.retry_after if isinstance(error, TransientError) else 0.0
    return max(asked, random.uniform(0, min(5.0, 0.05 * 2.0**state.attempt_number)))
