"""The steps of the demo, told one after another, on an emulator that whoever calls has started."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from projections.batches import Write, write_all
from projections.demo.arrivals import Change, Watch, changes, summary
from projections.demo.rebuild import Comparison, compare
from projections.example import catalog
from projections.example.data import orders
from projections.identity import Place
from projections.keys import Key
from projections.lookup import Lookup
from projections.metering import Cost, measured
from projections.provision import Layout, initialise
from projections.settings import DEFAULT_DATABASE
from projections.status import Status, status
from projections.store import Document, Store, Upsert
from projections.worker import Progress, Worker

ORDERS: Final = 2_000
CHANGES: Final = 25
"""Orders that change in each way."""
WRITES: Final = 16
"""Writes under way at a time while loading."""


class Narrator(Protocol):
    """Whoever tells the story to people."""

    def say(self, text: str) -> None:
        """A paragraph."""

    def progress(self, label: str, done: int, total: int) -> None:
        """How far a step is; it ends with done == total."""

    def table(self, title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Results."""


@dataclass(frozen=True, kw_only=True)
class Ask:
    """One way to find an order by its number, and what it cost."""

    way: str
    cost: Cost
    found: int


@dataclass(kw_only=True)
class Story:
    """What the demo found out."""

    orders: int
    seconds: dict[str, float] = field(default_factory=dict)  # by step
    changes: list[Change] = field(default_factory=list)
    asks: list[Ask] = field(default_factory=list)
    statuses: list[Status] = field(default_factory=list)
    comparisons: dict[str, Comparison] = field(default_factory=dict)  # by projection

    @property
    def holds(self) -> bool:
        """Whether every target equals its rebuild and every change arrived."""
        return all(c.equal for c in self.comparisons.values()) and all(c.seconds is not None for c in self.changes)

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "holds": self.holds,
            "orders": self.orders,
            "seconds": {step: round(seconds, 2) for step, seconds in self.seconds.items()},
            "arrivals": summary(self.changes),
            "lookups": [
                {"way": a.way, "requestUnits": round(a.cost.request_units, 2), "calls": a.cost.calls, "found": a.found}
                for a in self.asks
            ],
            "projections": [
                {**one.to_json(), "equal": self.comparisons[one.projection].equal} for one in self.statuses
            ],
        }


async def demo(store: Store, narrator: Narrator, *, count: int = ORDERS, each: int = CHANGES) -> Story:
    """Tell the story from beginning to end on an empty account: `count` orders, `each` changes of every kind."""
    stage = _Stage(store, Layout(catalog, DEFAULT_DATABASE), narrator, Story(orders=count))
    items = list(orders(count))
    await stage.timed("init", stage.prepare())
    await stage.timed("load", stage.load(items))
    await stage.timed("backfill", stage.backfill())
    await stage.timed("live", stage.live(items, each))
    await stage.timed("lookup", stage.look_up(items[count // 2]["orderId"]))
    await stage.timed("check", stage.check())
    return stage.story


@dataclass
class _Stage:
    store: Store
    layout: Layout
    narrator: Narrator
    story: Story

    async def timed(self, step: str, act: Awaitable[None]) -> None:
        started = time.monotonic()
        await act
        self.story.seconds[step] = time.monotonic() - started

    async def prepare(self) -> None:
        self.narrator.say(
            "1. A shop keeps its orders by customer: the container `orders` is keyed /customerId. To find an order by "
            "its number, or all that are open, every partition has to be asked. Three projections are declared against "
            "that, in projections/example/catalog.py. Their containers are made in an emulator of Cosmos DB that runs "
            "inside this process."
        )
        await initialise(self.store, self.layout)

    async def load(self, items: Sequence[Document]) -> None:
        self.narrator.say(f"2. {len(items):,} made-up orders are loaded into `orders`.")
        source = self.layout.source(self.layout.catalog.projections[0])
        gate = asyncio.Semaphore(WRITES)
        for start in range(0, len(items), 500):
            part = items[start : start + 500]
            await write_all(self.store, source, [Write(Key.of(i["customerId"]), Upsert(i)) for i in part], gate)
            self.narrator.progress("loading", start + len(part), len(items))

    async def backfill(self) -> None:
        self.narrator.say(
            "3. The worker reads the change feed from its beginning and gives every order the entries it should own. "
            "A rebuild and a repair work the same way: same code, same feed."
        )
        total = self.story.orders * len(self.layout.catalog.projections)
        worker = Worker(self.store, self.layout, list(self.layout.catalog), on_progress=self._show(total))
        await worker.run(until_caught_up=True)
        self.narrator.progress("projecting", total, total)

    def _show(self, total: int) -> Callable[[Progress], None]:
        done: dict[str, int] = {}

        def show(progress: Progress) -> None:
            done[progress.projection.name] = progress.tally.total
            self.narrator.progress("projecting", min(sum(done.values()), total - 1), total)

        return show

    async def live(self, items: Sequence[Document], each: int) -> None:
        self.narrator.say(
            f"4. The worker stays on while {3 * each} orders change: some get a new total, some a new status, so that "
            "their entry has to move to another key, and some are deleted softly. Then the deleted ones come back."
        )
        worker = Worker(self.store, self.layout, list(self.layout.catalog))
        running = asyncio.create_task(worker.run())
        first, back = changes(items, each)
        watch = Watch(self.store, self.layout)
        try:
            await watch.follow(first)
            await watch.follow(back)
        finally:
            worker.stop()
            await running
        self.story.changes = [*first, *back]
        self.narrator.table(
            "Seconds from the write in the source until every projection shows it",
            ("change", "made", "arrived", "median", "slowest"),
            [list(kind.values()) for kind in summary(self.story.changes)],
        )

    async def look_up(self, number: str) -> None:
        self.narrator.say(
            f"5. Order {number} is looked for by its number: in the projection, which is one partition, and with the "
            "query on the source that it replaces. On an account, that query grows with every physical partition."
        )
        projection = self.layout.catalog["orders-by-id"]
        lookup = Lookup(self.store, self.layout, projection)
        source = self.layout.source(projection)

        async def in_source() -> int:
            query = self.store.query(source, "SELECT * FROM c WHERE c.orderId = @number", {"@number": number})
            return sum([len(page) async for page in query])

        async def in_projection() -> int:
            return len((await lookup.entries(number)).entries)

        [entry] = (await lookup.entries(number)).entries
        place = Place(entry["id"], Key.of(number))

        async def point_read() -> int:
            return len(await self.store.read(self.layout.target(projection), [place]))

        async def followed() -> int:
            return len((await lookup.entries(number, source=True)).items or ())

        await self._ask("query over all partitions of the source", in_source)
        await self._ask("lookup in orders-by-id", in_projection)
        await self._ask("the same, followed to the source item", followed)
        await self._ask("point read of that entry, by id and key", point_read)
        self.narrator.table(
            f"Finding order {number}",
            ("way", "request units", "calls", "found"),
            [(a.way, round(a.cost.request_units, 2), a.cost.calls, a.found) for a in self.story.asks],
        )

    async def _ask(self, way: str, ask: Callable[[], Awaitable[int]]) -> None:
        await ask()  # the first time, the SDK reads about the container: that is not what this compares
        with measured() as cost:
            found = await ask()
        self.story.asks.append(Ask(way=way, cost=cost, found=found))

    async def check(self) -> None:
        self.narrator.say(
            "6. Is it true? Every target is compared with what a rebuild from the present source would put there."
        )
        for projection in self.layout.catalog:
            self.story.comparisons[projection.name] = await compare(self.store, self.layout, projection)
            self.story.statuses.append(await status(self.store, self.layout, projection))
        self.narrator.table(
            "The projections now",
            ("projection", "entries", "lag s", "outcomes so far", "compared with a rebuild"),
            [self._row(one) for one in self.story.statuses],
        )

    def _row(self, one: Status) -> tuple[Any, ...]:
        comparison = self.story.comparisons[one.projection]
        outcomes = ", ".join(f"{name} {count:,}" for name, count in sorted(one.tally.outcomes.items()))
        verdict = (
            "equal"
            if comparison.equal
            else f"{len(comparison.missing)} missing, {len(comparison.different)} different, "
            f"{len(comparison.orphaned)} orphaned"
        )
        return (one.projection, one.entries, one.lag, outcomes, verdict)
