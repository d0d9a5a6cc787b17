"""Throttling: 429 beyond the throughput of a physical partition, and when to come again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest
from azure.cosmos import PartitionKey
from azure.cosmos.aio import CosmosClient
from azure.cosmos.exceptions import CosmosHttpResponseError

from projections.emulator import Emulator


class Clock:
    """Time that passes when it is told to."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def opened(*, throttle: bool = True, throughput: int = 400) -> AsyncIterator[tuple[Any, Emulator, Clock]]:
    """A container keyed /k, and a clock that its budgets go by."""
    async with Emulator(throttle=throttle) as emulator:
        clock = emulator.account.throttle._clock = Clock()
        client = CosmosClient.from_connection_string(emulator.connection_string, retry_throttle_total=1)
        async with client:
            database = await client.create_database("db")
            yield await database.create_container("c", PartitionKey("/k"), offer_throughput=throughput), emulator, clock


@contextmanager
def refused() -> Iterator[list[float]]:
    """The seconds that a refused call is told to wait."""
    waits: list[float] = []
    with pytest.raises(CosmosHttpResponseError) as caught:
        yield waits
    assert (caught.value.status_code, caught.value.sub_status) == (429, 3200)
    waits.append(int(caught.value.headers["x-ms-retry-after-ms"]) / 1000)


async def exhaust(container: Any, key: str = "a") -> int:
    """Write until it is refused; how many writes went through."""
    for n in range(1_000):
        try:
            await container.upsert_item({"id": f"{key}{n}", "k": key}, retry_write=0)
        except CosmosHttpResponseError:
            return n
    return 1_000


async def test_it_is_off_unless_asked_for() -> None:
    async with opened(throttle=False) as (container, _, _clock):
        assert await exhaust(container) == 1_000


async def test_a_second_has_the_throughput_and_no_more() -> None:
    async with opened() as (container, _, clock):
        writes = await exhaust(container)
        assert 70 <= writes <= 82  # 400 RU at 4.9 to 5.5 each
        with refused() as waits:
            await container.read_item("a0", "a")
        assert 0 < waits[0] < 0.05
        clock.now += waits[0] + 0.001
        await container.read_item("a0", "a")
        clock.now += 60  # nothing is saved up
        assert writes - 5 <= await exhaust(container, "b") <= writes + 5


async def test_what_is_dear_is_paid_off_by_those_that_come_after_it() -> None:
    async with opened() as (container, _, _clock):
        await container.upsert_item({"id": "large", "k": "a", "text": "x" * 1_900_000})  # close on 1,000 RU
        with refused() as waits:
            await container.read_item("large", "a")
        assert 1 < waits[0] < 2


async def test_each_physical_partition_has_its_share() -> None:
    async with opened(throughput=20_000) as (container, emulator, _):
        held = emulator.account.catalog.container("db", "c")
        [first, second] = [one.id for one in held.partitions.live]
        keys = {held.partitions.find(held.key.epk_of([key])).id: key for key in map(str, range(20))}
        assert keys.keys() == {first, second}
        emulator.account.throttle._budget(held, first).spend(10_001, 0.0)
        with refused():
            await container.read_item("x", keys[first])
        await container.upsert_item({"id": "x", "k": keys[second]})
        with refused():  # it asks both
            _ = [item async for item in container.query_items("SELECT * FROM c")]


async def test_metadata_is_not_throttled() -> None:
    async with opened() as (container, _, _clock):
        await exhaust(container)
        await container.read()
