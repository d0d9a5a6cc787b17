"""The writers of an Embed: one for the entries, one for the headers of each reference (design 8).

An entry is a function of its item and of the headers of the items it refers to. Whatever an input is, the same protocol
holds: read it, write the entry under conditions, then look whether the input has moved on. A header is written before
its fan-out begins, and a back-reference before the entry it stands for. So either the writer of the entry sees the
newer header when it looks again, or the fan-out finds the back-reference and has the entry made anew. An entry is
written again before it loses a back-reference: a fan-out that has read it before is refused from then on. So does a
fan-out write again the entries that it finds right: there may be another one that has read them earlier.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from projections.batches import Write
from projections.embed import Embed
from projections.entries import Filling, State
from projections.fanout import Jobs
from projections.identity import Place
from projections.outcomes import Outcome
from projections.references import HeaderState, alike, header_places
from projections.store import Create, Patch, Replace
from projections.writer import Attempt, Writer


class EmbedWriter(Writer):
    """Keeps entries with copies."""

    async def _read_inputs(self, attempts: list[Attempt]) -> None:
        headers = await self._headers(attempts)
        for attempt in attempts:
            attempt.headers = {place.key.values[0]: headers.get(place) for place in self._header_places(attempt.state)}  # type: ignore[misc]

    async def _still_present(self, attempts: list[Attempt]) -> list[Attempt]:
        """Those of which the source's state and every header are what the entry was made from."""
        same = await super()._still_present(attempts)
        read_at = self._monotonic()
        headers = await self._headers(same)
        unmoved = []
        for attempt in same:
            now = {place: headers.get(place) for place in self._header_places(attempt.state)}
            if all(_same(attempt.headers.get(str(place.key.values[0])), header) for place, header in now.items()):
                unmoved.append(attempt)
            else:
                attempt.again(attempt.state, read_at)
        return unmoved

    async def _headers(self, attempts: Iterable[Attempt]) -> dict[Place, HeaderState]:
        places = {place for attempt in attempts for place in self._header_places(attempt.state)}
        found = await self._read(places)
        return {place: HeaderState.of(document, self._rules.reserved) for place, document in found.items()}

    def _header_places(self, state: State) -> list[Place]:
        assert isinstance(self._projection, Embed)
        return header_places(self._projection, state.item)


class InPlaceWriter(EmbedWriter):
    """Keeps copies in the items themselves.

    They are put in when every back-reference is there, and only into the very state that they were made for: whoever
    writes the item meanwhile, the user or another worker, is not overwritten. The feed then shows the item once more,
    and nothing is left to do.
    """

    async def _finish(self, attempts: list[Attempt]) -> None:
        await self._fill([attempt for attempt in attempts if attempt.want.filling])
        await self._start_again([attempt for attempt in attempts if attempt.failed and not attempt.error])
        await super()._finish([attempt for attempt in attempts if not attempt.failed])

    async def _fill(self, attempts: list[Attempt]) -> None:
        writes = []
        for attempt in attempts:
            filling, etag, identity = attempt.want.filling, attempt.state.version.etag, attempt.identity
            assert filling
            assert etag
            attempt.wrote = True
            patch = Patch(identity.id, etag, filling.values, filling.removed)
            writes.append((attempt, Write(identity.key, patch)))
        etags = await self._write(self._places.source, writes)
        for attempt, etag in zip(attempts, etags, strict=True):
            if etag is not None:
                attempt.state = _filled(attempt.state, attempt.want.filling, etag)
                attempt.outcome = Outcome.WRITTEN


def _filled(state: State, filling: Filling | None, etag: str) -> State:
    """The state that a patch has made of another one. Its time is not known, and not before that one's."""
    assert state.item is not None
    assert filling
    kept = {name: value for name, value in state.item.items() if name not in filling.removed}
    return State(state.identity, replace(state.version, etag=etag), kept | dict(filling.values))


def _same(one: HeaderState | None, other: HeaderState | None) -> bool:
    """A header that was written again with nothing new in it makes no other entry."""
    return (one and one.copy) == (other and other.copy)


class HeaderWriter(Writer):
    """Keeps the headers of one reference. Before another copy is in one, it is on record that its fan-out is due."""

    jobs: Jobs

    async def _write_entries(self, writes: list[tuple[Attempt, Write]]) -> None:
        await self.jobs.begin([attempt.identity for attempt, write in writes if _copies_change(attempt, write)])
        await super()._write_entries(writes)


def _copies_change(attempt: Attempt, write: Write) -> bool:
    """Whether it is more than the time at which a copy expires that is written."""
    assert isinstance(write.operation, Create | Replace)
    stored = next(iter(attempt.stored.values()), None)  # a referenced item has one header, at one place
    return stored is None or not alike(stored.document.get("copy"), write.operation.document.get("copy"))
