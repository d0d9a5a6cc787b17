"""How fast to call: adapting to 429s, and keeping under a cap of request units."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

import pytest

from projections.errors import ThrottledError, TransientError
from projections.identity import Place
from projections.keys import Key
from projections.metering import charge
from projections.pace import Allowance, Concurrency, PacedStore
from projections.patience import PatientStore
from projections.store import Container
from tests.host.virtual import in_virtual_time

SOMEWHERE = Container("d", "c")
PLACE = Place("1", Key.of("k"))


class Service:
    """A store that takes `limit` calls at once, and says 429 to more; each call takes a moment and costs something."""

    def __init__(self, limit: int, *, cost: float = 1.0, seconds: float = 0.01) -> None:
        self.limit, self.cost, self.seconds = limit, cost, seconds
        self.under_way = self.most = self.throttled = self.done = 0

    async def read(self, container: Container, places: Collection[Place]) -> dict[Place, Any]:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            if self.under_way > self.limit:
                self.throttled += 1
                raise ThrottledError(retry_after=0.02)
            await asyncio.sleep(self.seconds)
            charge(self.cost)
            self.done += 1
            return {}
        finally:
            self.under_way -= 1


def paced(service: Any, *, most: int = 32, cap: float | None = None) -> PacedStore:
    now = asyncio.get_running_loop().time
    return PacedStore(service, Concurrency(most, now=now), Allowance(cap, now=now))


async def many(store: Any, number: int) -> None:
    await asyncio.gather(*(store.read(SOMEWHERE, [PLACE]) for _ in range(number)))


async def test_no_more_calls_are_under_way_than_allowed() -> None:
    service = Service(limit=1_000)
    await many(paced(service, most=5), 50)
    assert (service.most, service.done) == (5, 50)


@in_virtual_time
async def test_a_busy_store_is_asked_less_and_everything_gets_done() -> None:
    """Without adapting, most of 32 calls at once would be refused, again and again."""
    service = Service(limit=4)
    await many(PatientStore(paced(service), 30), 300)
    assert service.done == 300
    naive = Service(limit=4)
    await many(PatientStore(naive, 30), 300)
    assert service.throttled < naive.throttled / 3


async def test_one_storm_halves_the_limit_once() -> None:
    concurrency = Concurrency(32, now=(clock := Clock()))
    began = [await concurrency.enter() for _ in range(20)]
    clock.now += 1
    for moment in began:
        await concurrency.leave(moment, ThrottledError())
    assert concurrency.limit == 16


async def test_the_limit_grows_by_one_for_a_round_of_good_calls_and_never_over_the_most() -> None:
    concurrency = Concurrency(8)
    concurrency.limit = 4.0
    for _ in range(4):
        await concurrency.leave(await concurrency.enter(), None)
    assert 4.8 <= concurrency.limit <= 5
    for _ in range(200):
        await concurrency.leave(await concurrency.enter(), None)
    assert concurrency.limit == 8


async def test_the_limit_never_falls_below_one() -> None:
    clock = Clock()
    concurrency = Concurrency(2, now=clock)
    for _ in range(10):
        began = await concurrency.enter()
        clock.now += 1
        await concurrency.leave(began, ThrottledError())
    assert concurrency.limit == 1


@in_virtual_time
async def test_nobody_calls_before_the_time_that_the_store_asked_for() -> None:
    loop = asyncio.get_running_loop()
    concurrency = Concurrency(4, now=loop.time)
    await concurrency.leave(await concurrency.enter(), ThrottledError(retry_after=0.2))
    before = loop.time()
    await concurrency.enter()
    assert loop.time() - before >= 0.19


async def test_other_trouble_does_not_change_the_limit() -> None:
    class Away:
        async def read(self, container: Container, places: Collection[Place]) -> dict[Place, Any]:
            raise TransientError("away")

    concurrency = Concurrency(8)
    store = PacedStore(Away(), concurrency, Allowance(None))  # type: ignore[arg-type]
    with pytest.raises(TransientError):
        await store.read(SOMEWHERE, [PLACE])
    assert concurrency.limit == 8


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("cost", [1.0, 10.0, 400.0])
async def test_request_units_keep_to_the_cap(cost: float) -> None:
    """What a call costs is known afterwards, so a cap holds over time: a caller is at most one call ahead."""
    clock = Clock()
    allowance = Allowance(100.0, now=clock)
    used = 0.0
    start = clock.now
    while clock.now < start + 60:
        if allowance.owed() > 0:
            clock.now += allowance.owed() / 100.0
        allowance.use(cost)
        used += cost
    assert used <= 100.0 * (clock.now - start) + cost + 100.0 * 0.25
    assert used >= 95.0 * (clock.now - start)


async def test_waiting_for_the_allowance_takes_as_long_as_it_costs() -> None:
    loop = asyncio.get_running_loop()
    service = Service(limit=1_000, cost=10.0, seconds=0.0)
    store = paced(service, most=1, cap=500.0)
    began = loop.time()
    await many(store, 30)
    assert loop.time() - began >= 0.4


async def test_without_a_cap_nothing_waits() -> None:
    allowance = Allowance(None)
    allowance.use(1e9)
    await asyncio.wait_for(allowance.wait(), 10)
