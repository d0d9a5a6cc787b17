"""Looking at single items: what follows from their states, what is there, and which differences are only in flight."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final, TypeAlias, TypeVar

from projections.audit import BEHIND_SECONDS
from projections.deadletters import DeadLetter, DeadLetters
from projections.differences import Difference, Known, leaves_soon
from projections.embed import Embed
from projections.entries import Rules, State, Wanted, wanted
from projections.errors import ItemError
from projections.fanout import Jobs
from projections.feed import Checkpoints
from projections.identity import Identity, Place
from projections.plan import Placement, placement_from, record_place
from projections.provision import Layout
from projections.references import HeaderState, Use, header_places
from projections.states import fresh, present
from projections.store import Document, Store
from projections.version import Version
from projections.writer import Places

RESTS: Final = (0.5, 1.5, 4.0)
"""Seconds between looks at what differs and is young: a writer at work on it is done by then."""
YOUNG_SECONDS: Final = 60.0
MOST_HEADERS: Final = 4_096
"""Kept for the items that follow, while sides are only compared."""

C = TypeVar("C")


@dataclass
class Seen:
    """What a look at something has come to."""

    known: Known
    differences: list[Difference] = field(default_factory=list)
    pending: bool = False  # the projection has not come to the item's last change yet


Look: TypeAlias = Callable[[Sequence[C]], Awaitable[dict[C, Seen]]]


class Inspector:
    """Looks at the items of one projection."""

    def __init__(
        self, store: Store, layout: Layout, rules: Rules, *, rests: Sequence[float] = RESTS,
        now: Callable[[], float] = time.time, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:  # fmt: skip
        self._store = store
        self._layout = layout
        self._rules = rules
        self._projection = rules.projection
        self._rests = rests
        self._now = now
        self._sleep = sleep
        self._letters = DeadLetters(store, layout.deadletters, rules.projection.full_name)
        self._headers: dict[Place, HeaderState | None] = {}
        self.places = Places(
            layout.source(self._projection), layout.target(self._projection), layout.state,
            layout.refs(self._projection),
        )  # fmt: skip

    # what is known

    async def states(self, identities: Sequence[Identity], *, again: bool = False) -> list[State]:
        """As the source has them now. `again`: a replica that lags is waited for before an item counts as gone."""
        if again:
            notices = [State(identity, Version(), None) for identity in identities]
            return await present(self._store, self.places.source, notices)
        return await fresh(self._store, self.places.source, identities)

    async def derived(self, states: Sequence[State], *, lately: bool = False) -> list[Known]:
        """What follows from states. `lately`: headers may be a little out of date."""
        headers = await self._read_headers(states, lately=lately)
        return [self._derive(state, headers) for state in states]

    def _derive(self, state: State, headers: Mapping[Place, HeaderState | None]) -> Known:
        own = {str(place.key.values[0]): headers.get(place) for place in self._header_places(state)}
        try:
            return Known(state, wanted(self._rules, state, self._now(), own))
        except ItemError as error:
            return Known(state, Wanted(), error)

    def _header_places(self, state: State) -> list[Place]:
        return header_places(self._projection, state.item) if isinstance(self._projection, Embed) else []

    async def _read_headers(self, states: Sequence[State], *, lately: bool) -> Mapping[Place, HeaderState | None]:
        places = dict.fromkeys(place for state in states for place in self._header_places(state))
        known = {place: self._headers[place] for place in places if place in self._headers} if lately else {}
        missing = [place for place in places if place not in known]
        found = await self._read(missing) if missing else {}
        for place in missing:
            known[place] = HeaderState.of(found[place], self._rules.reserved) if place in found else None
        if lately:  # those of the items before are the likeliest to be asked for next
            self._headers = dict(list({**self._headers, **known}.items())[-MOST_HEADERS:])
        return known

    async def complete(self, found: Sequence[Known]) -> None:
        """Read what there is: records, entries, dead letters."""
        await self._read_records(found)
        places = {place: known for known in found for place in (*known.wanted, *known.listed)}
        for place, document in (await self._read(places)).items():
            places[place].documents[place] = document
        for known in found:
            known.block(self._rules.reserved)
        suspects = {known.identity: known for known in found if known.error}
        for letter in await self.letters(list(suspects)):
            if letter.identity in suspects:
                suspects[letter.identity].letter = letter

    async def _read_records(self, found: Sequence[Known]) -> None:
        if self._projection.placement == "append_only" or not found:
            return
        places = {record_place(self._projection, known.identity): known for known in found}
        for place, document in (await self._store.read(self.places.state, places)).items():
            places[place].record = placement_from(document)

    async def _read(self, places: Iterable[Place]) -> dict[Place, Document]:
        """What is at these places, in whichever container they are."""
        found: dict[Place, Document] = {}
        for kind in ("target", "refs"):
            own = {place.plain: place for place in places if place.container == kind}
            if own:
                read = await self._store.read(self.places.of(next(iter(own.values()))), own)
                found |= {own[place]: document for place, document in read.items()}
        return found

    async def documents(self, places: Iterable[Place]) -> dict[Place, Document]:
        """What is at these places now."""
        return await self._read(list(places))

    async def letters(self, identities: Sequence[Identity]) -> list[DeadLetter]:
        """The dead letters of those items that have one."""
        return list((await self._letters.find(identities)).values())

    async def records(self, places: Iterable[Place]) -> dict[Place, Placement]:
        """The records at places of the state container, whosever they are."""
        found = await self._store.read(self.places.state, list(places))
        return {place: placement_from(document) for place, document in found.items()}

    # looking again

    async def settled(self, candidates: Sequence[C], look: Look[C]) -> dict[C, Seen]:
        """Those that still differ when whoever is at work on them has had the time to be done.

        A look comes after one at how far the projection is: what it had passed then should be seen.
        """
        seen = await self._looked(candidates, look)
        for rest in self._rests:
            young = [one for one, found in seen.items() if found.differences and self._is_young(found.known)]
            if not young:
                break
            await self._sleep(rest)
            seen |= await self._looked(young, look)
        return {one: found for one, found in seen.items() if found.differences}

    async def _looked(self, candidates: Sequence[C], look: Look[C]) -> dict[C, Seen]:
        passed = await self._passed()
        waiting = await self._waiting()
        seen = await look(candidates)
        for found in seen.values():
            known = found.known
            if leaves_soon(self._rules, known, self._now()):
                found.differences = []
            uses = {str(place.key.values[0]) for place in self._header_places(known.state)}
            found.pending = bool(uses & waiting) or (known.written is not None and known.written >= passed)
        return seen

    def _is_young(self, known: Known) -> bool:
        return known.newest > self._now() - YOUNG_SECONDS

    async def _passed(self) -> float:
        """The time (epoch seconds) of the first change that the projection may not have come to yet."""
        checkpoints = await Checkpoints(self._store, self._layout.state, self._projection.full_name).load([])
        if not checkpoints:  # the Functions host's positions are not known here
            return self._now() - BEHIND_SECONDS
        first = math.inf
        for checkpoint in checkpoints:
            pages = self._store.changes(self.places.source, checkpoint.feed_range, checkpoint.since(), 1)
            async with aclosing(pages):  # type: ignore[type-var]
                async for page in pages:
                    first = min([first, *(item["_ts"] for item in page.items)])
                    break
        return first

    async def _waiting(self) -> set[str]:
        """The headers of which the fan-out is on record."""
        if not isinstance(self._projection, Embed):
            return set()
        found = set()
        for part in self._projection.parts:
            for job in await Jobs(self._store, self._layout.state, part).pending():
                found.add(Use(part.reference, job.identity).text)
        return found
