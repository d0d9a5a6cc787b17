"""The totals of an Aggregate against its contributions, group by group, and setting them right.

A group is read while its total stays the same: whoever changes a contribution changes the total, so what was read then
was all there at one moment. For the same reason a total can be set to what its contributions come to, under the
condition that it has not changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from projections.aggregate import Aggregate
from projections.batches import MAX_OPERATIONS
from projections.books import Fold, agrees, is_book
from projections.comparing import state_of
from projections.differences import Difference, Fault, is_foreign
from projections.entries import Rules
from projections.errors import ConflictError
from projections.identity import Place
from projections.inspection import Inspector
from projections.keys import Key
from projections.provision import Layout
from projections.sides import EVERYTHING, Piece, Side, Sides
from projections.store import Container, Create, Delete, Document, Operation, Replace, Store, WriteError
from projections.totals import TOTAL_ID, value_document, value_id

TRIES: Final = 5
MOST_UNBALANCED: Final = 2_000
"""Groups for which it is worked out whether the total or a contribution is wrong."""
MOST_SEEN: Final = 20_000
"""Groups that are remembered to have been looked at."""


@dataclass
class Group:
    """What there is of one group, all at one moment."""

    key: Key
    fold: Fold  # what its contributions come to
    books: dict[str, Document]  # the total and the distinct values, by id

    def agrees(self, fold: Fold, reserved: str) -> bool:
        return not fold.odd and agrees(fold, self.books, reserved)


class Balance:
    """Reads groups, and balances them."""

    def __init__(self, store: Store, target: Container, projection: Aggregate, reserved: str) -> None:
        self._store = store
        self._target = target
        self._projection = projection
        self._reserved = reserved

    async def totals(self, keys: Sequence[Key]) -> set[Key]:
        """Which of these groups have a total."""
        found = await self._store.read(self._target, [Place(TOTAL_ID, key) for key in keys])
        return {place.key for place in found}

    async def group(self, key: Key) -> Group | None:
        """A group at one moment; None where it is changed faster than it can be read."""
        before = await self._total(key)
        for _ in range(TRIES):
            group = await self._read(key)
            after = await self._total(key)
            if _etag(before) == _etag(after) == _etag(group.books.get(TOTAL_ID)):
                return group
            before = after
        return None

    async def _total(self, key: Key) -> Document | None:
        place = Place(TOTAL_ID, key)
        return (await self._store.read(self._target, [place])).get(place)

    async def _read(self, key: Key) -> Group:
        group = Group(key, Fold(self._projection), {})
        async for page in self._store.query(self._target, EVERYTHING, {}, key):
            for document in page:
                if is_book(document["id"]):
                    group.books[document["id"]] = document
                elif not is_foreign(document, self._reserved):
                    group.fold.add(document)
        return group

    async def balance(self, key: Key) -> bool:
        """Make a total what its contributions come to; False where others keep changing it.

        A contribution that makes no sense is taken away: its item's writer then makes it anew.
        """
        for _ in range(TRIES):
            group = await self.group(key)
            if group is None:
                return False
            if group.agrees(group.fold, self._reserved) or await self._write(group):
                return True
        return False

    async def _write(self, group: Group) -> bool:
        """In as many transactions as it takes. Whoever comes in between makes the next one fail: all is read anew."""
        made, total = self._made(group), group.books.get(TOTAL_ID)
        operations = self._operations(group)
        while True:
            part, operations = operations[: MAX_OPERATIONS - 1], operations[MAX_OPERATIONS - 1 :]
            last = [_guarded(made, total)] if made or total else []
            try:
                if part or last:
                    etags = await self._store.write(self._target, group.key, [*part, *last])
                    total = None if made is None else {**made, "_etag": etags[-1]}
            except WriteError as error:
                if not isinstance(error.cause, ConflictError):
                    raise
                return False
            if not operations:
                return True

    def _operations(self, group: Group) -> list[Operation]:
        """Distinct values that have another number of contributions than their documents say, and what is odd."""
        wanted = {value_id(value): (value, count) for value, count in group.fold.values.items()}
        found = {id_: document for id_, document in group.books.items() if id_ != TOTAL_ID}
        operations: list[Operation] = [Delete(odd["id"], odd["_etag"]) for odd in group.fold.odd]
        operations += [Delete(id_, doc["_etag"]) for id_, doc in found.items() if id_ not in wanted]
        for id_, (value, count) in wanted.items():
            document = value_document(value, count, self._reserved, group.fold.properties)
            if id_ not in found:
                operations.append(Create(document))
            elif found[id_].get(self._reserved) != document[self._reserved]:
                operations.append(Replace(document, found[id_]["_etag"]))
        return operations

    def _made(self, group: Group) -> Document | None:
        if not group.fold.contributions:
            return None
        return group.fold.total.to_stored(self._projection.measures, self._reserved, group.fold.properties)


class Groups:
    """The groups of a whole target, looked at as they are come across."""

    def __init__(self, store: Store, layout: Layout, rules: Rules, sides: Sides, inspector: Inspector) -> None:
        assert isinstance(rules.projection, Aggregate)
        self._projection = rules.projection
        self._rules = rules
        self._sides = sides
        self._inspector = inspector
        self._balance = Balance(store, layout.target(rules.projection), rules.projection, rules.reserved)
        self.begin()

    def begin(self, unbalanced: Sequence[Key] = ()) -> None:
        """Begin with the target, or go on where so many groups have been found not to be balanced."""
        self._seen: set[Key] = set()
        self._unbalanced = {key: Fold(self._projection) for key in unbalanced}  # with what they should come to
        self.unknown = 0  # groups that others change faster than they can be read

    @property
    def unbalanced(self) -> list[Key]:
        return list(self._unbalanced)

    def key(self, document: Document) -> Key:
        return self._sides.place(Side.TARGET, document).key

    async def look(self, documents: Sequence[Document]) -> list[Difference]:
        """Remember the groups whose total is not what their contributions come to; those that are too many are told."""
        told = []
        for key in await self._new(documents):
            group = await self._balance.group(key)
            if group is None:
                self.unknown += 1
            elif not group.agrees(group.fold, self._rules.reserved):
                if len(self._unbalanced) < MOST_UNBALANCED:
                    self._unbalanced[key] = Fold(self._projection)
                else:
                    told.append(_wrong(key))
        return told

    async def balance(self, documents: Sequence[Document]) -> None:
        """Make totals what their contributions come to."""
        for key in await self._new(documents):
            self.unknown += not await self._balance.balance(key)

    async def _new(self, documents: Sequence[Document]) -> list[Key]:
        """The groups of these documents that have not been come across: by their totals, or by having none."""
        totals = {self.key(document) for document in documents if document["id"] == TOTAL_ID}
        others = {self.key(document) for document in documents} - totals - self._seen
        bare = others - await self._balance.totals(list(others)) if others else set()
        if len(self._seen) < MOST_SEEN:
            self._seen |= others
        return sorted(totals | bare, key=lambda key: key.text)

    async def wrong(self, pieces: Sequence[Piece]) -> list[Difference]:
        """The totals that are not what their items come to.

        Where a total is, a contribution of the group is wrong; that is told there.
        """
        if not self._unbalanced:
            return []
        for piece in pieces if any(piece.side is Side.SOURCE for piece in pieces) else ():
            if piece.side is Side.SOURCE:
                async for part in self._sides.read(piece, None):
                    await self._add(part.documents)
        found = []
        for key, fold in self._unbalanced.items():
            group = await self._balance.group(key)
            if (
                group
                and not group.agrees(group.fold, self._rules.reserved)
                and not agrees(fold, group.books, self._rules.reserved)
            ):
                found.append(_wrong(key))
        return found

    async def _add(self, documents: Sequence[Document]) -> None:
        """What items should contribute to the groups that are not balanced."""
        states = [state_of(document, self._rules) for document in documents]
        for known in await self._inspector.derived(states):
            for place, entry in known.wanted.items():
                if place.key in self._unbalanced:
                    self._unbalanced[place.key].add(entry.content)


def _wrong(key: Key) -> Difference:
    return Difference(fault=Fault.TOTAL, place=Place(TOTAL_ID, key))


def _guarded(made: Document | None, found: Document | None) -> Operation:
    """A write of the total under the condition that the one that was read is still there."""
    if found is None:
        assert made is not None
        return Create(made)
    return Replace(made, found["_etag"]) if made is not None else Delete(TOTAL_ID, found["_etag"])


def _etag(document: Mapping[str, Any] | None) -> Any:
    return document["_etag"] if document else None
