"""A store that is patient: what is only busy is tried again, until a deadline."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type

from projections.declare import Throughput
from projections.errors import TransientError
from projections.identity import Place
from projections.keys import Key
from projections.store import Container, Description, Document, FeedRange, Operation, Page, Rows, Start, Store

T = TypeVar("T")


class PatientStore:
    """Tries a call again while it fails with TransientError, for `seconds` at most; then the error goes on.

    Every write carries a condition or is the same when repeated, so trying again is always safe; a write whose answer
    was lost comes back as a conflict, which the writer settles. Of a query the first page is tried again, and those
    after a page that says how to go on; after one that does not (over all partitions the SDK cannot) the error goes on,
    since nobody could say which rows have been given. Feeds are not tried again: whoever reads one starts again from
    the last position.
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

    async def query(
        self, container: Container, text: str, parameters: Mapping[str, Any], key: Key | None = None, *,
        after: str | None = None, page_size: int | None = None,
    ) -> AsyncIterator[Rows]:  # fmt: skip
        asked = _Asked(partial(self._store.query, container, text, parameters, key, page_size=page_size), after)
        while (page := await (self._try(asked.next) if asked.resumable else asked.next())) is not None:
            yield page

    async def session(self, container: Container, key: Key) -> str:
        return await self._try(lambda: self._store.session(container, key))

    async def behind(self, container: Container, feed_range: FeedRange, position: str | None, token: str) -> int:
        return await self._try(lambda: self._store.behind(container, feed_range, position, token))

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

    async def containers(self, database: str) -> list[str]:
        return await self._try(lambda: self._store.containers(database))

    async def create_container(self, wanted: Description) -> bool:
        return await self._try(lambda: self._store.create_container(wanted))

    async def delete_container(self, container: Container) -> bool:
        return await self._try(lambda: self._store.delete_container(container))

    async def close(self) -> None:
        await self._store.close()


class _Asked:
    """A query that is asked again after its last page where asking for the next one has failed."""

    def __init__(self, ask: Callable[..., AsyncIterator[Rows]], after: str | None) -> None:
        self._ask = ask
        self._after = after
        self._pages = ask(after=after)
        self.resumable = True  # at its beginning, or after a page with a position

    async def next(self) -> Rows | None:
        """The next page; None at the end."""
        try:
            page = await anext(self._pages, None)
        except TransientError:
            self._pages = self._ask(after=self._after)  # the iterator that has failed is at its end
            raise
        if page is not None:
            self._after, self.resumable = page.position, page.position is not None
        return page


def _wait(state: RetryCallState) -> float:
    """At least what the store asked for; beyond that exponential with jitter, 5 s at most."""
    error = state.outcome.exception() if state.outcome else None
    asked = error.retry_after if isinstance(error, TransientError) else 0.0
    return max(asked, random.uniform(0, min(5.0, 0.05 * 2.0**state.attempt_number)))
