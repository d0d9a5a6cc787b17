"""Random schedules under the model of the host: whatever order faults come in, nothing is lost and nothing stays wrong.

Two instances, leases that move under them, instances and processes that die, stores that throttle, fail or hang,
batches that come again; the source is written to all the while. When faults have ended the timers run, and the target
equals a fresh rebuild. The samples' handler, on the same schedules, ends wrong nearly always.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable
from typing import Any

import pytest

from projections.errors import ProjectionsError, ThrottledError, TransientError, UnauthorizedError
from projections.store import Container
from tests.host.apps import Naive, Ours
from tests.host.simulator import Host, Retry
from tests.host.virtual import run
from tests.host.world import LAYOUT, SOURCE, TARGET, Line, World

SEEDS = 30
EVENTS = 30
ERRORS: tuple[ProjectionsError, ...] = (ThrottledError("429"), TransientError("503"), UnauthorizedError("401"))
CONTAINERS = (SOURCE, TARGET, LAYOUT.state, LAYOUT.deadletters)
STATUSES: tuple[Any, ...] = ("open", "open", "paid", "sent", {"odd": True})


class Schedule:
    """One random schedule on a world."""

    def __init__(self, seed: int, world: World) -> None:
        self.random = random.Random(seed)
        self.world = world
        self.running: dict[Host, asyncio.Task[None]] = {}
        self.tasks: list[asyncio.Task[None]] = []
        self.names = iter(range(1_000))
        self.total = 0

    async def play(self) -> None:
        self.world.hooks.append(self._delay)
        for _ in range(2):
            self._start()
        events = (self._write, self._write, self._write, self._outage, self._steal, self._crash, self._kill,
                  self._hang, self._again)  # fmt: skip
        for _ in range(EVENTS):
            await self.random.choice(events)()
            await asyncio.sleep(self.random.choice((0.0, 1.0, 20.0, 200.0)))
        await self._end()

    def _start(self) -> None:
        host = self.world.host(f"host-{next(self.names)}")
        self.running[host] = asyncio.create_task(host.run())

    def _one(self) -> Host:
        return self.random.choice(list(self.running))

    async def _delay(self, _: Line, __: str, ___: Container) -> None:
        """Calls of different workers take turns in any order."""
        await asyncio.sleep(self.random.choice((0.0, 0.0, 0.01, 0.3)))

    async def _write(self) -> None:
        for _ in range(self.random.randint(1, 6)):
            n = self.random.randrange(12)
            self.total += 1
            fields = {"deleted": True} if self.random.random() < 0.1 else {}
            status = self.random.choice(STATUSES)
            await self.world.put(
                {"id": f"o{n}", "customer": f"c{n % 3}", "status": status, "total": self.total, **fields}
            )

    async def _outage(self) -> None:
        for container in self.random.sample(CONTAINERS, self.random.choice((1, 1, 2, 4))):
            self.world.fail(container, self.random.choice((5.0, 100.0, 1000.0)), self.random.choice(ERRORS))

    async def _steal(self) -> None:
        """The lease moves; what is under way goes on."""
        self.world.leases[0].owner = self._one().name

    async def _crash(self) -> None:
        self._one().crash()

    async def _kill(self) -> None:
        host = self._one()
        task = self.running.pop(host)
        task.cancel()
        await host.kill()
        self._start()

    async def _hang(self) -> None:
        async def hang(_: Line) -> None:
            await asyncio.sleep(self.random.choice((30.0, 500.0, 2000.0)))

        name = self.random.choice(("read", "write", "written"))
        self.world.once(name, self.random.choice(CONTAINERS), hang)

    async def _again(self) -> None:
        """A batch comes once more, on either instance, beside what is under way."""
        documents, _ = await self._one()._read(self.world.leases[0])
        host = self._one()
        self.tasks.append(asyncio.create_task(host.deliver(documents)))

    async def _end(self) -> None:
        """Faults end; what is under way comes to its end, and the feed is read."""
        self.world.down.clear()
        self.world.hooks[:] = [self._delay]
        await self._write()
        await asyncio.sleep(3_000)
        for host, task in self.running.items():
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            await host.kill()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        await self.world.host("last").until_end()


async def played(seed: int, app: Callable[..., Any], retry: Retry | None) -> World:
    world = await World(app, retry=retry, max_items=8).open()
    await Schedule(seed, world).play()
    return world


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_random_schedule_ends_right(seed: int) -> None:
    async def play() -> None:
        world = await played(seed, Ours, Retry())
        assert sum(host.counts.given_up for host in world.hosts) == 0
        await world.timers()
        await world.converged()

    run(play())


@pytest.mark.parametrize("seed", range(SEEDS // 3))
def test_even_where_the_host_forgets_every_failed_batch(seed: int) -> None:
    """No retry policy: what cannot be deferred is lost to the trigger, and the audit finds it."""

    async def play() -> None:
        world = await played(seed, Ours, None)
        await world.timers()
        await world.converged()

    run(play())


def test_the_samples_handler_ends_wrong() -> None:
    async def play(seed: int) -> bool:
        world = await played(seed, Naive, None)
        return await world.wrong() != []

    assert sum(run(play(seed)) for seed in range(6)) >= 5
