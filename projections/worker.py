"""The pull worker: every feed range of every projection, side by side; positions stored after the work."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from projections.aggregate import Aggregate
from projections.alarm import Alarm
from projections.changes import state_of
from projections.deadletters import DeadLetter, DeadLetters
from projections.declare import Projection
from projections.definitions import Definitions
from projections.embed import Embed, Header
from projections.embedding import EmbedWriter, HeaderWriter, InPlaceWriter
from projections.entries import Rules, State
from projections.errors import AlarmError, FatalError, TransientError, UnsafeError
from projections.fanout import FanOut, Jobs
from projections.feed import Checkpoint, Checkpoints, LostRangeError
from projections.handover import Reading
from projections.identity import Identity, Place
from projections.notices import Resolved, Resolver
from projections.outcomes import Outcome, Result, Tally
from projections.pace import PacedStore
from projections.provision import Layout, check
from projections.states import fresh, present
from projections.store import Document, Page, Store
from projections.sweep import Sweep
from projections.totaling import AggregateWriter
from projections.version import Version
from projections.writer import Places, Writer

log = logging.getLogger("projections")

PAGE_SIZE: Final = 500
"""Changes in a page: enough for the bulk calls to pay, few enough for memory."""
FAN_OUT_SECONDS: Final = 5.0
"""Between two looks at what fan-outs other workers may have left."""
SWEEP_SECONDS: Final = 30.0
"""Between two looks for what has expired and is still in totals."""
POLL_SECONDS: Final = (0.05, 0.5)
"""Between two reads of an idle range: at first, and after it has been idle for a while."""


class Engine:
    """One projection at work: from changes to entries. The pull worker and the Functions trigger share it."""

    def __init__(
        self, store: Store, layout: Layout, projection: Projection, source_ttl: int | None,
        request_units: float | None = None,
    ) -> None:  # fmt: skip
        store = PacedStore.below(store, request_units=request_units or projection.ru_per_second)
        self.projection = projection
        self.source_ttl = source_ttl
        self.deadletters = DeadLetters(
            store, layout.deadletters, projection.full_name, payload=projection.deadletter_payload
        )
        self.alarm = Alarm(store, layout.state, projection)
        self._store = store
        self._source = layout.source(projection)
        marked = layout.refs(projection) if projection.fills_source else None  # where documents tell of their items
        self._resolver = Resolver(
            store, self._source, marked or layout.target(projection), projection.source.key, layout.catalog.reserved
        )
        self._writer = _writer(projection)(
            store,
            Rules(projection, layout.catalog.reserved, source_ttl),
            Places(self._source, layout.target(projection), layout.state, layout.refs(projection)),
            self.deadletters,
        )
        self._sweep: Sweep | None = None
        if isinstance(projection, Aggregate | Header) and projection.ttl == "mirror" and source_ttl is not None:
            reference = projection.reference if isinstance(projection, Header) else None
            self._sweep = Sweep(
                store, layout.target(projection), layout.catalog.reserved, self.apply_present, reference=reference
            )
        self.jobs: Jobs | None = None
        if isinstance(self._writer, HeaderWriter) and isinstance(projection, Header):
            self.jobs = self._writer.jobs = Jobs(store, layout.state, projection)
        self._rests_on_it = {
            part.full_name: Jobs(store, layout.state, part)
            for part in layout.catalog.parts
            if isinstance(part, Header) and projection in part.upstream
        }
        if self._rests_on_it:
            self._writer.on_left = self._left

    @staticmethod
    async def open(store: Store, layout: Layout, projection: Projection, *, dry_run: bool = False) -> Engine:
        """An engine for a projection whose containers are as they should be, and which is declared as it is deployed.

        Raises:
            MissingContainerError, UnsafeError: they are not.
        """
        engine = Engine(store, layout, projection, await check(store, layout, projection))
        definitions = Definitions(store, layout)
        await (definitions.check if dry_run else definitions.settle)(projection)
        await engine.alarm.load()
        return engine

    async def _left(self, places: list[Place]) -> None:
        """Entries have gone, of which others have copies: their feed does not tell (design 11)."""
        for jobs in self._rests_on_it.values():
            await jobs.begin([Identity(place.key, place.id) for place in places])

    def share(self, jobs: Mapping[str, Jobs]) -> None:
        """Let those that wait for fan-outs in this process know of the ones that this projection begins."""
        self._rests_on_it = {name: jobs.get(name, own) for name, own in self._rests_on_it.items()}

    def fan_out(self, store: Store, layout: Layout, entries: Engine) -> FanOut:
        """What carries out the fan-outs of a reference. `entries`: the engine of the Embed that has it.

        It has a writer of its own, so that what it may use of request units is its own affair.
        """
        header = self.projection
        assert isinstance(header, Header)
        assert self.jobs
        writing = Engine(store, layout, header.embed, entries.source_ttl, header.embed.fan_out_ru_per_second)
        paced = PacedStore.below(store, request_units=header.embed.fan_out_ru_per_second)
        refs, reserved = layout.target(header), layout.catalog.reserved
        return FanOut(paced, refs, header, self.jobs, reserved, self.apply_present, writing.renew)

    @property
    def sweeps(self) -> bool:
        """Whether what expires in the source has to be looked for."""
        return self._sweep is not None

    async def sweep(self, stop: Callable[[], bool] = lambda: False) -> list[Result]:
        """Take what has expired out of totals. What other kinds keep expires by itself."""
        return await self._sweep.run(stop=stop) if self._sweep else []

    async def apply_page(self, items: Sequence[Document], read_at: float) -> list[Result]:
        """Apply a page of the feed, as read at this moment (monotonic seconds).

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

    async def repair(self, strays: Mapping[Identity, Collection[Place]]) -> list[Result]:
        """Apply the present states of items that were found wrong, given where entries of theirs should not be."""
        notices = [State(identity, Version(), None) for identity in strays]
        read_at = time.monotonic()
        states = await present(self._store, self._source, notices)
        results = await self._writer.apply(states, read_at, audit=True, strays=strays)
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

    async def renew(self, notices: Sequence[State]) -> list[Result]:
        """As `apply_present`, and entries are written again though they are as they should be.

        Whoever has read them before, and is about to write what was right then, is refused: of a fan-out that dies
        after such a write nobody would know, once another one has found its entries right and ended the job.
        """
        read_at = time.monotonic()
        return await self._apply(await present(self._store, self._source, notices), read_at, renew=True)

    def _state(self, change: Mapping[str, Any]) -> State:
        return state_of(change, self.projection.source.key)

    async def _apply(
        self, states: list[State], read_at: float, *, audit: bool = False, renew: bool = False
    ) -> list[Result]:
        results = await self._writer.apply(states, read_at, audit=audit, renew=renew)
        for result in results:
            if result.outcome is Outcome.PARKED:
                log.warning(
                    "parked",
                    extra={"projection": self.projection.label, "item": str(result.identity), "reason": result.reason},
                )
        await self.alarm.heed(results, time.time())
        return results


async def open_fan_out(store: Store, layout: Layout, header: Header) -> FanOut:
    """What carries out the fan-outs of a reference.

    Raises:
        MissingContainerError, UnsafeError: the containers are not as they should be.
    """
    entries = await Engine.open(store, layout, header.embed)
    return (await Engine.open(store, layout, header)).fan_out(store, layout, entries)


def _writer(projection: Projection) -> type[Writer]:
    """The kind of writer that a kind of projection needs."""
    if projection.fills_source:
        return InPlaceWriter
    kinds: dict[type[Projection], type[Writer]] = {Aggregate: AggregateWriter, Embed: EmbedWriter, Header: HeaderWriter}
    return kinds.get(type(projection), Writer)


@dataclass
class Progress:
    """What a running projection has done since it started, for whoever shows it."""

    projection: Projection
    tally: Tally
    caught_up: bool = False
    reached: asyncio.Event = field(default_factory=asyncio.Event, repr=False)  # the end of its feed, once


class Worker:
    """Runs projections from their checkpoints on."""

    def __init__(
        self, store: Store, layout: Layout, projections: Sequence[Projection], *, page_size: int = PAGE_SIZE,
        poll_seconds: tuple[float, float] = POLL_SECONDS, on_progress: Callable[[Progress], None] | None = None,
    ) -> None:  # fmt: skip
        self._store = store
        self._layout = layout
        self._projections = list({part.full_name: part for one in projections for part in (*one.parts, one)}.values())
        self._page_size = page_size
        self._poll = poll_seconds
        self._on_progress = on_progress or (lambda _: None)
        self._stopping = asyncio.Event()
        self._fan_outs: dict[str, list[FanOut]] = {}  # by the Embed
        self.alarms: dict[str, AlarmError] = {}  # of projections that have stopped; the others go on
        self.progress = {projection.label: Progress(projection, Tally()) for projection in self._projections}

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
        by_name = {engine.projection.full_name: engine for engine in engines}
        for engine in engines:
            engine.share({name: one.jobs for name, one in by_name.items() if one.jobs})
            if isinstance(engine.projection, Header):
                embed = engine.projection.embed.full_name
                fan_out = engine.fan_out(self._store, self._layout, by_name[embed])
                self._fan_outs.setdefault(embed, []).append(fan_out)
        readers = [reader for engine in engines for reader in await self._readers(engine, until_caught_up)]
        try:
            await (self._catch_up if until_caught_up else self._go_on)(engines, readers)
        finally:
            self.stop()
        for alarm in self.alarms.values():
            raise alarm

    async def _go_on(self, engines: Sequence[Engine], readers: Sequence[_RangeReader]) -> None:
        reading = [asyncio.create_task(reader.run()) for reader in readers]
        for task in reading:  # the rest of the work goes on for as long as anybody reads
            task.add_done_callback(lambda _: self.stop() if all(one.done() for one in reading) else None)
        beside = [asyncio.create_task(self._fan_out(fan_out)) for fan_out in self._every_fan_out()]
        beside += [asyncio.create_task(self._sweep_again(engine)) for engine in engines if engine.sweeps]
        await self._together([*reading, *beside])

    async def _catch_up(self, engines: Sequence[Engine], readers: Sequence[_RangeReader]) -> None:
        """Read to the ends; where some write what others read, in as many rounds as it takes, at most one each."""
        for _ in self._projections:
            before = self._handled()
            await self._together([asyncio.create_task(reader.run()) for reader in readers])
            for engine in engines:
                await self._sweep_once(engine)
            for fan_out in self._every_fan_out():
                await fan_out.run(self._stopping.is_set)
            chained = any(projection.upstream or projection.fills_source for projection in self._projections)
            if self._stopping.is_set() or not chained or self._handled() == before:
                return

    async def _together(self, tasks: Sequence[asyncio.Task[None]]) -> None:
        """Until all are done; whoever fails takes the others along, each at the end of its page."""
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
        finally:
            if not all(task.done() for task in tasks):
                self.stop()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _every_fan_out(self) -> list[FanOut]:
        return [fan_out for of_one in self._fan_outs.values() for fan_out in of_one]

    def _handled(self) -> int:
        return sum(progress.tally.total for progress in self.progress.values())

    async def _fan_out(self, fan_out: FanOut) -> None:
        """Carry out fan-outs as they come up, this worker's and those that a dead one has left."""
        while not self._stopping.is_set():
            try:
                await fan_out.run(self._stopping.is_set)
            except TransientError as error:
                log.warning("waiting", extra={"projection": fan_out.name, "reason": error.message})
            await fan_out.due(self._stopping, FAN_OUT_SECONDS)

    async def _sweep_again(self, engine: Engine) -> None:
        """Take what has expired out of totals, now and then."""
        while not self._stopping.is_set():
            try:
                await self._sweep_once(engine)
            except (TransientError, AlarmError) as error:
                log.warning("waiting", extra={"projection": engine.projection.label, "reason": error.message})
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), SWEEP_SECONDS)

    async def _sweep_once(self, engine: Engine) -> None:
        results = await engine.sweep(self._stopping.is_set)
        if results:
            progress = self.progress[engine.projection.label]
            progress.tally.add(results)
            self._on_progress(progress)

    async def _readers(self, engine: Engine, until_caught_up: bool) -> list[_RangeReader]:
        checkpoints = Checkpoints(self._store, self._layout.state, engine.projection.full_name)
        ranges = await self._store.feed_ranges(self._layout.source(engine.projection))
        loaded = await checkpoints.load(ranges)
        await checkpoints.begin(loaded)
        waiting = {str(checkpoint.feed_range) for checkpoint in loaded}

        progress = self.progress[engine.projection.label]
        known = (self.progress.get(one.label) for one in (*engine.projection.parts, *engine.projection.upstream))
        rests_on = [progress for progress in known if progress is not None]

        async def fan_out_first() -> None:
            """Those of new headers, to which nothing refers yet: later each would look at all its entries."""
            async with fan_out_lock:
                for fan_out in self._fan_outs.get(engine.projection.full_name, ()):
                    with suppress(TransientError):  # the rest has its turn in any case
                        await fan_out.run(self._stopping.is_set)

        fan_out_lock = asyncio.Lock()

        def report(feed_range: str, results: list[Result], caught_up: bool) -> None:
            progress.tally.add(results)
            (waiting.discard if caught_up else waiting.add)(feed_range)
            progress.caught_up = not waiting
            if progress.caught_up:
                progress.reached.set()
            self._on_progress(progress)

        return [
            _RangeReader(engine, checkpoints, self._reading(engine, checkpoints, checkpoint), self._page_size,
                         self._poll, self._stopping, until_caught_up, report, self.alarms, rests_on, fan_out_first)
            for checkpoint in loaded
        ]  # fmt: skip

    def _reading(self, engine: Engine, checkpoints: Checkpoints, checkpoint: Checkpoint) -> Reading:
        source = self._layout.source(engine.projection)
        all_versions = engine.projection.source.all_versions
        return Reading(self._store, source, checkpoints, checkpoint, all_versions=all_versions)


@dataclass
class _RangeReader:
    """One feed range of one projection."""

    engine: Engine
    checkpoints: Checkpoints
    reading: Reading
    page_size: int
    poll: tuple[float, float]
    stopping: asyncio.Event
    until_caught_up: bool
    report: Callable[[str, list[Result], bool], None]
    alarms: dict[str, AlarmError]
    rests_on: list[Progress]
    fan_out_first: Callable[[], Awaitable[None]]

    @property
    def checkpoint(self) -> Checkpoint:
        return self.reading.checkpoint

    async def run(self) -> None:
        await self._wait_for_headers()
        pause = self.poll[0]
        while not self.stopping.is_set() and self.engine.projection.label not in self.alarms:
            try:
                found = await self._read_to_end()
            except TransientError as error:
                log.warning("waiting", extra={**self._context(), "reason": error.message})
                pause = self.poll[1]
                await self._rest(max(pause, error.retry_after))
                continue
            except AlarmError as error:
                if self.alarms.setdefault(self.engine.projection.label, error) is error:
                    log.error("stopped by its alarm", extra={**self._context(), "reason": error.message})
                return
            except (FatalError, UnsafeError) as error:
                error.projection = error.projection or self.engine.projection.label
                raise
            if self.until_caught_up and not self.stopping.is_set():
                return
            pause = self.poll[0] if found else min(self.poll[1], pause * 1.5)
            await self._rest(pause)

    async def _wait_for_headers(self) -> None:
        """What a projection rests on goes first: entries that are made with their copies need no fan-out."""
        if self.checkpoint.position is not None:
            return
        reached = [asyncio.ensure_future(progress.reached.wait()) for progress in self.rests_on]
        stopped = asyncio.ensure_future(self.stopping.wait())
        while reached and not stopped.done() and not all(one.done() for one in reached):
            if any(progress.projection.label in self.alarms for progress in self.rests_on):
                break
            await asyncio.wait([stopped, *reached], timeout=1.0, return_when=asyncio.FIRST_COMPLETED)
        for one in (*reached, stopped):
            one.cancel()
        await self.fan_out_first()

    async def _read_to_end(self) -> bool:
        """Apply what there is, page by page; whether there was anything."""
        found = False
        async with aclosing(self.reading.pages(self.page_size)) as pages:
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
        return {"projection": self.engine.projection.label, "range": str(self.checkpoint.feed_range)}
