"""Fan-outs: a referenced item has changed, and every entry with a copy of it is made anew.

A fan-out is a durable job, on record before the header is written and until the last entry is done. It goes over the
back-references in the order of their ids, a page at a time, and has each item's entry made anew from what item and
headers are then: whoever else does the same meanwhile does no harm. A header that changes again starts its job anew.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from projections.batches import Write, together, write_all
from projections.embed import HEADER_ID, Header
from projections.entries import SYSTEM, State
from projections.errors import ConflictError
from projections.identity import Identity
from projections.keys import Key
from projections.outcomes import Result
from projections.references import Use
from projections.store import Container, Delete, Replace, Store, Upsert, WriteError
from projections.version import Version

log = logging.getLogger("projections")

PAGE_SIZE: Final = 200
"""Back-references in a page."""
SIDE_BY_SIDE: Final = 8
"""Jobs at a time: a first build has one for each referenced item, with nothing to do yet but to find that out."""
BACK_REFERENCES: Final = f"SELECT TOP {PAGE_SIZE} * FROM c WHERE c.id > @after AND c.id != '{HEADER_ID}' ORDER BY c.id"
COUNT: Final = "SELECT VALUE COUNT(1) FROM c"


@dataclass(frozen=True)
class Job:
    """The fan-out of one referenced item."""

    identity: Identity
    after: str = ""  # the id of the last back-reference that is done
    done: int = 0
    total: int | None = None  # entries when it began; None: not counted, since they were few
    began: int = 0  # epoch seconds
    etag: str = ""

    @staticmethod
    def from_stored(document: Mapping[str, Any]) -> Job:
        identity = Identity.from_stored(document["source"])
        return Job(
            identity, document["after"], document["done"], document.get("total"), document["began"], document["_etag"]
        )

    def to_stored(self, partition: str) -> dict[str, Any]:
        # stored; change with a version
        return {
            "id": self.identity.entry_id, "pk": partition, "source": self.identity.to_stored(), "after": self.after,
            "done": self.done, "total": self.total, "began": self.began,
        }  # fmt: skip


class Jobs:
    """The fan-outs under way of one reference, in the state container."""

    def __init__(self, store: Store, state: Container, header: Header, now: Callable[[], float] = time.time) -> None:
        self._store = store
        self._state = state
        self.partition = f"{header.full_name}|fanout"
        self._key = Key.of(self.partition)
        self._gate = asyncio.Semaphore(1)  # all jobs are in one logical partition
        self.begun = asyncio.Event()
        self._now = now

    async def begin(self, identities: Sequence[Identity]) -> None:
        """Put fan-outs on record, or have them start anew.

        Raises:
            TransientError: the store is busy.
        """
        if not identities:
            return
        jobs = [Job(identity, began=int(self._now())) for identity in dict.fromkeys(identities)]
        writes = [Write(self._key, Upsert(job.to_stored(self.partition))) for job in jobs]
        for result in await write_all(self._store, self._state, writes, self._gate):
            if isinstance(result, Exception):
                raise result
        self.begun.set()

    async def pending(self) -> list[Job]:
        pages = self._store.query(self._state, "SELECT * FROM c", {}, self._key)
        return [Job.from_stored(document) async for page in pages for document in page]

    async def save(self, job: Job) -> Job | None:
        """Store how far it is; None when it has been started anew, or is done, elsewhere."""
        try:
            [etag] = await self._store.write(self._state, self._key, [Replace(job.to_stored(self.partition), job.etag)])
        except WriteError as error:
            _only_conflict(error)
            return None
        assert etag
        return replace(job, etag=etag)

    async def end(self, job: Job) -> None:
        try:
            await self._store.write(self._state, self._key, [Delete(job.identity.entry_id, job.etag)])
        except WriteError as error:
            _only_conflict(error)


def _only_conflict(error: WriteError) -> None:
    if not isinstance(error.cause, ConflictError):
        raise error


class FanOut:
    """Carries out the fan-outs of one reference.

    `headers` applies the present state of a referenced item, `items` those of items that refer to it.
    """

    def __init__(
        self, store: Store, refs: Container, header: Header, jobs: Jobs, reserved: str,
        headers: Callable[[Sequence[State]], Awaitable[list[Result]]],
        items: Callable[[Sequence[State]], Awaitable[list[Result]]],
    ) -> None:  # fmt: skip
        self._store = store
        self._refs = refs
        self._header = header
        self._jobs = jobs
        self._reserved = reserved
        self._headers = headers
        self._items = items
        self._looked_at = 0

    @property
    def name(self) -> str:
        return self._header.label

    async def due(self, stopping: asyncio.Event, seconds: float) -> None:
        """Wait until there is something to do, or it is time to look, or to stop."""
        waiting = [asyncio.ensure_future(event.wait()) for event in (self._jobs.begun, stopping)]
        await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for one in waiting:
            one.cancel()

    async def run(self, stop: Callable[[], bool] = lambda: False) -> int:
        """Carry out what is on record, or until `stop` says so; how many entries were looked at.

        Raises:
            TransientError, FatalError: as the writers do; what is not done stays on record.
        """
        before = self._looked_at
        dealt_with: set[str] = set()  # a replica that lags may show a job again that is done, or started anew
        while not stop():
            self._jobs.begun.clear()
            jobs = [job for job in await self._jobs.pending() if job.etag not in dealt_with]
            if not jobs:
                break
            for start in range(0, len(jobs), SIDE_BY_SIDE):
                if stop():
                    break
                some = jobs[start : start + SIDE_BY_SIDE]
                # whoever put it on record may not have come to write the header, or may still be about to
                await self._headers([State(job.identity, Version(), None) for job in some])
                await together(self._job(job, stop) for job in some)
                dealt_with |= {job.etag for job in some}
        return self._looked_at - before

    async def _job(self, job: Job, stop: Callable[[], bool]) -> None:
        await self._renew(job)
        going: Job | None = job
        while going is not None and not stop():
            page = await self._page(going)
            if page:
                await self._items([_notice(document[self._reserved]) for document in page])
            self._looked_at += len(page)
            if len(page) < PAGE_SIZE:
                await self._jobs.end(going)
                break
            going = await self._jobs.save(await self._further(going, page))

    async def _renew(self, job: Job) -> None:
        """Write the header again as it is: whoever put the job on record and is still about to write it is refused.

        Else that one would write it when the job is done, and where the referenced item has flipped back by the time it
        looks again, nobody would have to put the job on record once more.
        """
        place = Use(self._header.reference, job.identity).header.plain
        stored = (await self._store.read(self._refs, [place])).get(place)
        if stored is None:  # the item is parked
            return
        again = {name: value for name, value in stored.items() if name not in SYSTEM}
        try:
            await self._store.write(self._refs, place.key, [Replace(again, stored["_etag"])])
        except WriteError as error:
            _only_conflict(error)  # somebody else has written it

    async def _page(self, job: Job) -> list[dict[str, Any]]:
        key = Key.of(Use(self._header.reference, job.identity).text)
        found: list[dict[str, Any]] = []
        async for page in self._store.query(self._refs, BACK_REFERENCES, {"@after": job.after}, key):
            found += page
        return found

    async def _further(self, job: Job, page: Sequence[Mapping[str, Any]]) -> Job:
        total = job.total if job.total is not None else await self._count(job)
        return replace(job, after=page[-1]["id"], done=job.done + len(page), total=total)

    async def _count(self, job: Job) -> int:
        """How many there are to do, counted once the first page is full."""
        key = Key.of(Use(self._header.reference, job.identity).text)
        counts = [count async for page in self._store.query(self._refs, COUNT, {}, key) for count in page]
        total: int = sum(counts) - 1  # the header
        if total > self._header.embed.fan_out_warning:
            extra = {"projection": self._header.label, "item": str(job.identity), "entries": total}
            log.warning("a large fan-out", extra=extra)
        return total


def _notice(mark: Mapping[str, Any]) -> State:
    return State(Identity.from_stored(mark), Version(), None)
