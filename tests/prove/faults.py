"""A million changes through an engine while a tenth of all calls fails: it converges, and memory stays flat."""

from __future__ import annotations

import logging
import multiprocessing
import os
import random
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from projections.declare import Catalog, Index, SoftDelete, Source
from projections.errors import ThrottledError, TransientError
from projections.identity import Place
from projections.keys import Key
from projections.memory import MemoryStore
from projections.outcomes import Outcome, Tally
from projections.patience import PatientStore
from projections.provision import Layout, initialise
from projections.store import Container, Document, Operation, Upsert
from projections.where import field
from projections.worker import Engine
from projections.writer import UnfinishedError
from tests.converged import assert_converged
from tests.prove.report import Part
from tests.simulation.adversity import run

ITEMS, PARTITIONS, PAGE = 20_000, 40, 500
FAILING = 0.1
GROWTH = 1.15
"""How much larger the process may be at the end than at the tenth part, when every item has been seen."""
CATALOG = Catalog(
    projections=(
        Index(
            name="p",
            source=Source(container="items", key="/s"),
            key="/k",
            where=field("/v") < 9,
            deletes=SoftDelete("/deleted"),
        ),
    )
)


class Shallow(MemoryStore):
    """Copies no more than it must, since nobody here changes what is read."""

    async def read(self, container: Container, places: Collection[Place]) -> dict[Place, Document]:
        data = await self._call("read", container)
        return {place: dict(found) for place in places if (found := self._live(data, place)) is not None}


class Failing:
    """A store of which a tenth of all calls fails, half of these after their effect."""

    def __init__(self, store: MemoryStore, chance: random.Random) -> None:
        self._store = store
        self._chance = chance
        self.calls = self.failed = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def _fails(self) -> int:
        self.calls += 1
        fails = self._chance.random() < FAILING
        self.failed += fails
        return fails and self._chance.choice((1, 2))

    def _fail(self) -> None:
        raise self._chance.choice((TransientError, ThrottledError))()

    async def read(self, container: Container, places: Any) -> dict[Place, Document]:
        if self._fails():
            self._fail()
        return await self._store.read(container, places)

    async def write(self, container: Container, key: Key, operations: Sequence[Operation]) -> list[str | None]:
        when = self._fails()
        if when == 1:
            self._fail()
        etags = await self._store.write(container, key, operations)
        if when == 2:
            self._fail()
        return etags


def resident() -> float:
    """Megabytes of this process in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def item(chance: random.Random, number: int) -> Document:
    values: Document = {"id": str(number // PARTITIONS), "s": f"s{number % PARTITIONS}", "v": chance.randrange(10)}
    values["k"] = f"k{chance.randrange(4)}" if chance.random() > 0.005 else {}
    if chance.random() < 0.05:
        values["deleted"] = True
    return values


async def changes(seed: int, number: int, advance: Any) -> tuple[str, list[str]]:
    """Make changes and apply them page by page; what was measured, and what is wrong."""
    chance, layout = random.Random(seed), Layout(CATALOG, "db")
    memory = Shallow()
    await initialise(memory, layout)
    failing = Failing(memory, chance)
    store: Any = PatientStore(failing, 30)  # type: ignore[arg-type]
    [projection] = CATALOG.projections
    engine = await Engine.open(store, layout, projection)
    source, tally = layout.source(projection), Tally()
    sizes: dict[int, float] = {}
    applied, again = 0, 0
    while applied < number:
        page = [item(chance, n) for n in chance.sample(range(ITEMS), min(PAGE, number - applied))]
        fed = await _feed(memory, source, page, applied)
        while True:
            try:
                tally.add(await engine.apply_page(fed, time.monotonic()))
                break
            except UnfinishedError:
                again += 1
        applied += len(page)
        for percent in (10, 50, 100):
            if applied * 100 >= number * percent and percent not in sizes:
                sizes[percent] = resident()
        advance(number, f"{resident():.0f} MB", len(page))
    wrong = []
    try:
        await assert_converged(memory, layout)
    except AssertionError as error:
        wrong.append(str(error))
    if tally.total != number:
        wrong.append(f"{tally.total} outcomes of {number} changes")
    if number >= 10 * ITEMS and sizes[100] > sizes[10] * GROWTH:
        wrong.append(f"memory grew: {sizes}")
    shown = ", ".join(f"{size:.0f} MB at {percent} %" for percent, size in sizes.items())
    outcomes = ", ".join(f"{tally.outcomes[outcome]:,} {outcome}" for outcome in Outcome if tally.outcomes[outcome])
    return f"{failing.failed:,} of {failing.calls:,} calls failed, {again} pages again; {outcomes}; {shown}", wrong


async def _feed(memory: MemoryStore, source: Container, page: list[Document], before: int) -> list[Document]:
    """Write to the source; the changes as the feed gives them."""
    for document in page:
        await memory.write(source, Key.of(document["s"]), [Upsert(document)])
    places = [Place(document["id"], Key.of(document["s"])) for document in page]
    found = await memory.read(source, places)
    return [found[place] | {"_lsn": before + n} for n, place in enumerate(places, 1)]


def _in_a_process(seed: int, number: int, told: Any) -> None:
    logging.getLogger("projections").addHandler(logging.NullHandler())  # what is parked is counted
    began = time.perf_counter()
    measured, wrong = run(changes(seed, number, lambda *what: told.put(what)))
    told.put((measured, wrong, time.perf_counter() - began))


def prove(advance: Any, *, seed: int, number: int) -> Iterator[Part]:
    """In a process of its own, whose memory nothing else uses."""
    part = Part("changes with faults", number)
    context = multiprocessing.get_context("spawn")
    told: Any = context.Queue()
    process = context.Process(target=_in_a_process, args=(seed, number, told), daemon=True)
    process.start()
    while not isinstance((what := told.get())[0], str):
        advance(what[0], what[1], by=what[2])
    process.join()
    part.measured, part.divergences, part.seconds = what
    yield part
