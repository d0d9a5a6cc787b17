"""Both sides of a projection added up, page by page as they are read."""

from __future__ import annotations

from collections.abc import Sequence

from projections.books import Books, is_book
from projections.deadletters import DeadLetter
from projections.differences import Known, is_foreign, is_tombstone
from projections.embed import Header
from projections.entries import Rules, State, owner_of
from projections.identity import Identity
from projections.inspection import Inspector
from projections.plan import placement_from
from projections.sides import Side, Sides
from projections.store import Document
from projections.sums import (
    Sums,
    bucket_of,
    bucket_of_place,
    expected_entry,
    expected_record,
    found_entry,
    found_record,
    letter,
)
from projections.version import Version


class Comparison:
    """Adds what should be there, and takes away what is."""

    def __init__(self, sides: Sides, inspector: Inspector, rules: Rules, sums: Sums, books: Books | None) -> None:
        self._sides = sides
        self._inspector = inspector
        self._rules = rules
        self._sums = sums
        self._books = books

    async def add(self, side: Side, documents: Sequence[Document]) -> None:
        """A page of a side."""
        match side:
            case Side.SOURCE:
                states = [state_of(document, self._rules) for document in documents]
                for known in await self._inspector.derived(states, lately=True):
                    self._add(known)
            case Side.TARGET | Side.REFS:
                for document in documents:
                    self._take_entry(side, document)
            case Side.RECORDS:
                for record in map(placement_from, documents):
                    self._take(record.identity, found_record(record))
            case Side.LETTERS:
                for found in map(DeadLetter.from_stored, documents):
                    self._take(found.identity, letter(found.identity, found.version.get("etag")))

    def _add(self, known: Known) -> None:
        """The entries, the record and the dead letter that an item should have.

        Of a parked item whose entries are kept nobody can say what they should be: it is looked at.
        """
        identity, tracked = known.identity, self._rules.projection.placement == "tracked"
        tokens = [
            expected_entry(identity, entry) for entry in known.want.entries if not is_tombstone(self._rules, entry)
        ]
        if tracked:
            tokens.append(expected_record(identity, known.wanted, parked=known.error is not None))
        if known.error is not None:
            tokens.append(letter(identity, known.state.version.etag))
        if known.want.filling:
            tokens.append(1)
        self._sums.add(bucket_of(identity), sum(tokens))

    def _take_entry(self, side: Side, document: Document) -> None:
        place, reserved = self._sides.place(side, document), self._rules.reserved
        if side is Side.TARGET and self._books is not None:
            self._books.add(place.key, document)
            if is_book(place.id):
                return
        owner = owner_of(document, reserved)
        if owner is None or is_foreign(document, reserved):
            self._sums.add(bucket_of_place(place), 1)
        elif "copy" in document or not isinstance(self._rules.projection, Header):
            self._take(owner, found_entry(owner, place, document, reserved))

    def _take(self, identity: Identity, token: int) -> None:
        self._sums.add(bucket_of(identity), -token)


def state_of(document: Document, rules: Rules) -> State:
    """The state of an item, as the feed gives it."""
    identity = Identity.of(document, rules.projection.source.key)
    return State(identity, Version.of(document, from_feed=True), document)
