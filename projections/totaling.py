"""The writer of an Aggregate: no contribution is written without its group's total (design 9).

A contribution is an entry, and the protocol for entries is what makes it follow from its item. Beyond that, each write
of one shares a transactional batch with the total of its group, under the condition that neither has changed since it
was read. So the total is what the contributions come to, at every moment.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from projections.aggregate import CONTRIBUTION, Aggregate
from projections.batches import MAX_OPERATIONS, Write, together
from projections.errors import ConflictError, ItemError, TransientError
from projections.identity import Identity, Place
from projections.keys import Key
from projections.measures import Max, Measure
from projections.store import Create, Delete, Document, Operation, Replace, WriteError
from projections.totals import (
    NOTHING,
    TOTAL_ID,
    Change,
    Measures,
    Total,
    Value,
    changed,
    contributed,
    key_properties,
    lost,
    moved,
    taken_back,
    value_document,
    value_id,
)
from projections.writer import Attempt, Writer

MOST_TRIES: Final = 20
"""Of a batch whose total others keep changing."""
MOST_MISFITS: Final = 10
"""In a row, of one item with a total: with the pauses between, some seconds."""
NEXT_EXTREMES: Final = 200
"""How many contributions are looked at for the next extreme: those that leave with a batch, and as many again."""

Own: TypeAlias = tuple[Attempt, Write]


class AggregateWriter(Writer):
    """Keeps contributions and totals."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._misfits = Counter[Identity]()

    async def _rounds(self, attempts: list[Attempt]) -> None:
        self._misfits.clear()
        await super()._rounds(attempts)

    async def _write_entries(self, writes: list[Own]) -> None:
        groups: dict[Key, list[Own]] = {}
        for attempt, write in writes:
            groups.setdefault(write.key, []).append((attempt, write))
        await together(self._write_group(key, own) for key, own in groups.items())

    async def _write_group(self, key: Key, writes: list[Own]) -> None:
        async with self._gate:
            for part in self._cut(writes):
                await self._write_part(key, part)

    def _cut(self, writes: Sequence[Own]) -> Iterator[list[Own]]:
        """What fits into one batch with the total, and with the distinct values that come and go."""
        part: list[Own] = []
        filled = 1
        for own in writes:
            operations = 1 + len(moved(self._measures, [_change(own)]))
            if filled + operations > MAX_OPERATIONS:
                yield part
                part, filled = [], 1
            part.append(own)
            filled += operations
        yield part

    async def _write_part(self, key: Key, part: list[Own]) -> None:
        """Write a batch. Of what is refused the item starts again, and the others are sent without it."""
        tries = 0
        while part:
            others = await self._others(key, part)
            if not others:
                self._misfit(key, part)
                return
            refused = await self._send(key, part, others)
            if refused is None:
                return
            if isinstance(refused.cause, ItemError) and len(part) > 1:  # who is to blame comes out alone
                half = len(part) // 2
                await self._write_part(key, part[:half])
                part = part[half:]
            elif isinstance(refused.cause, ItemError) or refused.index < len(part):
                self._heed([part.pop(min(refused.index, len(part) - 1))], [refused.cause])
            else:  # somebody else has changed the total: it is better for both if they take turns
                tries += 1
                if tries == MOST_TRIES:
                    raise TransientError(f"the total of {key} is being changed faster than it can be read")
                await self._sleep(min(1.0, 0.01 * 2**tries) * random.random())

    def _misfit(self, key: Key, part: list[Own]) -> None:
        """Contributions that are not in the total have been taken back meanwhile: their items start again.

        Where one is still there the next time, and the next, the total has lost it. No writer of this kind does that.
        """
        self._heed(part, [ConflictError("what was read is outdated")] * len(part))
        for attempt, _ in part:
            self._misfits[attempt.identity] += 1
        if max(self._misfits[attempt.identity] for attempt, _ in part) > MOST_MISFITS:
            raise TransientError(
                f"the total of {key} is not what its contributions come to, or a replica lags far behind",
                hint="if this stays so, somebody else has written to the target: raise the projection's version",
            )

    async def _send(self, key: Key, part: Sequence[Own], others: Sequence[Operation]) -> WriteError | None:
        try:
            await self._store.write(self._places.target, key, [*(write.operation for _, write in part), *others])
        except WriteError as error:
            return error
        return None

    # what is written along

    async def _others(self, key: Key, part: Sequence[Own]) -> list[Operation]:
        """Writes of the total and of distinct values. None where what is taken back is in them no more, or not yet."""
        changes = [_change(own) for own in part]
        by = moved(self._measures, changes)
        found = await self._read_group(key, [TOTAL_ID, *map(value_id, by)])
        total = Total.from_stored(found[TOTAL_ID], self._reserved) if TOTAL_ID in found else NOTHING
        before = {v: found[value_id(v)][self._reserved]["contributions"] for v in by if value_id(v) in found}
        if taken_back(changes) > total.contributions or any(before.get(v, 0) + by[v] < 0 for v in by):
            return []
        alone = taken_back(changes) == total.contributions
        extremes = {
            name: [] if alone else await self._next_extremes(key, name, part)
            for name in lost(self._measures, total, changes)
        }
        after = changed(self._measures, total, changes, before, extremes)
        properties = key_properties(self._aggregate, _document(part[0]))
        writes = {value_id(v): self._value(v, before.get(v, 0) + by[v], properties) for v in by}
        writes[TOTAL_ID] = after.to_stored(self._measures, self._reserved, properties) if after else None
        return [_guarded(id_, document, found.get(id_)) for id_, document in writes.items()]

    def _value(self, value: Value, count: int, properties: Mapping[str, Any]) -> Document | None:
        return value_document(value, count, self._reserved, properties) if count else None

    async def _read_group(self, key: Key, ids: Sequence[str]) -> dict[str, Document]:
        found = await self._store.read(self._places.target, [Place(id_, key) for id_ in ids])
        return {place.id: document for place, document in found.items()}

    async def _next_extremes(self, key: Key, name: str, part: Sequence[Own]) -> list[Any]:
        """What those who stay contribute to a measure, from the extreme on. None of it can change before the total."""
        writing = {write.operation.id for _, write in part}
        pages = self._store.query(self._places.target, next_extremes(name, self._measures[name]), {}, key)
        return [row["extreme"] async for page in pages for row in page if row["id"] not in writing]

    @property
    def _reserved(self) -> str:
        return self._rules.reserved

    @property
    def _aggregate(self) -> Aggregate:
        assert isinstance(self._projection, Aggregate)
        return self._projection

    @property
    def _measures(self) -> Measures:
        return self._aggregate.measures


def next_extremes(name: str, measure: Measure) -> str:
    """The query for the contributions with the greatest, or the least, values."""
    path, order = f'c["{CONTRIBUTION}"]["{name}"]', "DESC" if isinstance(measure, Max) else "ASC"
    return f"SELECT TOP {NEXT_EXTREMES} c.id, {path} AS extreme FROM c WHERE IS_DEFINED({path}) ORDER BY {path} {order}"


def _change(own: Own) -> Change:
    """What a write does to a contribution, given what was read; its condition sees to it that this is still there."""
    attempt, write = own
    stored = attempt.stored.get(Place(write.operation.id, write.key))
    old = None if isinstance(write.operation, Create) or stored is None else contributed(stored.document)
    new = contributed(write.operation.document) if isinstance(write.operation, Create | Replace) else None
    return Change(old, new)


def _document(own: Own) -> Mapping[str, Any]:
    """The document that is written, or taken away."""
    attempt, write = own
    if isinstance(write.operation, Create | Replace):
        return write.operation.document
    return attempt.stored[Place(write.operation.id, write.key)].document


def _guarded(id_: str, document: Document | None, found: Document | None) -> Operation:
    """A write under the condition that what was read is still there; without a document, a removal."""
    if found is None:
        assert document is not None
        return Create(document)
    return Replace(document, found["_etag"]) if document is not None else Delete(id_, found["_etag"])
