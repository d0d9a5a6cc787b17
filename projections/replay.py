"""Replay: what is in the source is applied anew, through the same engine as live work, from positions of its own.

It may run at any time: its writes are guarded as all are, so that live work, another replay or an audit beside it do no
harm. Positions are stored after the work, so that a replay that was killed goes on where it was. It reads the latest
versions, whatever the mode of the source: state, not events.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from projections.deadletters import DeadLetters
from projections.definitions import Definitions, whole
from projections.entries import State
from projections.errors import UnsafeError
from projections.feed import Checkpoint, LostRangeError
from projections.identity import Identity
from projections.keys import Key, at, parse_path
from projections.metering import Cost, measured
from projections.outcomes import Result, Tally
from projections.provision import Layout
from projections.rehearsal import Rehearsal
from projections.resumption import From, Resumption, position
from projections.store import Store
from projections.version import Version
from projections.where import same
from projections.worker import Engine

PAGE_SIZE: Final = 500
LEAST: Final = 10
"""Items in a page, where a cap makes it small."""
PAGE_SECONDS: Final = 2.0
"""How long a page may take under a cap: states that are much older have to be read again (MAX_AGE)."""
ITEM_UNITS: Final = 15.0
"""Request units of an item that is written: reads, entry and placement record of 1 KB."""
COUNT: Final = "SELECT VALUE COUNT(1) FROM c"


@dataclass(frozen=True)
class Selection:
    """Which items are applied: all when nothing is said."""

    keys: tuple[Key, ...] = ()  # in these logical partitions of the source; a prefix of a hierarchical key will do
    where: tuple[tuple[str, Any], ...] = ()  # with these values at these paths
    parked: bool = False  # with dead letters

    def takes(self, item: Mapping[str, Any]) -> bool:
        return all(same(at(item, parse_path(path)), value) for path, value in self.where)

    def to_stored(self) -> dict[str, Any]:
        # stored; change with a version
        where = [[path, value] for path, value in self.where]
        return {"keys": [key.to_list() for key in self.keys], "where": where, "parked": self.parked}


EVERYTHING: Final = Selection()


@dataclass
class Report:
    """What a replay has come to."""

    applied: Tally = field(default_factory=Tally)  # since it began
    read: int = 0  # items, selected or not, since it was started last
    total: int | None = None  # items in the source, where all of them are read
    resumed: bool = False  # it went on where it had been cut off
    finished: bool = False
    cost: Cost = field(default_factory=Cost)  # since it was started last
    seconds: float = 0.0


class Replay:
    """One replay of a projection.

    `begin` counts where the whole feed is read, as it is unless `selection` names keys or what is parked. A rehearsal
    (see rehearsal.py; store and engine are on it) keeps no positions, and forgets each page before the next one.
    `request_units`: per second, that store and engine have been given; pages are so small that each is soon done.
    `on_progress` is called after every page, with its results.
    """

    def __init__(
        self, store: Store, layout: Layout, engine: Engine, *, begin: From = "beginning",
        selection: Selection = EVERYTHING, rehearsal: Rehearsal | None = None, page_size: int = PAGE_SIZE,
        request_units: float | None = None,
        on_progress: Callable[[Report, Sequence[Result]], None] = lambda *_: None, now: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        self._store = store
        self._layout = layout
        self._engine = engine
        self._source = layout.source(engine.projection)
        self._begin = begin
        self._selection = selection
        self._rehearsal = rehearsal
        self._page_size = page_size
        self._request_units = request_units
        self._on_progress = on_progress
        self._now = now
        self._resumption = Resumption(store, layout.state, engine.projection.full_name)
        self.report = Report()

    async def run(self, *, restart: bool = False, stop: Callable[[], bool] = lambda: False) -> Report:
        """Apply what is selected, or until `stop` says so; another run that asks for the same goes on from there.

        `restart`: forget an unfinished one that asked for something else.

        Raises:
            UnsafeError: one that asked for something else is unfinished, or another one is at work.
            AskError: it was to go on from the last one, and there is none.
            TransientError, FatalError: as the engine does; positions stay at work that is done.
        """
        started = time.monotonic()
        with measured() as self.report.cost:
            try:
                self.report.finished = await self._work(restart, stop)
            finally:
                self.report.seconds = time.monotonic() - started
        return self.report

    async def _work(self, restart: bool, stop: Callable[[], bool]) -> bool:
        """Whether it came to its end."""
        if self._selection.parked:
            return await self._each(self._letters(), self._engine.retry, stop)
        if self._selection.keys:
            return await self._each(self._partitions(), self._engine.apply_present, stop)
        return await self._feed(restart, stop)

    # some of it: pages one after the other, and no position

    async def _each(
        self, pages: AsyncIterator[list[Any]], apply: Callable[[list[Any]], Awaitable[list[Result]]],
        stop: Callable[[], bool],
    ) -> bool:  # fmt: skip
        async for page in pages:
            if stop():
                return False
            self._count(len(page), await apply(page) if page else [])
        return True

    async def _letters(self) -> AsyncIterator[list[Any]]:
        letters = DeadLetters(self._store, self._layout.deadletters, self._engine.projection.full_name)
        page: list[Any] = []
        async for letter in letters.all():
            page.append(letter)
            if len(page) == self._page_size:
                yield page
                page = []
        yield page

    async def _partitions(self) -> AsyncIterator[list[Any]]:
        source_key = self._engine.projection.source.key
        for key in self._selection.keys:
            async for page in self._store.query(self._source, "SELECT * FROM c", {}, key, page_size=self._page_size):
                chosen = [item for item in page if self._selection.takes(item)]
                yield [State(Identity.of(item, source_key), Version(), None) for item in chosen]

    # all of it: every range of the feed at once

    async def _feed(self, restart: bool, stop: Callable[[], bool]) -> bool:
        checkpoints = await self._checkpoints(restart)
        if self._request_units:
            at_once = self._request_units * PAGE_SECONDS / ITEM_UNITS / len(checkpoints)
            self._page_size = max(LEAST, min(self._page_size, int(at_once)))
        if self._begin == "beginning":
            pages = self._store.query(self._source, COUNT, {})
            self.report.total = sum([count async for page in pages for count in page])
        if self._rehearsal:
            return all([await self._range(checkpoint, stop) for checkpoint in checkpoints])
        ranges = [asyncio.create_task(self._range(checkpoint, stop)) for checkpoint in checkpoints]
        try:
            finished = all(await asyncio.gather(*ranges))
        except LostRangeError as error:
            raise UnsafeError("another replay of it is at work", hint="let that one finish") from error
        finally:
            for one in ranges:
                one.cancel()
            await asyncio.gather(*ranges, return_exceptions=True)
        if finished:
            await self._resumption.end(self._now())
            await self._settle()
        return finished

    async def _settle(self) -> None:
        """Where every item was applied, what was changed before is in line now. Parts are replayed before what they
        are parts of.
        """
        projection = self._engine.projection
        if self._begin == "beginning" and self._selection == EVERYTHING and whole(projection) is projection:
            await Definitions(self._store, self._layout).replayed(projection, self._resumption.began)

    async def _checkpoints(self, restart: bool) -> list[Checkpoint]:
        ranges = await self._store.feed_ranges(self._source)
        if self._rehearsal:
            return [Checkpoint(feed_range, position(self._begin)) for feed_range in ranges]
        selection = self._selection.to_stored()
        found = await self._resumption.begin(self._begin, selection, ranges, self._now(), restart=restart)
        self.report.resumed = self._resumption.resumed
        for checkpoint in found:
            self.report.applied.merge(checkpoint.tally)
        return found

    async def _range(self, checkpoint: Checkpoint, stop: Callable[[], bool]) -> bool:
        """Apply one range to its end; whether that was reached."""
        pages = self._store.changes(self._source, checkpoint.feed_range, checkpoint.since(), self._page_size)
        async for page in pages:
            if stop():
                return False
            chosen = [item for item in page.items if self._selection.takes(item)]
            results = await self._engine.apply_page(chosen, time.monotonic()) if chosen else []
            checkpoint.position = page.position
            checkpoint.tally.add(results)
            if not self._rehearsal:
                await self._resumption.save(checkpoint)
            self._count(len(page.items), results)
        return True

    def _count(self, read: int, results: Sequence[Result]) -> None:
        self.report.read += read
        self.report.applied.add(results)
        self._on_progress(self.report, results)
        if self._rehearsal:
            self._rehearsal.forget()
