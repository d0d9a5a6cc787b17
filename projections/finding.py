"""What differs, found by looking at items and entries one by one, and told only when it has settled."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

from projections.deadletters import DeadLetter
from projections.differences import (
    Difference,
    Fault,
    Known,
    foreign,
    is_foreign,
    is_own,
    of_entry,
    of_item,
    of_letter,
    of_record,
    origin,
)
from projections.entries import Rules, State, owner_of
from projections.identity import Identity, Place
from projections.inspection import Inspector, Seen
from projections.plan import Placement, placement_from, record_place
from projections.sides import Side, Sides
from projections.store import Document

NOBODYS: Final = "a record where none is read"


@dataclass(frozen=True)
class Finding:
    """A difference, and what there is to know for telling and repairing it."""

    difference: Difference
    pending: bool = False
    stray: Place | None = None  # where an entry is that should not be
    origin: Place | None = None  # the place that is empty since it is there
    doubtful: bool = False  # it may be another item's, which then tells it better


@dataclass(frozen=True)
class _Entry:
    """An entry that was found, of the item that it says."""

    place: Place
    owner: Identity


class Finder:
    """Looks at what is on the sides of one projection."""

    def __init__(
        self, sides: Sides, inspector: Inspector, rules: Rules, *, now: Callable[[], float] = time.time
    ) -> None:
        self._sides = sides
        self._inspector = inspector
        self._rules = rules
        self._now = now

    # the source

    async def items(self, states: Sequence[State], moved: Collection[str]) -> list[Finding]:
        """Items as they were read, their records and dead letters."""

        async def look(identities: Sequence[Identity]) -> dict[Identity, Seen]:
            present = await self._inspector.states(identities, again=True)
            known = await self._known([state for state in present if not state.gone])
            return {one.identity: Seen(one, list(of_item(self._rules, one, moved))) for one in known}

        known = await self._known(states)
        suspects = [one.identity for one in known if any(of_item(self._rules, one, moved))]
        seen = await self._inspector.settled(suspects, look) if suspects else {}
        return [Finding(difference, one.pending) for one in seen.values() for difference in one.differences]

    async def _known(self, states: Sequence[State]) -> list[Known]:
        known = await self._inspector.derived(states)
        await self._inspector.complete(known)
        return known

    # the target, and back-references

    async def entries(self, side: Side, documents: Sequence[Document]) -> list[Finding]:
        """Entries that are where nothing should be."""
        found = [self._entry(side, document) for document in documents]
        strange = [Finding(foreign(one), doubtful=True) for one in found if isinstance(one, Place)]
        entries = [one for one in found if isinstance(one, _Entry)]
        seen = await self.strays(entries) if entries else []
        return strange + seen

    def _entry(self, side: Side, document: Document) -> _Entry | Place:
        """The entry, or just the place of what is none."""
        place, owner = self._sides.place(side, document), self.owner(document)
        return place if owner is None else _Entry(place, owner)

    def owner(self, document: Document) -> Identity | None:
        """The item that an entry says it is of; None where it is no entry, or says what no item can be."""
        owner = owner_of(document, self._rules.reserved)
        levels = len(self._rules.projection.source.key.paths)
        possible = owner is not None and len(owner.key.values) == levels and owner.id != ""
        return owner if possible and not is_foreign(document, self._rules.reserved) else None

    async def strays(self, entries: Sequence[_Entry]) -> list[Finding]:
        """Those of these entries that should not be where they are."""
        owners = list(dict.fromkeys(entry.owner for entry in entries))
        known = {one.identity: one for one in await self._inspector.derived(await self._inspector.states(owners))}
        suspects = [one for one in entries if known[one.owner].state.gone or one.place not in known[one.owner].wanted]
        seen = await self._inspector.settled(suspects, self._look_at_entries) if suspects else {}
        return [self._stray(entry, one) for entry, one in seen.items()]

    def _stray(self, entry: _Entry, seen: Seen) -> Finding:
        [difference] = seen.differences
        wanted = entry.place in seen.known.wanted
        return Finding(
            difference, seen.pending, None if wanted else entry.place, origin(seen.known, entry.place),
            doubtful=not is_own(seen.known, entry.place),
        )  # fmt: skip

    async def _look_at_entries(self, entries: Sequence[_Entry]) -> dict[_Entry, Seen]:
        documents = await self._inspector.documents([entry.place for entry in entries])
        owners = list(dict.fromkeys(entry.owner for entry in entries))
        known = {one.identity: one for one in await self._known(await self._inspector.states(owners, again=True))}
        seen = {}
        for entry in entries:
            document, own = documents.get(entry.place), known[entry.owner]
            there = document is not None and self.owner(document) == entry.owner
            difference = of_entry(self._rules, own, entry.place, document, self._now()) if there and document else None
            if difference and document:
                own.documents[entry.place] = document
            seen[entry] = Seen(own, [difference] if difference else [])
        return seen

    async def doubtful(self, differences: Sequence[Difference]) -> list[Finding]:
        """What was doubtful, looked at again when all has been seen: now it is certain."""
        strange = [Finding(one) for one in differences if one.fault is Fault.FOREIGN]
        records = {one.place: one for one in differences if one.what == NOBODYS and one.place}
        for place, record in (await self._inspector.records(records)).items() if records else ():
            if self._is_nobodys(place, record):
                strange.append(Finding(records[place], stray=place))
        entries = [
            _Entry(one.place, one.identity) for one in differences if one.place and one.identity and one.what != NOBODYS
        ]
        strays = await self.strays(entries) if entries else []
        return [replace(one, doubtful=False) for one in (*strange, *strays)]

    # records and dead letters

    async def records(self, documents: Sequence[Document]) -> list[Finding]:
        """Records of items that are gone, and those that nobody reads."""
        records = {self._sides.place(Side.RECORDS, document): placement_from(document) for document in documents}
        strange = [
            Difference(fault=Fault.PLACEMENT, identity=record.identity, place=place, what=NOBODYS)
            for place, record in records.items()
            if self._is_nobodys(place, record)
        ]
        sound = [r.identity for p, r in records.items() if not self._is_nobodys(p, r) and (r.entries or r.parked)]
        gone = [state.identity for state in await self._inspector.states(sound) if state.gone] if sound else []
        seen = await self._inspector.settled(gone, self._look_at_records) if gone else {}
        return [Finding(one, doubtful=True) for one in strange] + [
            Finding(difference, one.pending) for one in seen.values() for difference in one.differences
        ]

    def _is_nobodys(self, place: Place, record: Placement) -> bool:
        return place != record_place(self._rules.projection, record.identity)

    async def _look_at_records(self, identities: Sequence[Identity]) -> dict[Identity, Seen]:
        seen = {}
        for known in await self._known(await self._inspector.states(identities, again=True)):
            difference = of_record(known, known.record) if known.state.gone and known.record else None
            seen[known.identity] = Seen(known, [difference] if difference else [])
        return seen

    async def letters(self, documents: Sequence[Document]) -> list[Finding]:
        """Dead letters of items that are gone, or can be projected."""
        identities = [letter.identity for letter in map(DeadLetter.from_stored, documents)]
        seen = await self._inspector.settled(identities, self._look_at_letters) if identities else {}
        return [Finding(difference, one.pending) for one in seen.values() for difference in one.differences]

    async def _look_at_letters(self, identities: Sequence[Identity]) -> dict[Identity, Seen]:
        there = {letter.identity: letter for letter in await self._inspector.letters(identities)}
        seen = {}
        for known in await self._known(await self._inspector.states(identities, again=True)):
            known.letter = there.get(known.identity)
            difference = of_letter(known) if known.letter else None
            seen[known.identity] = Seen(known, [difference] if difference else [])
        return seen
