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
from projections.errors import ProjectionsError
from projections.example import catalog
from projections.feed import Checkpoints
from projections.keys import Key
from projections.patience import PatientStore
from projections.provision import Layout
from projections.settings import Settings
from projections.store import Store, Upsert
from tests.converged import assert_converged, documents, rebuild
from tests.processes import EmulatorProcess, kill_after, run, start
from tests.prove.report import Part

ORDERS = 5_000
EMULATOR_DIES_EVERY = 40


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


class Writers(threading.Thread):
    """Somebody who changes orders all the time, until so many changes have been made."""

    def __init__(self, emulator: EmulatorProcess, changes: int, seconds: float, seed: int) -> None:
        super().__init__(daemon=True)
        self._emulator = emulator
        self._chance = random.Random(seed)
        self.left = changes
        self._pace = changes / seconds
        self.hurry = threading.Event()
        self.failed: BaseException | None = None

    def run(self) -> None:
        try:
            asyncio.run(self._write())
        except BaseException as error:
            self.failed = error

    async def _write(self) -> None:
        began, made = time.monotonic(), 0
        while self.left > 0:
            try:
                async with connect(Settings(self._emulator.url, self._emulator.connection_string)) as opened:
                    store: Store = PatientStore(opened, 10)
                    while self.left > 0:
                        due = self.left if self.hurry.is_set() else int((time.monotonic() - began) * self._pace) - made
                        batch = min(self.left, due, 16)
                        if batch < 1:
                            await asyncio.sleep(0.05)
                            continue
                        await asyncio.gather(*(self._change(store) for _ in range(batch)))
                        made += batch
                        self.left -= batch
            except ProjectionsError:
                await asyncio.sleep(0.2)  # the emulator is away

    async def _change(self, store: Store) -> None:
        item = order(self._chance, self._chance.randrange(ORDERS))
        await store.write(
            Layout(catalog, "shop").source(catalog.projections[0]), Key.of(item["customerId"]), [Upsert(item)]
        )


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
    writers = Writers(emulator, changes, kills * 2.2, chance.randrange(2**32))
    writers.start()
    restarts = 0
    while part.runs < kills:
        worker = start(["run"], emulator.connection_string)
        if part.runs % EMULATOR_DIES_EVERY == EMULATOR_DIES_EVERY - 1:
            time.sleep(chance.uniform(0.5, 1.5))
            emulator.kill()
            emulator.start()
            restarts += 1
        if kill_after(worker, chance.uniform(0.9, 2.6)):
            part.runs += 1
            advance(kills, f"{writers.left:,} changes to come")
    writers.hurry.set()
    writers.join()
    if writers.failed:
        raise writers.failed
    run(["run", "--until-caught-up"], emulator.connection_string, timeout=1800)
    said = asyncio.run(_check(part, emulator))
    part.measured = f"{changes:,} changes of {ORDERS:,} orders, emulator killed {restarts} times; {said}"


async def _check(part: Part, emulator: EmulatorProcess) -> str:
    layout, said = Layout(catalog, "shop"), []
    async with connect(Settings(emulator.url, emulator.connection_string)) as store:
        try:
            await assert_converged(store, layout)
        except AssertionError as error:
            part.divergences.append(str(error))
        for projection in catalog:
            items = await documents(store, layout.source(projection))
            expected, bad = rebuild(layout, projection, items)
            entries = len(await documents(store, layout.target(projection)))
            ranges = await store.feed_ranges(layout.source(projection))
            stored = await Checkpoints(store, layout.state, projection.full_name).load(ranges)
            counted = sum(checkpoint.tally.total for checkpoint in stored)
            left_out = len(items) - len(expected) - len(bad)
            said.append(
                f"{projection.name}: {len(items):,} items = {entries:,} + {left_out:,} left out + {len(bad):,} parked"
            )
            if entries + left_out + len(bad) != len(items) or counted < len(items):
                part.divergences.append(f"{said[-1]}, {counted:,} outcomes counted")
    return "; ".join(said)
