"""The pull worker: every feed range of every projection, side by side; positions stored after the work."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from projections.alarm import Alarm
from projections.deadletters import DeadLetter, DeadLetters
from projections.declare import Projection
from projections.entries import Rules, State
from projections.errors import AlarmError, FatalError, TransientError, UnsafeError
from projections.feed import Checkpoint, Checkpoints, LostRangeError
from projections.identity import Identity
from projections.notices import Resolved, Resolver
from projections.outcomes import Outcome, Result, Tally
from projections.pace import PacedStore
from projections.provision import Layout, check
from projections.states import fresh, present
from projections.store import Document, Page, Store
from projections.version import Version
from projections.writer import Places, Writer

log = logging.getLogger("projections")

PAGE_SIZE: Final = 500
"""Changes in a page: enough for the bulk calls to pay, few enough for memory."""
POLL_SECONDS: Final = (0.05, 0.5)
"""Between two reads of an idle range: at first, and after it has been idle for a while."""


class Engine:
    """One projection at work: from changes to entries. The pull worker and the Functions trigger share it."""

    def __init__(self, store: Store, layout: Layout, projection: Projection, source_ttl: int | None) -> None:
        store = PacedStore.below(store, request_units=projection.ru_per_second)
        self.projection = projection
        self.deadletters = DeadLetters(
            store, layout.deadletters, projection.full_name, payload=projection.deadletter_payload
        )
        self.alarm = Alarm(store, layout.state, projection)
        self._store = store
        self._source = layout.source(projection)
        self._resolver = Resolver(
            store, self._source, layout.target(projection), projection.source.key, layout.catalog.reserved
        )
        self._writer = Writer(
            store,
            Rules(projection, layout.catalog.reserved, source_ttl),
            Places(self._source, layout.target(projection), layout.state),
            self.deadletters,
        )

    @staticmethod
    async def open(store: Store, layout: Layout, projection: Projection) -> Engine:
        """An engine for a projection whose containers are as they should be.

        Raises:
            MissingContainerError, UnsafeError: they are not.
        """
        engine = Engine(store, layout, projection, await check(store, layout, projection))
        await engine.alarm.load()
        return engine

    async def apply_page(self, items: Sequence[Document], read_at: float) -> list[Result]:
        """Apply a page of the latest-version feed, as read at this moment (monotonic seconds).

        The feed gives an item's states in order (facts.md 13), so the last one of each is the newest.
        """
        states = {state.identity: state for state in map(self._state, items)}
        return await self._apply(list(states.values()), read_at)

    async def audit_page(self, items: Sequence[Document]) -> list[Result]:
        """Apply the present states of the items of a page that was dealt with before, looking wider than live work."""
        identities = list(dict.fromkeys(state.identity for state in map(self._state, items)))
        read_at = time.monotonic()
        states = await fresh(self._store, self._source, identities)
        results = await self._writer.apply(states, read_at, audit=True)
        await self.alarm.heed(results, time.time())
        return results

    async def retry(self, letters: Sequence[DeadLetter]) -> list[Result]:
        """Apply the present states of items that are parked; those that still cannot be projected stay so.

        No alarm is raised by it; one that was raised ends when an item has an entry again.
        """
        read_at = time.monotonic()
        results = await self._writer.apply(await self._parked(letters), read_at, retried=True)
        await self.alarm.heed([result for result in results if result.outcome is not Outcome.PARKED], time.time())
        return results

    async def foresee(self, letters: Sequence[DeadLetter]) -> list[Result]:
        """What a retry would come to as far as the declaration has a say. Nothing is written."""
        return [self._writer.foresee(state) for state in await self._parked(letters)]

    async def _parked(self, letters: Sequence[DeadLetter]) -> list[State]:
        notices = [State(letter.identity, Version.from_stored(letter.version), None) for letter in letters]
        return await present(self._store, self._source, notices)

    async def resolve(self, notices: Sequence[State]) -> Resolved:
        """The true identities of the items of which notices tell; each notice's item has its `_rid`."""
        return await self._resolver.resolve(notices)

    async def apply_present(self, notices: Sequence[State], *, audit: bool = False) -> list[Result]:
        """Apply the present states of items of which the true identities are known, and perhaps versions.

        `audit`: look wider than live work, since an earlier attempt may have been cut off.
        """
        read_at = time.monotonic()
        return await self._apply(await present(self._store, self._source, notices), read_at, audit=audit)

    def _state(self, item: Mapping[str, Any]) -> State:
        return State(Identity.of(item, self.projection.source.key), Version.of(item, from_feed=True), item)

    async def _apply(self, states: list[State], read_at: float, *, audit: bool = False) -> list[Result]:
        results = await self._writer.apply(states, read_at, audit=audit)
        for result in results:
            if result.outcome is Outcome.PARKED:
                log.warning(
                    "parked",
                    extra={"projection": self.projection.name, "item": str(result.identity), "reason": result.reason},
                )
        await self.alarm.heed(results, time.time())
        return results


@dataclass
class Progress:
    """What a running projection has done since it started, for whoever shows it."""

    projection: Projection
    tally: Tally
    caught_up: bool = False


class Worker:
    """Runs projections from their checkpoints on."""

    def __init__(
        self, store: Store, layout: Layout, projections: Sequence[Projection], *, page_size: int = PAGE_SIZE,
        poll_seconds: tuple[float, float] = POLL_SECONDS, on_progress: Callable[[Progress], None] | None = None,
    ) -> None:  # fmt: skip
        self._store = store
        self._layout = layout
        self._projections = projections
        self._page_size = page_size
        self._poll = poll_seconds
        self._on_progress = on_progress or (lambda _: None)
        self._stopping = asyncio.Event()
        self.alarms: dict[str, AlarmError] = {}  # of projections that have stopped; the others go on
        self.progress = {projection.name: Progress(projection, Tally()) for projection in projections}

    def stop(self) -> None:
        """Finish the pages under way, store their positions, and return from `run`."""
        self._stopping.set()

    async def run(self, *, until_caught_up: bool = False) -> None:
        """Run until stopped, or until every range has been read to its end.

        Raises:
            UnsafeError, FatalError: the set-up does not allow it; every position stays at work that is done.
            AlarmError: a projection stopped, for a catalog that is likely to be wrong, and the others are done.
        """
        engines = [await Engine.open(self._store, self._layout, projection) for projection in self._projections]
        readers = [reader for engine in engines for reader in await self._readers(engine, until_caught_up)]
        tasks = [asyncio.create_task(reader.run()) for reader in readers]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
        finally:
            self.stop()  # whoever fails takes the others along, each at the end of its page
            await asyncio.gather(*tasks, return_exceptions=True)
        for alarm in self.alarms.values():
            raise alarm

    async def _readers(self, engine: Engine, until_caught_up: bool) -> list[_RangeReader]:
        checkpoints = Checkpoints(self._store, self._layout.state, engine.projection.full_name)
        ranges = await self._store.feed_ranges(self._layout.source(engine.projection))
        loaded = await checkpoints.load(ranges)
        await checkpoints.begin(loaded)
        waiting = {str(checkpoint.feed_range) for checkpoint in loaded}

        def report(feed_range: str, results: list[Result], caught_up: bool) -> None:
            progress = self.progress[engine.projection.name]
            progress.tally.add(results)
            (waiting.discard if caught_up else waiting.add)(feed_range)
            progress.caught_up = not waiting
            self._on_progress(progress)

        return [
            _RangeReader(self._store, self._layout, engine, checkpoints, checkpoint, self._page_size, self._poll,
                         self._stopping, until_caught_up, report, self.alarms)
            for checkpoint in loaded
        ]  # fmt: skip


@dataclass
class _RangeReader:
    """One feed range of one projection."""

    store: Store
    layout: Layout
    engine: Engine
    checkpoints: Checkpoints
    checkpoint: Checkpoint
    page_size: int
    poll: tuple[float, float]
    stopping: asyncio.Event
    until_caught_up: bool
    report: Callable[[str, list[Result], bool], None]
    alarms: dict[str, AlarmError]

    async def run(self) -> None:
        pause = self.poll[0]
        while not self.stopping.is_set() and self.engine.projection.name not in self.alarms:
            try:
                found = await self._read_to_end()
            except TransientError as error:
                log.warning("waiting", extra={**self._context(), "reason": error.message})
                pause = self.poll[1]
                await self._rest(max(pause, error.retry_after))
                continue
            except AlarmError as error:
                if self.alarms.setdefault(self.engine.projection.name, error) is error:
                    log.error("stopped by its alarm", extra={**self._context(), "reason": error.message})
                return
            except (FatalError, UnsafeError) as error:
                error.projection = error.projection or self.engine.projection.name
                raise
            if self.until_caught_up and not self.stopping.is_set():
                return
            pause = self.poll[0] if found else min(self.poll[1], pause * 1.5)
            await self._rest(pause)

    async def _read_to_end(self) -> bool:
        """Apply what there is, page by page; whether there was anything."""
        source = self.layout.source(self.engine.projection)
        found = False
        pages = self.store.changes(source, self.checkpoint.feed_range, self.checkpoint.since(), self.page_size)
        async for page in pages:
            await self._apply(page)
            found = found or bool(page.items)
            if self.stopping.is_set():
                return found
        return found

    async def _apply(self, page: Page) -> None:
        results = await self.engine.apply_page(page.items, time.monotonic()) if page.items else []
        moved = page.position != self.checkpoint.position
        first_end = not page.items and self.checkpoint.caught_up is None
        self.checkpoint.position = page.position
        self.checkpoint.tally.add(results)
        if not page.items:
            self.checkpoint.caught_up = int(time.time())
        if results or first_end or (moved and page.items):
            await self._save()
        self.report(str(self.checkpoint.feed_range), results, not page.items)

    async def _save(self) -> None:
        try:
            await self.checkpoints.save(self.checkpoint)
        except LostRangeError as error:
            error.hint = "run each projection in one place; this one stops here and the other goes on"
            raise

    async def _rest(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self.stopping.wait(), seconds)
        except TimeoutError:
            return

    def _context(self) -> dict[str, str]:
        return {"projection": self.engine.projection.name, "range": str(self.checkpoint.feed_range)}
