"""Read your writes on the Functions host: what its leases tell, and what is deferred behind them."""

from __future__ import annotations

from typing import Any

import pytest

from projections.errors import ThrottledError
from projections.identity import Identity, Place
from projections.keys import Key
from projections.lookup import Lookup
from projections.waiting import BehindError
from projections.worker import Worker
from tests.host.apps import Ours
from tests.host.simulator import Retry
from tests.host.virtual import in_virtual_time
from tests.host.world import BY_STATUS, LAYOUT, SOURCE, TARGET, World

Document = dict[str, Any]


async def put(world: World, id_: str, customer: str = "c") -> Document:
    """An order, as the store gives it back."""
    place = Place(id_, Key.of(customer))
    await world.put({"id": id_, "customer": customer, "status": "open"})
    return (await world.store.read(SOURCE, [place]))[place]


async def opened() -> tuple[World, Lookup]:
    world = await World(Ours, retry=Retry()).open()
    return world, Lookup(world.store, LAYOUT, BY_STATUS, now=world.now)


@in_virtual_time
async def test_what_was_written_is_there_when_the_lease_has_moved_on() -> None:
    world, lookup = await opened()
    host = world.host()
    await put(world, "1")
    await host.until_end()
    order = await put(world, "2")
    writes = [order, Identity(Key.of("c"), "2"), await world.store.session(SOURCE, Key.of("c")), 2]
    for written in writes:
        with pytest.raises(BehindError, match="1 transactions"):
            await lookup.wait_for(written, timeout=0)
    await host.until_end()
    for written in writes:
        await lookup.wait_for(written, timeout=0)
    assert len((await lookup.entries("open")).entries) == 2


@in_virtual_time
async def test_what_is_deferred_has_not_been_passed() -> None:
    world, lookup = await opened()
    host = world.host()
    before = await put(world, "1", customer="other")
    await host.until_end()
    order = await put(world, "2")
    world.fail(TARGET, 2000.0, ThrottledError("busy (429)"))
    await host.until_end()  # the call has deferred it, and the lease has moved on
    assert await world.deferred() == 1
    for written in (order, Identity(Key.of("c"), "2"), await world.store.session(SOURCE, Key.of("c"))):
        with pytest.raises(
            BehindError, match="has passed the write, and has deferred items that may be the written one: 1"
        ):
            await lookup.wait_for(written, timeout=1)
    await lookup.wait_for(before, timeout=0)
    world.down.clear()
    await world.drain()
    await lookup.wait_for(order, timeout=0)
    assert len((await lookup.entries("open")).entries) == 2


@in_virtual_time
async def test_worker_and_host_may_both_have_left_word_and_either_will_do() -> None:
    world, lookup = await opened()
    worker = Worker(world.store, LAYOUT, [BY_STATUS])
    await put(world, "1")
    await worker.run(until_caught_up=True)
    order = await put(world, "2")
    with pytest.raises(BehindError, match="1 transactions"):
        await lookup.wait_for(order, timeout=0)
    await world.host().until_end()  # it has taken over
    await lookup.wait_for(order, timeout=0)
    order = await put(world, "4")
    with pytest.raises(BehindError, match="1 transactions"):
        await lookup.wait_for(order, timeout=0)
    await Worker(world.store, LAYOUT, [BY_STATUS]).run(until_caught_up=True)  # and now the worker has again
    await lookup.wait_for(order, timeout=0)
