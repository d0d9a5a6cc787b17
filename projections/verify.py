"""Verify: is everything there that follows from the source, and nothing else; and repair of exactly what is not.

First both sides are compared as sums (sums.py), which costs one reading of each. Only where these differ items are
looked at one by one: what follows from their present states is compared, place by place, with what there is. What
differs then is looked at again, since somebody may be at work on it, and what the projection has not come to yet is
pending and no fault.

Repair applies the present states of the items that differ, with the writes and guards of live work, and then looks
again. Nothing is removed on account of a reading: whatever loses an entry is asked for by itself first.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Final

from projections.aggregate import Aggregate
from projections.audit import audit_name
from projections.balancing import Groups
from projections.books import Books, group_bucket, is_book
from projections.comparing import Comparison, state_of
from projections.declare import Projection
from projections.differences import Difference, Fault, name
from projections.embed import Header
from projections.entries import Rules
from projections.errors import AskError, ConflictError, UnsafeError
from projections.feed import Checkpoints, LostRangeError
from projections.finding import Finder, Finding
from projections.identity import Identity, Place
from projections.inspection import RESTS, Inspector
from projections.keys import Key
from projections.metering import Cost, measured
from projections.pace import PacedStore
from projections.provision import Layout
from projections.repair import Repair
from projections.sides import PAGE_SIZE, Part, Piece, Side, Sides
from projections.store import Create, Delete, Document, Replace, Start, Store, Upsert, WriteError
from projections.sums import bucket_of, bucket_of_place
from projections.verification import LAST_ID, RUN_ID, Phase, Report, Run, Scope
from projections.worker import Engine, open_fan_out

SAVE_SECONDS: Final = 60.0
"""Between two times that it is stored how far a run is."""
AT_ONCE: Final = 250
"""Items that are looked at together."""
EXAMPLES: Final = 10
"""Of each class."""
MOST_HELD: Final = 2_000
"""Of what cannot be told before all has been seen, or is told with something else: kept in memory, and stored."""


class BusyError(LostRangeError):
    """Another verify of this projection is at work."""


class Verify:
    """Verifies one projection, and repairs it where asked to.

    `examples`: how many differences of each class are kept. `empty_source`: repair even if the source has nothing.
    """

    def __init__(
        self, store: Store, layout: Layout, engine: Engine, *, scope: Scope | None = None, repair: bool = False,
        examples: int = EXAMPLES, empty_source: bool = False, page_size: int = PAGE_SIZE,
        rests: Sequence[float] = RESTS, save_seconds: float = SAVE_SECONDS, now: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        on_progress: Callable[[Run], None] | None = None,
    ) -> None:  # fmt: skip
        projection = engine.projection
        self._store = store
        self._layout = layout
        self._projection = projection
        self._rules = Rules(projection, layout.catalog.reserved, engine.source_ttl)
        self._scope = scope or Scope()
        self._repairing = repair
        self._examples = examples
        self._empty_source = empty_source
        self._save_seconds = save_seconds
        self._now = now
        self._on_progress = on_progress or (lambda _: None)
        self._sides = Sides(store, layout, projection, page_size=page_size, now=now)
        inspector = Inspector(store, layout, self._rules, rests=rests, now=now, sleep=sleep)
        self._inspector = inspector
        self._finder = Finder(self._sides, inspector, self._rules, now=now)
        self._repair = Repair(store, layout, engine, self._finder, inspector)
        self._groups = (
            Groups(store, layout, self._rules, self._sides, inspector) if isinstance(projection, Aggregate) else None
        )
        self._key = Key.of(projection.full_name)
        self._waiting: list[Document] = []  # to be looked at together
        self._saved_at = time.monotonic()
        self._cost_saved = Cost()

    @staticmethod
    async def open(
        store: Store, layout: Layout, projection: Projection, *, request_units: float | None = None, **options: object
    ) -> Verify:
        """A verify of a projection whose containers are as they should be, within so many request units per second.

        Raises:
            MissingContainerError, UnsafeError: they are not.
        """
        paced = PacedStore.below(store, request_units=request_units)
        engine = await Engine.open(paced, layout, projection)
        return Verify(paced, layout, engine, **options)  # type: ignore[arg-type]

    async def run(self, *, stop: Callable[[], bool] = lambda: False, restart: bool = False) -> Report:
        """Go on with the run that is stored, if it is of the same kind, or begin one; to its end or until `stop`.

        Raises:
            UnsafeError: repair would take the source's emptiness for granted.
            BusyError: another verify is at work on the projection.
            TransientError, FatalError: a side could not be read; nothing is concluded from that.
        """
        with measured() as self._cost:
            self._cost_saved, self._began = Cost(), time.monotonic()
            self._run = await self._begin(restart)
            if self._repairing and not self._empty_source:
                await self._refuse_empty_source()
            while self._run.phase is not Phase.DONE:
                if not await self._through(stop):
                    return self._report()
                await self._end_of_phase(stop)
            await self._end()
        return self._report()

    # beginning and end

    async def _begin(self, restart: bool) -> Run:
        place = Place(RUN_ID, self._key)
        stored = (await self._store.read(self._layout.state, [place])).get(place)
        options = f"{self._scope}{', repair' if self._repairing else ''}"
        if stored is not None and stored["options"] == options and not restart:
            run = Run.from_stored(stored, self._projection, self._rules.reserved)
            if self._groups:
                self._groups.begin(run.unbalanced)
            return run
        run = Run(options, await self._pieces(), Report(self._projection.name, str(self._scope)), int(self._now()))
        run.etag = stored["_etag"] if stored else None
        if not self._scope.whole:
            run.phase = Phase.FIND
        elif isinstance(self._projection, Aggregate):
            run.books = Books(self._projection, self._rules.reserved)
        return run

    async def _pieces(self) -> list[Piece]:
        if self._scope.sample is not None:
            return await self._sides.sample(self._scope.sample)
        if self._scope.feed_range:
            return await self._sides.within(self._scope.feed_range)
        return await self._since_audit() if self._scope.since_audit else await self._sides.all()

    async def _since_audit(self) -> list[Piece]:
        found = await Checkpoints(self._store, self._layout.state, audit_name(self._projection)).load([])
        if not found:
            raise AskError(
                "no audit has run yet, and there is nothing to begin after", projection=self._projection.name,
                hint="leave --since out: then everything is verified",
            )  # fmt: skip
        return [Piece(Side.SOURCE, one.feed_range, since=one.position) for one in found]

    async def _refuse_empty_source(self) -> None:
        """A source that was created anew, restored empty or misspelled is not a reason to remove everything."""
        source = self._sides.container(Side.SOURCE)
        for feed_range in await self._store.feed_ranges(source):
            async with aclosing(self._store.changes(source, feed_range, Start(), 1)) as pages:  # type: ignore[type-var]
                async for page in pages:
                    if page.items:
                        return
                    break
        raise UnsafeError(
            f"source {source} is empty, and repair would remove every entry", projection=self._projection.name,
            hint="is it the right container? If everything was deleted on purpose, add --empty-source",
        )  # fmt: skip

    async def _end(self) -> None:
        """What has been found stays on record; how far the run was does not."""
        report = self._report()
        # stored; change with a version
        last = {"id": LAST_ID, "pk": self._key.values[0], "at": int(self._now()), **report.to_json()}
        await self._store.write(self._layout.state, self._key, [Upsert(last)])
        if self._run.etag:
            await self._write(Delete(RUN_ID, self._run.etag))

    def _report(self) -> Report:
        report, new = self._run.report, self._cost - self._cost_saved
        self._cost_saved = Cost(self._cost.calls, self._cost.request_units)
        report.calls += new.calls
        report.request_units += new.request_units
        report.seconds += time.monotonic() - self._began
        self._began = time.monotonic()
        report.complete = self._run.phase is Phase.DONE
        return report

    # phases

    async def _end_of_phase(self, stop: Callable[[], bool]) -> None:
        run = self._run
        if run.phase is Phase.COMPARE:
            run.chosen = bytes(run.sums.differing())
            run.groups = bytes(run.books.differing()) if run.books else run.groups
            differs = any(run.chosen) or (run.books is not None and any(run.groups))
            await self._go_on(Phase.FIND if differs else Phase.DONE)
        elif run.phase is Phase.FIND:
            await self._tell_last()
            wrong = bool(run.report.differences) and self._repairing
            balances = self._groups is not None and not self._scope.since_audit
            await self._go_on(Phase.DONE if not wrong else Phase.BALANCE if balances else Phase.REPAIR)
        elif run.phase is Phase.BALANCE:
            await self._go_on(Phase.REPAIR)
        elif run.phase is Phase.REPAIR:
            await self._tell_last()
            if isinstance(self._projection, Header):  # a header that was repaired
                await (await open_fan_out(self._store, self._layout, self._projection)).run(stop)
            await self._go_on(Phase.CHECK)
        else:
            await self._tell_last()
            run.report.repaired = run.report.differences - run.report.left
            run.phase = Phase.DONE

    async def _go_on(self, phase: Phase) -> None:
        run = self._run
        run.phase, run.number, run.position = phase, 0, None
        run.held, run.moved = {}, {}
        if phase in (Phase.REPAIR, Phase.CHECK):
            run.chosen = bytes(run.faulty)
        if self._groups:
            self._groups.begin()
        if phase is not Phase.DONE:
            await self._save()

    async def _through(self, stop: Callable[[], bool]) -> bool:
        """Go through the pieces of a phase; False where it was stopped."""
        run = self._run
        while run.number < len(run.pieces):
            piece = run.pieces[run.number]
            if run.phase is not Phase.BALANCE or piece.side is Side.TARGET:
                async with aclosing(self._sides.read(piece, run.position)) as parts:  # type: ignore[type-var]
                    async for part in parts:
                        await self._read(piece.side, part)
                        if part.position is not None and await self._rested(stop, piece.side, part.position):
                            return False
            await self._look(piece.side)
            run.number, run.position = run.number + 1, None
            self._on_progress(run)
        return True

    async def _rested(self, stop: Callable[[], bool], side: Side, position: str) -> bool:
        """Store how far the run is, when it is time to; whether to stop there."""
        stopped = stop()
        if stopped or time.monotonic() - self._saved_at >= self._save_seconds:
            await self._look(side)
            self._run.position = position
            await self._save()
        return stopped

    async def _read(self, side: Side, part: Part) -> None:
        run = self._run
        if run.phase is Phase.COMPARE:
            comparison = Comparison(self._sides, self._inspector, self._rules, run.sums, run.books)
            await comparison.add(side, part.documents)
        elif self._groups and side is Side.TARGET:
            await self._look_at_groups(self._groups, part.documents)
        if run.phase not in (Phase.COMPARE, Phase.BALANCE):
            self._waiting += [document for document in part.documents if self._is_chosen(side, document)]
        if run.phase is Phase.COMPARE or (run.phase is Phase.FIND and not self._scope.whole):
            run.report.examined += len(part.documents) if side is Side.SOURCE else 0
            run.report.entries += len(part.documents) if side is Side.TARGET else 0
        if len(self._waiting) >= AT_ONCE:
            await self._look(side)
        self._on_progress(run)

    def _is_chosen(self, side: Side, document: Document) -> bool:
        """Whether it is in a bucket that has to be looked at."""
        if side is Side.TARGET and self._groups and is_book(document["id"]):
            return False
        if side is Side.SOURCE:
            owner: Identity | None = Identity.of(document, self._projection.source.key)
        elif side in (Side.RECORDS, Side.LETTERS):
            owner = Identity.from_stored(document["source"])
        else:
            owner = self._finder.owner(document)
        bucket = bucket_of(owner) if owner else bucket_of_place(self._sides.place(side, document))
        return bool(self._run.chosen[bucket])

    # looking

    async def _look(self, side: Side) -> None:
        """Look at what is waiting to be looked at, all of it."""
        waiting, self._waiting = self._waiting, []
        for begin in range(0, len(waiting), AT_ONCE):
            documents = waiting[begin : begin + AT_ONCE]
            self._run.report.looked_at += len(documents)
            await self._heed(await self._found(side, documents))

    async def _found(self, side: Side, documents: Sequence[Document]) -> list[Finding]:
        match side:
            case Side.SOURCE:
                states = [state_of(document, self._rules) for document in documents]
                return await self._finder.items(states, self._run.moved)
            case Side.RECORDS:
                return await self._finder.records(documents)
            case Side.LETTERS:
                return await self._finder.letters(documents)
        return await self._finder.entries(side, documents)

    async def _heed(self, findings: Sequence[Finding]) -> None:
        """Tell of what was found, or repair it. What is doubtful is kept until all has been seen."""
        certain = []
        for one in findings:
            held = one.doubtful and len(self._run.held) < MOST_HELD
            if held and one.difference.place:
                self._run.held[_where(one.difference)] = one.difference
            else:
                certain.append(one)
        for one in certain:
            self._run.held.pop(_where(one.difference), None)
        if self._run.phase is Phase.REPAIR:
            results = await self._repair.apply([one for one in certain if not one.pending])
            self._run.report.outcomes.add(results)
            return
        for one in certain:
            self._tell(one)

    def _tell(self, one: Finding) -> None:
        run, difference = self._run, one.difference
        if one.origin and len(run.moved) < MOST_HELD:
            run.moved[name(one.origin)] = True
        if run.phase is Phase.CHECK:
            run.report.left[difference.fault.value] += 1
        elif one.pending:
            run.report.pending += 1
        else:
            run.report.note(difference, self._examples)
            if difference.identity:
                run.faulty[bucket_of(difference.identity)] = 1
            elif difference.place:
                run.faulty[bucket_of_place(difference.place)] = 1

    async def _tell_last(self) -> None:
        """What could not be told before: totals that are wrong by themselves, and what is nobody's after all."""
        if self._groups and self._run.phase is not Phase.REPAIR:
            for difference in await self._groups.wrong(self._run.pieces):
                self._tell(Finding(difference))
            self._run.report.pending += self._groups.unknown
        held, self._run.held = list(self._run.held.values()), {}
        for begin in range(0, len(held), AT_ONCE):
            await self._heed(await self._finder.doubtful(held[begin : begin + AT_ONCE]))

    async def _look_at_groups(self, groups: Groups, documents: Sequence[Document]) -> None:
        chosen = [document for document in documents if self._run.groups[group_bucket(groups.key(document))]]
        if self._run.phase is Phase.BALANCE:
            await groups.balance(chosen)
        elif self._run.phase is not Phase.REPAIR:
            for difference in await groups.look(chosen):
                self._tell(Finding(difference))

    # storing

    async def _save(self) -> None:
        """Store how far the run is."""
        self._report()
        run = self._run
        run.saves += 1
        run.unbalanced = self._groups.unbalanced if self._groups else []
        document = run.to_stored(str(self._key.values[0]))
        run.etag = await self._write(Replace(document, run.etag) if run.etag else Create(document))
        self._saved_at = time.monotonic()

    async def _write(self, operation: Create | Replace | Delete) -> str | None:
        try:
            [etag] = await self._store.write(self._layout.state, self._key, [operation])
        except WriteError as error:
            if not isinstance(error.cause, ConflictError):
                raise
            place = Place(RUN_ID, self._key)
            there = (await self._store.read(self._layout.state, [place])).get(place)
            own = there is not None and (there["began"], there["saves"]) == (self._run.began, self._run.saves)
            if there is not None and own:  # only the answer was lost
                return str(there["_etag"])
            if there is None and isinstance(operation, Delete):
                return None
            raise BusyError(
                "another verify is at work on it", projection=self._projection.name,
                hint="let that one end; what it was stored to have done is gone on with",
            ) from error  # fmt: skip
        return etag


def _where(difference: Difference) -> str:
    """What a difference is at: a place, or the item's record."""
    side = "records" if difference.fault is Fault.PLACEMENT else ""
    place = difference.place
    return f"{side}|{name(place)}" if place else ""
