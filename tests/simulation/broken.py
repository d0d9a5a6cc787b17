"""Writers that leave out one part of the protocol each: what the searches must notice."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from projections.batches import Write
from projections.embedding import EmbedWriter, HeaderWriter
from projections.entries import State
from projections.fanout import FanOut, Job, Jobs
from projections.keys import Key
from projections.outcomes import Result
from projections.plan import Confirm, Decision, Put, Rearrange
from projections.store import Container, Delete, Operation, Upsert, WriteError
from projections.totaling import AggregateWriter, Own
from projections.writer import Attempt, Writer
from tests.simulation.tracks import ANY


class Unchecked(Writer):
    """Does not look at the source after writing (step 7)."""

    async def _still_present(self, attempts: list[Attempt]) -> list[Attempt]:
        written = [attempt for attempt in attempts if attempt.wrote]
        others = await super()._still_present([attempt for attempt in attempts if not attempt.wrote])
        return [*written, *others]


class Forgetful(Writer):
    """Does not remember what it has put (step 6)."""

    async def _round(self, attempts: list[Attempt]) -> None:
        for attempt in attempts:
            attempt.put.clear()
        await super()._round(attempts)


class Unguarded(Writer):
    """Removes entries without If-Match (step 5)."""

    async def _write(self, container: Container, writes: list[tuple[Attempt, Write]]) -> list[str | None]:
        return await super()._write(container, [(a, _unguarded(write)) for a, write in writes])


def _unguarded(write: Write) -> Write:
    operation = write.operation
    return replace(write, operation=Delete(operation.id, ANY)) if isinstance(operation, Delete) else write


class Trusting(Writer):
    """Does not write again what another writer has set out to remove."""

    async def _read_placements(self, attempts: list[Attempt]) -> None:
        await super()._read_placements(attempts)
        for attempt in attempts:
            if attempt.placement:
                attempt.placement = replace(attempt.placement, leaving=())


class Blind(Writer):
    """Does not look again at places that were empty before it wrote the record."""

    async def _look_at_empty_places(self, decided: list[tuple[Attempt, Rearrange]]) -> None:
        return None


class Credulous(Writer):
    """Believes that a state which looks older is older (design 5)."""

    async def _confirm(self, doubtful: Mapping[Attempt, Confirm]) -> list[Attempt]:
        for attempt, doubt in doubtful.items():
            attempt.finished |= doubt.looks_older
        return await super()._confirm({a: doubt for a, doubt in doubtful.items() if not a.finished})


class Guessing(Writer):
    """Takes a state that is neither newer nor older for the newer one (design 5)."""

    async def _confirm(self, doubtful: Mapping[Attempt, Confirm]) -> list[Attempt]:
        for attempt in doubtful:
            attempt.confirmed = True
        return list(doubtful)


class Hasty(Writer):
    """Puts entries before the record of their places (step 5)."""

    async def _rearrange(self, decided: list[tuple[Attempt, Rearrange]]) -> None:
        await self._put([(attempt, put) for attempt, decision in decided for put in decision.puts])
        late: list[tuple[Attempt, Any]] = [
            (attempt, replace(decision, puts=())) for attempt, decision in decided if not attempt.failed
        ]
        await super()._rearrange(late)


class Narrow(Writer):
    """An audit that looks only where the record says the item is, not where it was."""

    async def _read_placements(self, attempts: list[Attempt]) -> None:
        put = [set(attempt.put) for attempt in attempts]
        await super()._read_placements(attempts)
        for attempt, own in zip(attempts, put, strict=True):
            attempt.put = own


class Careless(Writer):
    """Takes a batch that was refused for refused as a whole: a write fails for another item's sake."""

    async def _write(self, container: Container, writes: list[tuple[Attempt, Write]]) -> list[str | None]:
        results = await super()._write(container, writes)
        if any(attempt.failed for attempt, _ in writes):
            for attempt, _ in writes:
                attempt.failed = True
        return results


class Apart(AggregateWriter):
    """Writes the total in a batch of its own, after the contributions."""

    async def _send(self, key: Key, part: Sequence[Own], others: Sequence[Operation]) -> WriteError | None:
        return await super()._send(key, part, ()) or await super()._send(key, (), others)


class Overwriting(AggregateWriter):
    """Writes the total whatever is there."""

    async def _others(self, key: Key, part: Sequence[Own]) -> list[Operation]:
        return [
            operation if isinstance(operation, Delete) else Upsert(operation.document)
            for operation in await super()._others(key, part)
        ]


class Premature(AggregateWriter):
    """Looks for the next extreme before it reads the total that is to keep it from changing."""

    async def _others(self, key: Key, part: Sequence[Own]) -> list[Operation]:
        self._early = {name: await super(Premature, self)._next_extremes(key, name, part) for name in self._measures}
        return await super()._others(key, part)

    async def _next_extremes(self, key: Key, name: str, part: Sequence[Own]) -> list[Any]:
        return self._early[name]


class Assuming(AggregateWriter):
    """Takes for granted that what it read of a contribution is still there."""

    async def _send(self, key: Key, part: Sequence[Own], others: Sequence[Operation]) -> WriteError | None:
        return await super()._send(key, [(attempt, _assumed(write)) for attempt, write in part], others)


def _assumed(write: Write) -> Write:
    operation = write.operation
    return write if isinstance(operation, Delete) else replace(write, operation=Upsert(operation.document))


class Blinkered(EmbedWriter):
    """Does not look whether a header has moved on."""

    async def _still_present(self, attempts: list[Attempt]) -> list[Attempt]:
        return await Writer._still_present(self, attempts)


class Reversed(EmbedWriter):
    """Puts the entry before its back-references."""

    async def _put(self, puts: list[tuple[Attempt, Put]]) -> None:
        for container in ("target", "refs"):
            await super()._put([(a, put) for a, put in puts if put.entry.place.container == container])


class Rash(EmbedWriter):
    """Removes back-references while the entry still has their copies."""

    async def _rearrange(self, decided: list[tuple[Attempt, Rearrange]]) -> None:
        early = [(a, r) for a, decision in decided for r in decision.removes if r.place.container == "refs"]
        await self._remove(early)
        late = [
            (a, replace(d, removes=tuple(r for r in d.removes if (a, r) not in early)))
            for a, d in decided
            if not a.failed
        ]
        await super()._rearrange(late)


class Sparing(EmbedWriter):
    """Writes only what differs, though a back-reference goes."""

    def _decision(self, attempt: Attempt) -> Decision:
        decision = super()._decision(attempt)
        if not isinstance(decision, Rearrange):
            return decision
        there = {place: stored.hash for place, stored in attempt.stored.items()}
        return replace(decision, puts=tuple(p for p in decision.puts if there.get(p.entry.place) != p.entry.hash))


class Silent(HeaderWriter):
    """Has no fan-out."""

    async def _write_entries(self, writes: list[tuple[Attempt, Write]]) -> None:
        await Writer._write_entries(self, writes)


class Late(Silent):
    """Puts the fan-out on record when the header is written."""

    async def _write_entries(self, writes: list[tuple[Attempt, Write]]) -> None:
        await super()._write_entries(writes)
        await self.jobs.begin([attempt.identity for attempt, _ in writes])


class Sweeping(Jobs):
    """Takes a fan-out off the record though it has been started anew."""

    async def end(self, job: Job) -> None:
        await super().end(replace(job, etag=ANY))


class Eager(FanOut):
    """Takes a fan-out off the record before it is carried out."""

    async def _job(self, job: Job, stop: Callable[[], bool]) -> None:
        await self._jobs.end(job)
        await super()._job(job, stop)


class Tolerant(FanOut):
    """Leaves the header to whoever is still about to write it."""

    async def _renew(self, job: Job) -> None:
        return None


class Presuming(FanOut):
    """Takes for granted that the header is written."""

    async def run(self, stop: Callable[[], bool] = lambda: False) -> int:
        self._headers = self._nothing
        return await super().run(stop)

    async def _nothing(self, notices: Sequence[State]) -> list[Result]:
        return []
