"""Queries of a busy store: tried again from where they were, never from somewhere else, and never cut short."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest
from aiohttp import web

from projections.cosmos import connect
from projections.emulator import Emulator
from projections.errors import ThrottledError, TransientError
from projections.keys import Key
from projections.memory import MemoryStore
from projections.pace import PacedStore
from projections.patience import PatientStore
from projections.settings import Settings
from projections.store import Container, Delete, Description, Store, Upsert

THINGS: Final = Container("shop", "things")
NUMBER: Final = 250
EVERYTHING: Final = "SELECT * FROM c"
A: Final = Key.of("a", 1)


class Refusals:
    """Which page asked for fails, and how often."""

    def __init__(self) -> None:
        self.many = 2  # more than those below try by themselves
        self.page = 0
        self.left = 0
        self._asked = 0

    def set(self, page: int, times: int) -> None:
        self.page, self.left, self._asked = page, times, 0

    def now(self) -> bool:
        """Whether this page, that is being asked for, is to fail."""
        self._asked += 1
        if self._asked < self.page or not self.left:
            return False
        self.left -= 1
        return True


class BusyEmulator(Emulator):
    """Refuses a page of a query as the service does: with 429, or with 503."""

    def __init__(self, refusals: Refusals, status: int) -> None:
        super().__init__()
        self._refusals = refusals
        self._status = status

    async def _serve(self, incoming: web.BaseRequest) -> web.Response:
        is_query = incoming.headers.get("x-ms-documentdb-isquery", "").lower() == "true"
        if is_query and self._refusals.now():
            return web.json_response({}, status=self._status, headers={"x-ms-retry-after-ms": "1"})
        return await super()._serve(incoming)


@asynccontextmanager
async def in_memory(refusals: Refusals) -> AsyncIterator[Store]:
    async def before(name: str, container: Container) -> None:
        if name == "query" and refusals.now():
            raise ThrottledError("busy (429)")

    yield MemoryStore(before=before, query_page=40)


@asynccontextmanager
async def on_emulator(refusals: Refusals, status: int) -> AsyncIterator[Store]:
    async with (
        BusyEmulator(refusals, status) as emulator,
        connect(Settings(emulator.url, emulator.connection_string)) as store,
    ):
        yield store


@pytest.fixture
def refusals() -> Refusals:
    return Refusals()


@pytest.fixture(params=["memory", 429, 503])
async def store(request: pytest.FixtureRequest, refusals: Refusals) -> AsyncIterator[Store]:
    """A store that refuses as told, with things under two keys."""
    opening = in_memory(refusals) if request.param == "memory" else on_emulator(refusals, request.param)
    refusals.many = {"memory": 1, 429: 5, 503: 5}[request.param]
    async with opening as opened:
        await opened.create_container(Description(THINGS, ("/k", "/n")))
        for start in range(0, NUMBER, 50):
            things = [{"id": f"{n:03}", "k": "a", "n": 1} for n in range(start, start + 50)]
            await opened.write(THINGS, A, [Upsert(thing) for thing in things])
        await opened.write(THINGS, Key.of("b", 1), [Upsert({"id": "other", "k": "b", "n": 1})])
        yield opened


async def ids(pages: AsyncIterator[Any], meanwhile: Callable[[Any], Awaitable[None]] | None = None) -> list[str]:
    found = []
    async for page in pages:
        found += [row["id"] for row in page]
        if meanwhile:
            await meanwhile(page)
    return found


ALL: Final = [f"{n:03}" for n in range(NUMBER)]


@pytest.mark.parametrize("page", [1, 2, 3])
async def test_a_page_that_is_refused_is_asked_for_again(store: Store, refusals: Refusals, page: int) -> None:
    refusals.set(page, refusals.many)
    with pytest.raises(TransientError):
        await ids(store.query(THINGS, EVERYTHING, {}, A))
    refusals.set(page, refusals.many)
    assert await ids(PatientStore(store, 60).query(THINGS, EVERYTHING, {}, A)) == ALL
    assert refusals.left == 0


async def test_also_below_a_pace(store: Store, refusals: Refusals) -> None:
    refusals.set(2, refusals.many)
    patient = PacedStore.below(PatientStore(store, 60))
    assert await ids(patient.query(THINGS, EVERYTHING, {}, A)) == ALL


async def test_what_is_removed_meanwhile_shifts_nothing(store: Store, refusals: Refusals) -> None:
    """As a drain does, page by page: a position that counted rows would leave out some."""

    async def remove(page: Any) -> None:
        for start in range(0, len(page), 100):
            await store.write(THINGS, A, [Delete(row["id"], row["_etag"]) for row in page[start : start + 100]])

    refusals.set(2, refusals.many)
    assert await ids(PatientStore(store, 60).query(THINGS, EVERYTHING, {}, A), remove) == ALL


async def test_a_position_goes_on_after_its_page(store: Store) -> None:
    pages = [page async for page in store.query(THINGS, EVERYTHING, {}, A)]
    assert len(pages) >= 3
    assert pages[-1].position is None
    for number, page in enumerate(pages[:-1]):
        rest = [row["id"] for later in pages[number + 1 :] for row in later]
        assert await ids(store.query(THINGS, EVERYTHING, {}, A, after=page.position)) == rest


async def test_a_query_over_all_partitions_is_asked_again_at_its_beginning(store: Store, refusals: Refusals) -> None:
    refusals.set(1, refusals.many)
    count = PatientStore(store, 60).query(THINGS, "SELECT VALUE COUNT(1) FROM c", {})
    assert [n async for page in count for n in page] == [NUMBER + 1]


async def by_two_levels(store: Store) -> None:
    """As many things as ever, below one prefix."""
    await store.create_container(Description(THINGS, ("/k", "/n")))
    for start in range(0, NUMBER, 50):
        things = [{"id": f"{n:03}", "k": "a", "n": 1} for n in range(start, start + 50)]
        await store.write(THINGS, A, [Upsert(thing) for thing in things])


async def test_where_nobody_can_say_how_to_go_on_the_error_is_told(refusals: Refusals) -> None:
    """Never a second copy of rows, and never an end that is none."""
    async with on_emulator(refusals, 429) as store:
        await by_two_levels(store)
        asked = PatientStore(store, 60).query(THINGS, EVERYTHING, {})
        first = await anext(asked)
        assert (0 < len(first) < NUMBER, first.position) == (True, None)
        refusals.set(1, 1000)
        with pytest.raises(TransientError):
            await ids(asked)


@pytest.mark.parametrize("page", [1, 2, 3])
async def test_a_page_below_a_prefix_that_is_refused_is_asked_for_again(refusals: Refusals, page: int) -> None:
    async with on_emulator(refusals, 429) as store:
        await by_two_levels(store)
        refusals.set(page, refusals.many)
        assert await ids(PatientStore(store, 60).query(THINGS, EVERYTHING, {}, Key.of("a"))) == ALL
        assert refusals.left == 0


async def test_patience_ends(store: Store, refusals: Refusals) -> None:
    refusals.set(2, 10**9)
    with pytest.raises(TransientError):
        await ids(PatientStore(store, 0.2).query(THINGS, EVERYTHING, {}, A))
