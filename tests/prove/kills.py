"""kill -9 of real `run` processes, again and again, while orders change and the emulator dies now and then."""

from __future__ import annotations

import asyncio
import random
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from projections.cosmos import connect
from projections.declare import Projection
from projections.errors import ProjectionsError
from projections.example import catalog
from projections.feed import Checkpoints
from projections.keys import Key
from projections.patience import PatientStore
from projections.provision import Layout
from projections.settings import Settings
from projections.store import Store, Upsert
from tests.converged import assert_converged, assert_entries, documents, rebuild
from tests.processes import EmulatorProcess, kill_after, run, start
from tests.prove.report import Part

ORDERS = 5_000
EMULATOR_DIES_EVERY = 40
LAYOUT = Layout(catalog, "shop")


def order(chance: random.Random, number: int) -> dict[str, Any]:
    """An order in some state: it moves between keys, is left out, turns bad, is deleted softly."""
    customer = f"c{number % 97}"
    item: dict[str, Any] = {"id": str(number // 97), "customerId": customer, "orderId": f"{customer}-{number // 97}"}
    item |= {"status": chance.choice(["open", "paid", "shipped"]), "total": chance.randrange(1000)}
    if chance.random() < 0.5:
        item["region"] = chance.choice(["north", "south"])
    if chance.random() < 0.05:
        item["total"] = "a lot"  # no number: left out where the total counts
    if chance.random() < 0.1:
        item["deleted"] = True
    if chance.random() < 0.02:
        item["status"] = {}  # no key: parked
    return item


class Background(threading.Thread):
    """Somebody else who uses the store, and comes back when the emulator does."""

    def __init__(self, emulator: EmulatorProcess) -> None:
        super().__init__(daemon=True)
        self._emulator = emulator
        self.over = threading.Event()
        self.failed: BaseException | None = None

    def run(self) -> None:
        try:
            asyncio.run(self._come_and_go())
        except BaseException as error:
            self.failed = error

    async def _come_and_go(self) -> None:
        while not self.over.is_set():
            try:
                async with connect(Settings(self._emulator.url, self._emulator.connection_string)) as opened:
                    while not self.over.is_set():
                        await self.work(PatientStore(opened, 10))
            except ProjectionsError:
                await asyncio.sleep(0.1)  # the emulator is away

    async def work(self, store: Store) -> None:
        raise NotImplementedError

    def end(self) -> None:
        self.over.set()
        self.join()
        if self.failed:
            raise self.failed


class Writers(Background):
    """Changes orders, as many as are `allowed` by now."""

    def __init__(self, emulator: EmulatorProcess, seed: int) -> None:
        super().__init__(emulator)
        self._chance = random.Random(seed)
        self.allowed = self.made = 0

    async def work(self, store: Store) -> None:
        batch = min(8, self.allowed - self.made)
        if batch > 0:
            await asyncio.gather(*(self._change(store) for _ in range(batch)))
            self.made += batch
        else:
            await asyncio.sleep(0.02)

    async def _change(self, store: Store) -> None:
        item = order(self._chance, self._chance.randrange(ORDERS))
        await store.write(LAYOUT.source(catalog.projections[0]), Key.of(item["customerId"]), [Upsert(item)])


class Watch(Background):
    """Sees how far the workers have come."""

    outcomes = 0

    async def work(self, store: Store) -> None:
        self.outcomes = await _counted(store)
        await asyncio.sleep(0.03)

    def wait(self, seconds: float) -> bool:
        """Until there is more than now; whether there was in time."""
        before, deadline = self.outcomes, time.monotonic() + seconds
        while self.outcomes == before and time.monotonic() < deadline:
            time.sleep(0.01)
        return self.outcomes != before


def prove(advance: Any, *, seed: int, kills: int, changes: int) -> Iterator[Part]:
    """Kill so many workers, then look."""
    part = Part("kill -9 of real workers")
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        emulator = EmulatorProcess(Path(folder) / "data")
        try:
            _run(part, emulator, advance, random.Random(seed), kills, changes)
        finally:
            emulator.kill()
    part.seconds = time.monotonic() - began
    yield part


def _run(part: Part, emulator: EmulatorProcess, advance: Any, chance: random.Random, kills: int, changes: int) -> None:
    run(["init"], emulator.connection_string)
    writers, watch = Writers(emulator, chance.randrange(2**32)), Watch(emulator)
    writers.start()
    watch.start()
    restarts = at_work = 0
    while part.runs < kills:
        worker = start(["run"], emulator.connection_string)
        writers.allowed = int(changes * (part.runs + 0.5) / kills)
        if part.runs % EMULATOR_DIES_EVERY == EMULATOR_DIES_EVERY - 1 and restarts <= part.runs // EMULATOR_DIES_EVERY:
            time.sleep(chance.uniform(0.5, 2.0))
            emulator.kill()
            emulator.start()
            restarts += 1
        busy = watch.wait(chance.choice((1.0, 10.0, 10.0, 10.0)))  # some die before they have begun
        writers.allowed = int(changes * (part.runs + 1) / kills)
        if kill_after(worker, chance.uniform(0.0, 0.4)):
            at_work += busy
            part.runs += 1
            advance(kills, f"{writers.made:,} changes, {watch.outcomes:,} outcomes")
    while writers.made < changes and not writers.failed:
        time.sleep(0.05)
    writers.end()
    watch.end()
    run(["run", "--until-caught-up"], emulator.connection_string, timeout=1800)
    asyncio.run(_entries(part, emulator))
    run(
        ["audit", "--behind", "0"], emulator.connection_string, timeout=1800
    )  # for dead letters of items that are mended
    said = asyncio.run(_check(part, emulator))
    part.measured = (
        f"{at_work} of them at work; {changes:,} changes of {ORDERS:,} orders, emulator killed {restarts} times; "
        f"{watch.outcomes:,} outcomes before the last run; {said}"
    )


async def _counted(store: Store) -> int:
    return sum([await _outcomes(store, LAYOUT, projection) for projection in catalog])


async def _outcomes(store: Store, layout: Layout, projection: Projection) -> int:
    """The outcomes that were stored with the positions."""
    ranges = await store.feed_ranges(layout.source(projection))
    stored = await Checkpoints(store, layout.state, projection.full_name).load(ranges)
    return sum(checkpoint.tally.total for checkpoint in stored)


async def _entries(part: Part, emulator: EmulatorProcess) -> None:
    """0 missing, 0 stale, 0 orphans, with no audit: one worker after another was killed, never two at once."""
    async with connect(Settings(emulator.url, emulator.connection_string)) as store:
        for projection in catalog:
            try:
                await assert_entries(store, LAYOUT, projection)
            except AssertionError as error:
                part.divergences.append(f"before the audit: {error}")


async def _check(part: Part, emulator: EmulatorProcess) -> str:
    layout, said = LAYOUT, []
    async with connect(Settings(emulator.url, emulator.connection_string)) as store:
        try:
            await assert_converged(store, layout)
        except AssertionError as error:
            part.divergences.append(str(error))
        for projection in catalog:
            items = await documents(store, layout.source(projection))
            expected, bad = rebuild(layout, projection, items)
            entries = len(await documents(store, layout.target(projection)))
            counted = await _outcomes(store, layout, projection)
            left_out = len(items) - len(expected) - len(bad)
            said.append(
                f"{projection.name}: {len(items):,} items = {entries:,} + {left_out:,} left out + {len(bad):,} parked"
            )
            if entries + left_out + len(bad) != len(items) or counted < len(items):
                part.divergences.append(f"{said[-1]}, {counted:,} outcomes counted")
    return "; ".join(said)
