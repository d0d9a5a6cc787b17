"""What the Functions host loses, and that we do not: each fault once with the samples' handler, once with ours.

Every scenario is played twice on an account of its own, in virtual time. The samples' handler has no retry policy, as
in the samples, unless the test says otherwise; ours has the one that the app registers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from projections.errors import ThrottledError, TransientError, UnauthorizedError
from projections.functions import TriggeredWorker
from projections.keys import Key
from projections.store import Create, Document
from tests.converged import documents
from tests.host.apps import Naive, Ours
from tests.host.simulator import FOREVER, Host, Retry
from tests.host.virtual import run
from tests.host.world import LAYOUT, SETTINGS, SOURCE, TARGET, Line, World

UNLIMITED = Retry(FOREVER)
DEADLETTERS = LAYOUT.deadletters
BUSY = ThrottledError("429")
DOWN = TransientError("503")

Scenario = Callable[[World], Awaitable[None]]


def order(n: int, status: Any = "open", **fields: Any) -> Document:
    return {"id": f"o{n}", "customer": f"c{n % 3}", "status": status, "total": n, **fields}


def orders(count: int, **fields: Any) -> list[Document]:
    return [order(n, f"s{n % 7}", **fields) for n in range(count)]


async def samples(scenario: Scenario, **options: Any) -> list[str]:
    """What is wrong after a scenario with the samples' handler, when the fault is over and the feed is read."""
    world = await World(Naive, **options).open()
    await scenario(world)
    return await world.wrong()


async def ours(scenario: Scenario, *, retry: Retry | None = UNLIMITED, **options: Any) -> World:
    """The world after the same scenario with our handler."""
    world = await World(Ours, retry=retry, **options).open()
    await scenario(world)
    return world


# without faults


def test_both_are_right_where_nothing_goes_wrong() -> None:
    async def scenario(world: World) -> None:
        await world.put(*orders(40))
        await world.host().until_end()

    async def play() -> None:
        assert await samples(scenario) == []
        await (await ours(scenario)).converged()

    run(play())


def test_a_transaction_is_not_split() -> None:
    async def scenario(world: World) -> None:
        await world.store.write(SOURCE, Key.of("c1"), [Create(order(n, customer="c1")) for n in range(30)])
        host = world.host()
        await host.until_end()
        assert host.counts.largest == 30

    async def play() -> None:
        assert await samples(scenario, max_items=10) == []
        await (await ours(scenario, max_items=10)).converged()

    run(play())


# a call fails


def test_an_exception_in_the_middle_of_a_batch() -> None:
    """Field case 4. The lease moves on although the function raised (facts.md 1)."""

    async def scenario(world: World) -> None:
        await world.put(*orders(20))

        async def refuse(_: Line) -> None:
            world.fail(TARGET, 120, UnauthorizedError("401: the key was regenerated"))

        world.once("written", TARGET, refuse)
        host = world.host()
        await host.until_end()
        assert host.counts.failures >= 1

    async def play() -> None:
        assert len(await samples(scenario)) == 19
        await (await ours(scenario)).converged()

    run(play())


def test_a_call_that_takes_too_long() -> None:
    """The process is ended in the middle of it; to the host that is a failure like any other."""

    async def scenario(world: World) -> None:
        await world.put(*orders(20))
        slow_until = world.now() + 900

        async def slow(_: Line, name: str, about: Any) -> None:
            if (name, about) == ("write", TARGET) and world.now() < slow_until:
                await asyncio.sleep(100)

        world.hooks.append(slow)
        await world.host().until_end()

    async def play() -> None:
        assert len(await samples(scenario)) > 10
        world = await ours(scenario)
        assert world.hosts[0].counts.given_up == 0
        await world.drain()
        await world.converged()

    run(play())


def test_calls_that_hang_for_longer_than_the_time_out() -> None:
    async def scenario(world: World) -> None:
        await world.put(*orders(5))

        async def hang(_: Line) -> None:
            await asyncio.sleep(10_000)

        world.once("write", TARGET, hang)
        await world.host().until_end()

    async def play() -> None:
        assert len(await samples(scenario)) == 5
        world = await ours(scenario)
        assert world.hosts[0].counts.failures == 0  # it gave up in time, and deferred
        assert await world.deferred() == 5
        await world.drain()
        await world.converged()

    run(play())


@pytest.mark.parametrize("moment", ["write", "written"], ids=["before parking", "after parking"])
@pytest.mark.parametrize("retry", [UNLIMITED, None], ids=["held", "lost by the host"])
def test_the_process_dies_when_it_is_about_to_defer_and_when_it_has(moment: str, retry: Retry | None) -> None:
    async def scenario(world: World) -> None:
        await world.put(*orders(10))
        world.fail(TARGET, 700, BUSY)
        host = world.host()

        async def die(_: Line) -> None:
            host.crash()

        world.once(moment, DEADLETTERS, die)
        world.once("write", TARGET, _nothing)
        await host.until_end()

    async def play() -> None:
        assert len(await samples(scenario)) == 10
        world = await ours(scenario, retry=retry)
        assert world.hosts[0].counts.failures == 1
        if retry is None and moment == "write":
            await asyncio.sleep(600)
            assert len(await world.wrong()) == 10  # the batch is gone; only the audit still knows of it
        await world.timers()
        await world.converged()

    run(play())


async def _nothing(_: Line) -> None:
    return None


@pytest.mark.parametrize("nth", range(1, 12))
def test_the_process_dies_at_any_write(nth: int) -> None:
    """Out of memory, a platform upgrade: the host starts another process and calls it a failure."""

    async def scenario(world: World) -> None:
        await world.put(*orders(6))
        await world.host().until_end()
        await world.put(*(order(n, "paid") for n in range(6)))
        host = world.hosts[0]
        left = [nth]

        async def count(_: Line, name: str, __: Any) -> None:
            left[0] -= name == "write"
            if left[0] == 0 and name == "write":
                host.crash()

        world.hooks.append(count)
        await host.until_end()

    async def play() -> None:
        assert await samples(scenario) != []
        await (await ours(scenario)).converged()

    run(play())


def test_retries_that_end_lose_the_batch() -> None:
    """Why the policy has no end (facts.md 2), and what the audit is for. Nothing at all can be written for an hour."""

    async def scenario(world: World) -> None:
        await world.put(*orders(10))
        for container in (TARGET, DEADLETTERS):
            world.fail(container, 3600, DOWN)
        await world.host().until_end()

    async def play() -> None:
        assert len(await samples(scenario, retry=Retry(3))) == 10
        world = await ours(scenario, retry=Retry(3))
        assert world.hosts[0].counts.given_up == 1
        await asyncio.sleep(3600)
        assert len(await world.wrong()) == 10
        await world.timers()
        await world.converged()

        world = await ours(scenario)
        assert world.hosts[0].counts.given_up == 0
        await world.drain()
        await world.converged()  # without an audit

    run(play())


# a busy or broken store


def test_throttling_beyond_the_deadline() -> None:
    """Field case 5: only what is not done is deferred, and the feed goes on."""

    async def scenario(world: World) -> None:
        await world.put(*orders(30))

        async def throttle(line: Line, name: str, about: Any) -> None:
            if (name, about) == ("write", TARGET) and world.now() - began < 1500 and len(written) >= 2:
                raise BUSY
            if (name, about) == ("written", TARGET):
                written.append(line)

        began, written = world.now(), list[Line]()
        world.hooks.append(throttle)
        host = world.host()
        await host.until_end()
        await world.put(*orders(40)[30:])
        await host.until_end()  # the feed goes on, and its changes are deferred, too
        await asyncio.sleep(1500)

    async def play() -> None:
        assert len(await samples(scenario)) == 38
        world = await ours(scenario)
        assert world.hosts[0].counts.failures == 0
        assert 10 < await world.deferred() < 40
        await world.drain()
        await world.converged()

    run(play())


def test_the_dead_letter_store_is_down_for_a_while() -> None:
    """Field case 24, variant b: a bad item can neither be parked nor deferred. The position waits."""

    async def scenario(world: World) -> None:
        world.fail(DEADLETTERS, 3000, DOWN)
        await world.put(order(1), order(2, {"odd": True}), order(3))
        await world.host().until_end()

    async def play() -> None:
        assert await samples(scenario) == ["o3"]
        world = await ours(scenario)
        assert world.hosts[0].counts.failures > 1
        await world.drain()
        await world.converged()  # the bad item is parked

    run(play())


# more than one host


def test_two_hosts_on_one_range() -> None:
    """Field case 1. The lease moves while a call is slow; what that call was given is old when it writes."""

    async def scenario(world: World) -> None:
        await world.put(order(1, total=1))
        first, second = world.host("a"), world.host("b")
        arrived = asyncio.Event()

        async def stall(_: Line) -> None:
            arrived.set()
            await asyncio.sleep(300)

        world.once("write", TARGET, stall)
        lease = world.leases[0]
        slow = asyncio.create_task(first.until_end())
        await arrived.wait()
        await world.put(order(1, total=2))
        lease.owner = "b"
        await second.until_end()
        await slow
        assert first.counts.checkpoints == 0

    async def play() -> None:
        assert await samples(scenario) == ["o1"]
        await (await ours(scenario)).converged()

    run(play())


def test_a_second_app_takes_the_lease() -> None:
    """A laptop with the same lease prefix (facts.md 7): the feed moves on, and its changes went elsewhere."""

    async def scenario(world: World) -> None:
        await world.put(*orders(5))
        host = world.host("a")
        await host.until_end()
        await world.put(*orders(15)[5:])
        lease = world.leases[0]
        lease.owner = "laptop"
        await Host("laptop", world.store, world.trigger, world.leases, Elsewhere).until_end()
        lease.owner = "a"
        await world.put(order(99))
        await host.until_end()

    async def play() -> None:
        assert len(await samples(scenario)) == 10
        world = await ours(scenario)
        assert len(await documents(world.store, TARGET)) == 6  # nothing that the trigger could know of
        await world.timers()
        await world.converged()

    run(play())


class Elsewhere:
    """Another app, with targets of its own."""

    async def changes(self, documents: list[Document]) -> None: ...

    def kill(self) -> None: ...


def test_an_instance_dies_before_its_first_checkpoint() -> None:
    """The start setting counts again (facts.md 4); the samples leave it at "now"."""

    async def scenario(world: World) -> None:
        first = world.host("a")
        await first.until_end()
        await world.put(*orders(10))

        async def die(_: Line) -> None:
            await asyncio.sleep(30)
            raise DOWN

        world.once("write", TARGET, die)
        work = asyncio.create_task(first.until_end())
        await asyncio.sleep(10)
        work.cancel()
        await first.kill()
        second = world.host("b")
        await second.until_end()
        await world.put(order(99))
        await second.until_end()

    async def play() -> None:
        assert len(await samples(scenario, start_from_beginning=False)) == 10
        await (await ours(scenario)).converged()

    run(play())


def test_an_instance_dies_between_the_call_and_the_checkpoint() -> None:
    """Its batch comes again. The samples write it all again, over what others have written since; we look first."""

    async def scenario(world: World) -> None:
        await world.put(*orders(10))
        first = world.host("a")
        lease = world.leases[0]
        lease.owner = "a"
        before = lease.position
        await first.poll(lease)
        lease.position = before  # it died before this was stored
        await first.kill()
        entries[world] = await documents(world.store, TARGET)
        await world.host("b").until_end()

    entries: dict[World, list[Document]] = {}

    async def play() -> None:
        naive = await World(Naive).open()
        await scenario(naive)
        assert await documents(naive.store, TARGET) != entries[naive]  # every one written again
        world = await ours(scenario)
        assert await documents(world.store, TARGET) == entries[world]
        await world.converged()

    run(play())


def test_a_retried_batch_is_old_when_it_succeeds() -> None:
    """With the same unlimited policy as ours, the samples' handler writes what it was given hours ago."""

    async def scenario(world: World) -> None:
        await world.put(order(1, total=1))
        world.fail(TARGET, 1000, DOWN)
        world.fail(DEADLETTERS, 1000, DOWN)
        first, second = world.host("a"), world.host("b")
        held = asyncio.create_task(first.until_end())
        await asyncio.sleep(900)
        await world.put(order(1, total=2))
        world.down.clear()
        world.leases[0].owner = "b"
        await second.until_end()
        await held

    async def play() -> None:
        assert await samples(scenario, retry=UNLIMITED) == ["o1"]
        await (await ours(scenario)).converged()

    run(play())


# odd deliveries


def test_an_empty_batch() -> None:
    """It moves nothing, writes nothing, and asks nothing of the store. (The samples' loop does nothing either.)"""

    async def play() -> None:
        world = await World(Ours, retry=UNLIMITED).open()
        called = list[str]()

        async def note(_: Line, name: str, __: Any) -> None:
            called.append(name)

        world.hooks.append(note)
        host = world.host()
        await host.deliver([])
        assert (host.counts.calls, host.counts.failures, called) == (1, 0, [])

    run(play())


def test_a_key_that_changes() -> None:
    """No fault at all: a loop of upserts leaves the old entry where it was (field case 8)."""

    async def scenario(world: World) -> None:
        host = world.host()
        for status in ("open", "paid"):
            await world.put(order(1, status))
            await host.until_end()

    async def play() -> None:
        assert await samples(scenario) == ["o1"]
        await (await ours(scenario)).converged()

    run(play())


# the timers


def test_two_audits_and_two_drains_at_once_do_no_harm() -> None:
    async def play() -> None:
        world = await World(Ours, retry=None).open()
        await world.put(*orders(30))
        world.fail(TARGET, 500, BUSY)
        await world.host().until_end()
        assert await world.deferred() == 30
        await world.put(*orders(40)[30:])  # these the host loses
        world.leases[0].position = "40"
        await asyncio.sleep(1000)
        both = [TriggeredWorker(SETTINGS, 600, world._line, now=world.now) for _ in range(2)]
        await asyncio.gather(*(worker.drain() for worker in both), *(worker.audit() for worker in both))
        await both[0].audit()
        await world.converged()

    run(play())


def test_a_timer_gives_up_before_its_own_time_out() -> None:
    async def play() -> None:
        world = await World(Ours, retry=None).open()
        await world.put(*orders(5))
        world.fail(TARGET, 500, BUSY)
        await world.host().until_end()
        loop = asyncio.get_running_loop()

        async def hang(_: Line) -> None:
            await asyncio.sleep(10_000)

        worker = TriggeredWorker(SETTINGS, 600, world._line, now=world.now)
        for timer in (worker.drain, worker.audit):
            started = loop.time()
            world.once("read", TARGET, hang)
            await asyncio.sleep(400)
            await timer()
            assert loop.time() - started - 400 <= 0.8 * 600
        await world.timers()
        await world.converged()

    run(play())
