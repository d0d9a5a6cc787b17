"""The guarded write protocol (design 6), for many items at once.

Items go through the steps side by side, each step one bulk call or a few: read placements, read entries, decide,
confirm what is in doubt, write. An item whose condition failed starts again from a fresh state and remembers what it
has put, while the others are done. Within one item the steps are strictly serial.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from projections.batches import Result as Written
from projections.batches import Write, write_all
from projections.deadletters import DeadLetters, Failure
from projections.entries import Entry, Rules, State, Wanted, document, is_made_of, owner_of, wanted
from projections.errors import ConflictError, ItemError, TransientError
from projections.identity import Identity, Place
from projections.outcomes import Outcome, Result
from projections.plan import (
    Confirm,
    Decision,
    Facts,
    Nothing,
    Placement,
    Put,
    Rearrange,
    Remove,
    Rewrite,
    Stored,
    decide,
    placement_document,
    placement_from,
    record_place,
)
from projections.references import HeaderState
from projections.states import fresh
from projections.store import Container, Create, Delete, Document, Replace, Store
from projections.version import Version

MAX_AGE: Final = 5.0
"""Seconds for which a state may be written after it was read."""
TOMBSTONE_SECONDS: Final = 7 * 24 * 3600
"""How long a placement record outlives its entries: longer than any redelivery."""
LAG_SECONDS: Final = 0.1
"""How long a replica is given to catch up before what it says counts against what was seen elsewhere."""
MAX_UNSETTLED: Final = 10_000
"""Items remembered over failed calls; beyond that audit finds what was left."""
NOTHING_WANTED: Final = Wanted()
NO_STRAYS: Final[Mapping[Identity, Collection[Place]]] = {}
MAX_ROUNDS: Final = 30
"""Rounds before an item that others keep changing is left for a later call."""


class UnfinishedError(TransientError):
    """The store was busy for too long; applying the remaining items again is safe."""

    def __init__(self, cause: TransientError, done: list[Result], remaining: list[State]) -> None:
        super().__init__(cause.message, retry_after=cause.retry_after, hint=cause.hint)
        self.done = done
        self.remaining = remaining


@dataclass(frozen=True)
class Places:
    """Where a projection's things are."""

    source: Container
    target: Container
    state: Container
    refs: Container | None = None  # of an Embed

    def of(self, place: Place) -> Container:
        """The container that a place is in."""
        if place.container == "target":
            return self.target
        assert self.refs
        return self.refs


@dataclass(frozen=True)
class Left:
    """What an attempt that was cut off may have left: entries, a dead letter, and the look at the source it owes."""

    put: Collection[Place] = ()
    lettered: bool = False
    wrote: bool = False


NOTHING_LEFT: Final = Left()


@dataclass(eq=False)
class Attempt:
    """One item on its way. A new round keeps the state unless it starts `again`, and always what was put."""

    state: State
    read_at: float  # monotonic seconds
    put: set[Place] = field(default_factory=set)  # what was put, or may have been
    wrote: bool = False  # since the last post-check
    error: ItemError | None = None  # why the item is being parked
    lettered: bool = False  # a dead letter was written on the way
    retried: bool = False  # there is one from before
    known: bool = False  # ... of this very state, found by an audit
    overtaken: bool = False  # something newer than the state was there
    audit: bool = False  # look at the places that the item has left, too
    renew: bool = False  # write entries again: whoever is about to write what they should not be is refused then
    outcome: Outcome | None = None  # the last one that changed something
    finished: bool = False
    # of the present round
    want: Wanted = NOTHING_WANTED
    headers: dict[str, HeaderState | None] = field(default_factory=dict)  # of an Embed, by reference
    placement: Placement | None = None
    stored: dict[Place, Stored] = field(default_factory=dict)
    confirmed: bool = False
    failed: bool = False

    @property
    def identity(self) -> Identity:
        return self.state.identity

    def new_round(self) -> None:
        self.confirmed = self.failed = False

    def again(self, state: State, read_at: float) -> None:
        """Start again from a fresh state, remembering what was put."""
        self.state, self.read_at = state, read_at
        self.error, self.wrote = None, False

    def result(self) -> Result:
        if self.error:
            return Result(self.identity, Outcome.PARKED, type(self.error).__name__, self.want.notes, self.known)
        outcome = self.outcome or (
            Outcome.STALE if self.overtaken else Outcome.SKIPPED if self.want.skip else Outcome.UNCHANGED
        )
        return Result(self.identity, outcome, self.want.skip, self.want.notes)


class Writer:
    """Brings the target in step with the states of items.

    `now` gives epoch seconds, `monotonic` a steady clock. `concurrency` bounds the writes under way.
    """

    def __init__(
        self,
        store: Store,
        rules: Rules,
        places: Places,
        deadletters: DeadLetters,
        *,
        concurrency: int = 32,
        now: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._store = store
        self._rules = rules
        self._projection = rules.projection
        self._places = places
        self._deadletters = deadletters
        self._gate = asyncio.Semaphore(concurrency)
        self._now = now
        self._monotonic = monotonic
        self._sleep = sleep
        self._unsettled: dict[Identity, Left] = {}  # by items whose last call failed
        self.on_left: Callable[[list[Place]], Awaitable[None]] | None = None  # is told of places that have no entry now

    async def apply(
        self, states: Iterable[State], read_at: float | None = None, *, audit: bool = False, retried: bool = False,
        renew: bool = False, strays: Mapping[Identity, Collection[Place]] = NO_STRAYS,
    ) -> list[Result]:  # fmt: skip
        """Apply one state each of different items; what happened to each, in order.

        `read_at`: when the states were read (monotonic seconds); now when None. `audit`: also remove what dead
        workers may have left at places that the items were moved from within the last hour. `retried`: the items have
        dead letters, whatever their placement records say. `renew`: write entries again that are as they should be.
        `strays`: where else entries of the items were found.

        Raises:
            UnfinishedError: the store was busy for too long; it says which items are not done.
            FatalError: nothing can work until somebody mends the set-up.
        """
        read_at = self._monotonic() if read_at is None else read_at
        attempts = [Attempt(state, read_at, audit=audit, retried=retried, renew=renew) for state in states]
        for attempt in attempts:
            left = self._unsettled.pop(attempt.identity, NOTHING_LEFT)
            attempt.put, attempt.lettered = {*left.put, *strays.get(attempt.identity, ())}, left.lettered
            attempt.wrote = left.wrote or bool(left.put)  # it had started again, and what it put is of an older state
        try:
            await self._rounds(attempts)
        except TransientError as error:
            self._unsettled = dict(list(self._unsettled.items())[-MAX_UNSETTLED:])
            going = [attempt for attempt in attempts if not attempt.finished]
            self._unsettled |= {
                a.identity: Left(a.put, a.lettered, a.wrote) for a in going if a.put or a.lettered or a.wrote
            }
            done = [attempt.result() for attempt in attempts if attempt.finished]
            raise UnfinishedError(error, done, [a.state for a in going]) from error
        return [attempt.result() for attempt in attempts]

    def foresee(self, state: State) -> Result:
        """What the declaration would make of an item in this state."""
        attempt = Attempt(state, self._monotonic())
        self._want([attempt])
        if attempt.want.entries:
            attempt.outcome = Outcome.WRITTEN
        return attempt.result()

    async def _rounds(self, attempts: list[Attempt]) -> None:
        for number in range(MAX_ROUNDS):
            going = [attempt for attempt in attempts if not attempt.finished]
            if not going:
                return
            if number > 1:  # somebody else is at work on these: let them finish
                await self._sleep(min(1.0, 0.01 * 2**number) * random.random())
            await self._round(going)
        raise TransientError("items are being changed faster than they can be projected")

    async def _round(self, attempts: list[Attempt]) -> None:
        for attempt in attempts:
            attempt.new_round()
        await self._start_again([a for a in attempts if self._monotonic() - a.read_at > MAX_AGE])
        await self._read_inputs(attempts)
        self._want(attempts)
        await self._read_placements(attempts)
        await self._read_entries(attempts)
        decided = await self._decide(attempts)
        settled = {a for a, d in decided if isinstance(d, Nothing) and not a.error}
        if settled:  # first: a busy place of another item must not keep these from being done
            await self._finish(list(settled))
        decided = [(a, d) for a, d in decided if a not in settled]
        await self._park([attempt for attempt, _ in decided if attempt.error])
        await self._rewrite([(a, d) for a, d in decided if isinstance(d, Rewrite)])
        await self._rearrange([(a, d) for a, d in decided if isinstance(d, Rearrange)])
        await self._start_again([a for a, _ in decided if a.failed and not a.error])
        await self._finish([a for a, _ in decided if not a.failed])

    # what an item should own

    async def _read_inputs(self, attempts: list[Attempt]) -> None:
        """Read what entries are made from beside the item. Most kinds need nothing."""

    def _want(self, attempts: list[Attempt]) -> None:
        for attempt in attempts:
            attempt.want = NOTHING_WANTED
            if attempt.error is None:
                try:
                    attempt.want = wanted(self._rules, attempt.state, self._now(), attempt.headers)
                except ItemError as error:
                    attempt.error = error

    # what is there

    async def _read_placements(self, attempts: list[Attempt]) -> None:
        if self._projection.placement == "append_only":
            return
        places = {record_place(self._projection, attempt.identity): attempt for attempt in attempts}
        found = await self._store.read(self._places.state, places)
        for place, attempt in places.items():
            attempt.placement = placement_from(found[place]) if place in found else None
            if attempt.audit and attempt.placement:
                attempt.put |= {former for former, _ in attempt.placement.former}
                attempt.placement = _believable(attempt, attempt.placement)

    async def _read_entries(self, attempts: list[Attempt]) -> None:
        places: dict[Place, Attempt] = {}
        for attempt in attempts:
            listed = attempt.placement.entries if attempt.placement else ()
            places |= dict.fromkeys((*listed, *(e.place for e in attempt.want.entries), *attempt.put), attempt)
            attempt.stored = {}
        doubted = {entry.place: entry for attempt in attempts if attempt.audit for entry in attempt.want.entries}
        for place, stored in (await self._read(places)).items():
            mark = self._mark(stored)
            if mark is not None and places[place].audit:
                self._doubt_entry(places[place], place, stored, doubted.get(place))
            elif mark is not None:
                places[place].stored[place] = _stored(stored, mark)
            else:
                places[place].want = NOTHING_WANTED
                places[place].error = ItemError(
                    f"the target has a document {place.id} that is not the projection's",
                    hint="give the projection a target of its own",
                )

    def _doubt_entry(self, attempt: Attempt, place: Place, document: Document, entry: Entry | None) -> None:
        """An audit believes no mark: what is not as it should be is written again, and another item's is left alone."""
        stored = _stored(document, document[self._rules.reserved])
        if entry is not None:
            made = is_made_of(document, entry, attempt.identity, self._rules.reserved)
            attempt.stored[place] = stored if made else replace(stored, hash="")
        elif owner_of(document, self._rules.reserved) == attempt.identity:
            attempt.stored[place] = stored

    async def _read(self, places: Iterable[Place]) -> dict[Place, Document]:
        """What is at these places, in whichever container they are."""
        found: dict[Place, Document] = {}
        containers: dict[Container, dict[Place, Place]] = {}
        for place in places:
            containers.setdefault(self._places.of(place), {})[place.plain] = place
        for container, own in containers.items():
            read = await self._store.read(container, own)
            found |= {own[place]: document for place, document in read.items()}
        return found

    def _mark(self, stored: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """What an entry was made from; None for a document that is no entry."""
        mark = stored.get(self._rules.reserved)
        return mark if isinstance(mark, Mapping) and isinstance(mark.get("hash"), str) else None

    # what to do

    async def _decide(self, attempts: list[Attempt]) -> list[tuple[Attempt, Decision]]:
        """A decision each, for those whose state is not known to be outdated; the others have started again."""
        decisions = {attempt: self._decision(attempt) for attempt in attempts}
        doubtful = {a: d for a, d in decisions.items() if isinstance(d, Confirm)}
        for attempt in await self._confirm(doubtful):
            decisions[attempt] = self._decision(attempt)
        return [(a, d) for a, d in decisions.items() if not isinstance(d, Confirm)]

    def _decision(self, attempt: Attempt) -> Decision:
        facts = Facts(
            attempt.identity,
            attempt.state.version,
            attempt.want.entries,
            attempt.placement,
            attempt.stored,
            put=attempt.put,
            confirmed=attempt.confirmed,
            parking=attempt.error is not None,
            keeping=self._projection.parked == "keep",
            tracked=self._projection.placement == "tracked",
            strict=self._projection.strict,
            renewing=attempt.renew,
        )
        return decide(facts, self._now())

    async def _confirm(self, doubtful: Mapping[Attempt, Confirm]) -> list[Attempt]:
        """Ask the source, after all else was read: its answer is at least as new. Returns those it confirms."""
        if any(doubt.looks_older or attempt.state.gone for attempt, doubt in doubtful.items()):
            await self._sleep(LAG_SECONDS)
        confirmed = await self._still_present(list(doubtful))
        for attempt, doubt in doubtful.items():
            attempt.overtaken |= doubt.looks_older and attempt not in confirmed
        for attempt in confirmed:
            attempt.confirmed = True
        return confirmed

    async def _still_present(self, attempts: list[Attempt]) -> list[Attempt]:
        """Those whose state is still the source's present one; the others start again from what it has now."""
        if not attempts:
            return []
        read_at = self._monotonic()
        present = await fresh(self._store, self._places.source, [a.identity for a in attempts])
        same = []
        for attempt, state in zip(attempts, present, strict=True):
            if state.gone == attempt.state.gone and (state.gone or state.version.etag == attempt.state.version.etag):
                same.append(attempt)
            else:
                attempt.again(state, read_at)
        return same

    async def _start_again(self, attempts: list[Attempt]) -> None:
        if attempts:
            read_at = self._monotonic()
            states = await fresh(self._store, self._places.source, [a.identity for a in attempts])
            for attempt, state in zip(attempts, states, strict=True):
                attempt.again(state, read_at)

    # writing

    async def _park(self, attempts: list[Attempt]) -> None:
        """The dead letter comes before anything is marked or removed: the item is on record whatever happens next.

        An audit does not park again what is parked already in this state.
        """
        failures = {}
        for attempt in attempts:
            assert attempt.error
            record = attempt.placement
            known = record is not None and record.parked and record.version.etag == attempt.state.version.etag
            attempt.known = attempt.audit and known
            if not attempt.known:
                once = attempt.audit or attempt.lettered
                failures[attempt] = Failure(attempt.state, attempt.error, once=once)
        new = await self._deadletters.park(list(failures.values()))
        for attempt in failures:
            attempt.known = attempt.audit and attempt.identity not in new
            attempt.lettered = attempt.wrote = True

    async def _rewrite(self, decided: list[tuple[Attempt, Rewrite]]) -> None:
        await self._put([(attempt, put) for attempt, decision in decided for put in decision.puts])
        for attempt, _ in decided:
            attempt.outcome = Outcome.WRITTEN

    async def _rearrange(self, decided: list[tuple[Attempt, Rearrange]]) -> None:
        """Step 5, in this order: the record of every place, the entries, what has to go, the final record."""
        await self._place([(a, d.first, a.placement.etag if a.placement else None) for a, d in decided])
        decided = [(a, d) for a, d in decided if not a.failed]
        await self._put([(attempt, put) for attempt, decision in decided for put in decision.puts])
        await self._look_at_empty_places([(a, d) for a, d in decided if not a.failed])
        decided = [(a, d) for a, d in decided if not a.failed]
        removes = [(attempt, remove) for attempt, decision in decided for remove in decision.removes]
        await self._remove([(a, r) for a, r in removes if r.place.container == "target"])
        await self._remove([(a, r) for a, r in removes if r.place.container == "refs" and not a.failed])
        decided = [(a, d) for a, d in decided if not a.failed]
        await self._left([place for _, d in decided for place in _left_places(d)])
        await self._unpark([attempt for attempt, decision in decided if decision.unparks])
        await self._place([(a, d.last, a.placement.etag) for a, d in decided if d.last and a.placement])
        for attempt, decision in decided:
            attempt.outcome = _outcome(attempt, decision) or attempt.outcome

    async def _left(self, places: list[Place]) -> None:
        """Tell whoever rests on entries that these are gone, before the record forgets where they were."""
        if self.on_left and places:
            await self.on_left(places)

    async def _look_at_empty_places(self, decided: list[tuple[Attempt, Rearrange]]) -> None:
        """A place that is to be left and was found empty may have been filled before the record was written.

        From the record on, whoever fills it is refused there or checks the source afterwards; until then nobody was.
        """
        empty = {
            place: attempt
            for attempt, decision in decided
            if decision.last
            for place in decision.first.entries
            if place not in decision.last.entries and place not in attempt.stored
        }
        for place, stored in (await self._read(empty)).items():
            empty[place].failed |= self._mark(stored) is not None

    async def _remove(self, removes: list[tuple[Attempt, Remove]]) -> None:
        for attempt, _ in removes:
            attempt.wrote = True
        writes = [(attempt, Write(r.place.key, Delete(r.place.id, r.etag))) for attempt, r in removes]
        await self._write_kind(removes[0][1].place if removes else None, writes)

    async def _write_kind(self, place: Place | None, writes: list[tuple[Attempt, Write]]) -> None:
        """Write to the container of a place: back-references are written as they are, entries as their kind has it."""
        if place is None:
            return
        if place.container == "refs":
            await self._write(self._places.of(place), writes)
        else:
            await self._write_entries(writes)

    async def _put(self, puts: list[tuple[Attempt, Put]]) -> None:
        """Back-references first: an entry's copies are checked against the headers when all is written."""
        for container in ("refs", "target"):
            await self._put_into(
                [(a, put) for a, put in puts if put.entry.place.container == container and not a.failed]
            )

    async def _put_into(self, puts: list[tuple[Attempt, Put]]) -> None:
        writes = []
        for attempt, put in puts:
            attempt.put.add(put.entry.place)  # before it is sent: the answer may get lost
            attempt.wrote = True
            stored = document(put.entry, attempt.state, self._rules.reserved, self._now())
            operation = Replace(stored, put.etag) if put.etag else Create(stored)
            writes.append((attempt, Write(put.entry.place.key, operation)))
        await self._write_kind(puts[0][1].entry.place if puts else None, writes)

    async def _write_entries(self, writes: list[tuple[Attempt, Write]]) -> None:
        """Write to the target. Other kinds of projections have more to write along with an entry."""
        await self._write(self._places.target, writes)

    async def _place(self, records: list[tuple[Attempt, Placement, str | None]]) -> None:
        """Store placement records, each over the one that was read; the attempts then know the new ones."""
        writes = []
        for attempt, placement, etag in records:
            place = record_place(self._projection, attempt.identity)
            attempt.wrote = True  # what was decided on may be outdated, though no entry needed writing
            stored = placement_document(placement, str(place.key.values[0]), place.id, TOMBSTONE_SECONDS)
            writes.append((attempt, Write(place.key, Replace(stored, etag) if etag else Create(stored))))
        results = await self._write(self._places.state, writes)
        for (attempt, placement, _), etag in zip(records, results, strict=True):
            attempt.placement = replace(placement, etag=etag)

    async def _write(self, container: Container, writes: list[tuple[Attempt, Write]]) -> list[str | None]:
        """Carry out writes; an attempt of which one is refused has failed in this round."""
        results = await write_all(self._store, container, [write for _, write in writes], self._gate)
        return self._heed(writes, results)

    def _heed(self, writes: list[tuple[Attempt, Write]], results: Sequence[Written]) -> list[str | None]:
        """What became of writes; the etags of those that were not refused."""
        for (attempt, _), result in zip(writes, results, strict=True):
            if isinstance(result, ItemError):
                attempt.error, attempt.failed = result, True
            elif isinstance(result, ConflictError):
                attempt.failed = True
            elif isinstance(result, Exception):
                raise result
        return [result if isinstance(result, str) else None for result in results]

    # the end of a round

    async def _unpark(self, attempts: list[Attempt]) -> None:
        if attempts:
            await self._deadletters.clear([attempt.identity for attempt in attempts])

    async def _finish(self, attempts: list[Attempt]) -> None:
        """Step 7: whoever wrote looks whether the source has moved on meanwhile. Then its dead letter has had its time.

        Letters are read before the source is: one that is found is of no newer state than what the source then has.
        """
        letters = await self._deadletters.find([a.identity for a in attempts if self._may_have_letter(a)])
        checked = [a for a in attempts if (a.wrote and self._projection.strict) or a.identity in letters]
        unchecked = [a for a in attempts if a not in checked]
        finished = unchecked + await self._still_present(checked)
        await self._deadletters.remove([letters[a.identity] for a in finished if a.identity in letters])
        for attempt in finished:
            attempt.finished = True

    def _may_have_letter(self, attempt: Attempt) -> bool:
        """Where no placement record says so: one that this call or a dead worker wrote, or anyone without records."""
        unknown = self._projection.placement == "append_only" or attempt.audit or attempt.retried
        return attempt.error is None and (attempt.lettered or unknown)


def _stored(document: Document, mark: Mapping[str, Any]) -> Stored:
    inputs = {text: Version.from_stored(version) for text, version in mark.get("inputs", {}).items()}
    return Stored(Version.from_stored(mark), mark["hash"], document["_etag"], document=document, inputs=inputs)


def _believable(attempt: Attempt, placement: Placement) -> Placement:
    """A record that says it is another item's is written anew; what it lists may be this one's all the same."""
    if placement.identity == attempt.identity:
        return placement
    attempt.put |= set(placement.entries)
    return Placement(attempt.identity, placement.version, etag=placement.etag)


def _left_places(decision: Rearrange) -> list[Place]:
    """The places in the target that have no entry any more once the last record is written."""
    staying = decision.last.entries if decision.last else decision.first.entries
    return [place for place in decision.first.entries if place not in staying and place.container == "target"]


def _outcome(attempt: Attempt, decision: Rearrange) -> Outcome | None:
    if decision.removes:
        return Outcome.MOVED if attempt.want.entries else Outcome.REMOVED
    return Outcome.WRITTEN if decision.puts else None
