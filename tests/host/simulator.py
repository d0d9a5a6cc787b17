"""The Functions host, as far as changes can get lost in it. Each rule names the fact it models.

A host reads one page of a feed range at a time, calls the function with it, and moves the lease on. It knows nothing of
what the function does but whether it raised, and how long it took.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from projections.keys import Key
from projections.store import Container, Document, FeedRange, Start, Store, Upsert
from tests.functions_runtime.payload import as_delivered

POLL_SECONDS: Final = 5.0  # facts.md 11
FOREVER: Final = -1


class App(Protocol):
    """One process of the app, on one instance of the host."""

    async def changes(self, documents: list[Document]) -> None:
        """The function. It is never told that it is no longer wanted (facts.md 12)."""

    def kill(self) -> None:
        """Nothing that the process does from now on has any effect."""


@dataclass(frozen=True)
class Retry:
    """A retry policy: kept in memory, attempts are not persisted (facts.md 2)."""

    count: int = FOREVER
    shortest: float = 5.0
    longest: float = 300.0

    def pause(self, attempt: int) -> float:
        return min(self.longest, self.shortest * 2.0 ** min(attempt, 10))


@dataclass
class Lease:
    """What is stored of one feed range. `position` is None until the first checkpoint."""

    feed_range: FeedRange
    position: str | None = None
    owner: str | None = None
    lsn: int | None = None  # of the position: the form in which it is stored

    def document(self, prefix: str, rid: str | None) -> Document:
        """As the host writes it (facts.md 7); a lease on what may be a part of a physical partition."""
        low, high = self.feed_range.low, self.feed_range.high
        return {
            "id": f"{prefix}account.documents.azure.com_O7RwAA==_{rid or 'O7RwAKylJbY='}..{low}-{high}",
            "version": 1,
            "LeaseToken": f"{low}-{high}",
            "FeedRange": {"Range": {"min": low, "max": high}},
            "Owner": self.owner,
            "ContinuationToken": None if self.lsn is None else f'"{self.lsn}"',
            "properties": {},
            "timestamp": "2026-11-30T12:00:00.403196Z",
            "Mode": "Incremental Feed",
        }


@dataclass(frozen=True)
class Trigger:
    """A function's registration, and the host's settings."""

    source: Container
    retry: Retry | None
    start_from_beginning: bool = True
    max_items: int = 100
    timeout: float = 600.0
    hours_east: int = 2  # of the zone that offsets are shifted to (facts.md 8)
    leases: Container | None = None  # where they are stored, for others to see
    prefix: str = ""


class FailedError(Exception):
    """The call failed: it raised, took too long, or its process died (facts.md 1: all the same to the host)."""


@dataclass
class Counts:
    """What a host has done, for tests to look at."""

    calls: int = 0
    failures: int = 0
    given_up: int = 0  # batches after which the lease moved on although every attempt had failed
    checkpoints: int = 0
    largest: int = 0  # documents in one call


@dataclass(eq=False)
class Host:
    """One instance. `start` makes a process of the app; `leases` are shared with all other instances."""

    name: str
    store: Store
    trigger: Trigger
    leases: Sequence[Lease]
    start: Callable[[], App]
    counts: Counts = field(default_factory=Counts)

    def __post_init__(self) -> None:
        self.app = self.start()
        self._crashed = asyncio.Event()
        self._positions: dict[FeedRange, str] = {}  # in memory, of ranges that nothing has been checkpointed of
        self._pumps: dict[FeedRange, asyncio.Task[None]] = {}
        self._dead = False

    # a lease's loop

    async def run(self) -> None:
        """Take the leases that are nobody's, and work on those that are ours, until killed."""
        while not self._dead:
            for lease in self.leases:
                if lease.owner is None:
                    lease.owner = self.name
                pump = self._pumps.get(lease.feed_range)
                if lease.owner == self.name and (pump is None or pump.done()):
                    self._pumps[lease.feed_range] = asyncio.create_task(self._pump(lease))
            await asyncio.sleep(POLL_SECONDS)

    async def _pump(self, lease: Lease) -> None:
        self._positions.pop(lease.feed_range, None)
        while lease.owner == self.name:
            if not await self.poll(lease):
                await asyncio.sleep(POLL_SECONDS)

    async def until_end(self, lease: Lease | None = None) -> None:
        """Poll one lease until there is nothing more, or it is another one's."""
        lease = lease or self.leases[0]
        lease.owner = lease.owner or self.name
        while lease.owner == self.name and await self.poll(lease):
            pass

    async def poll(self, lease: Lease) -> bool:
        """One turn of the loop; whether there was anything."""
        documents, position = await self._read(lease)
        if not documents:
            if lease.position is None:
                self._positions[lease.feed_range] = position
            return False
        await self.deliver(documents)
        if lease.owner == self.name:  # else it was moved while the function ran on (facts.md 3)
            lease.position, lease.lsn = position, documents[-1]["_lsn"]
            self.counts.checkpoints += 1
            await self._store(lease)
        return True

    async def _store(self, lease: Lease) -> None:
        if self.trigger.leases:
            source = await self.store.describe(self.trigger.source)
            document = lease.document(self.trigger.prefix, source.rid if source else None)
            await self.store.write(self.trigger.leases, Key.of(document["id"]), [Upsert(document)])

    async def _read(self, lease: Lease) -> tuple[list[Document], str]:
        start = Start(now=not self.trigger.start_from_beginning)  # facts.md 4, 6: counts until the first checkpoint
        since = lease.position or self._positions.get(lease.feed_range) or start
        pages = self.store.changes(self.trigger.source, lease.feed_range, since, self.trigger.max_items)
        async for page in pages:  # a transaction is never split: a page may hold more than max_items (facts.md 11)
            return [_payload(item) for item in page.items], page.position
        raise AssertionError("a feed has a last page")

    # a call

    async def deliver(self, documents: list[Document]) -> None:
        """Call the function, and again as the policy says. Returns when the lease may move on, whatever came of it."""
        delivered = as_delivered(documents, self.trigger.hours_east)
        attempt = 0
        while True:
            try:
                await self._call(delivered)
            except FailedError:
                self.counts.failures += 1
                policy = self.trigger.retry
                if policy is None or (policy.count != FOREVER and attempt >= policy.count):
                    self.counts.given_up += 1  # facts.md 1, 2: a warning in the log, and the checkpoint advances
                    return
                await asyncio.sleep(policy.pause(attempt))
                attempt += 1
            else:
                return

    async def _call(self, documents: list[Document]) -> None:
        self.counts.calls += 1
        self.counts.largest = max(self.counts.largest, len(documents))
        app = self.app
        call = asyncio.create_task(app.changes([dict(document) for document in documents]))
        crash = asyncio.create_task(self._crashed.wait())
        try:
            await asyncio.wait({call, crash}, timeout=self.trigger.timeout, return_when=asyncio.FIRST_COMPLETED)
            if call.done() and not call.cancelled() and call.exception() is None:
                return
            if not call.done() and app is self.app:  # it takes too long: the host ends the process
                self.crash()
            raise FailedError
        finally:
            await _end(call, crash)

    # ends

    def crash(self) -> None:
        """The app's process dies, and the host starts another one."""
        self.app.kill()
        self._crashed.set()
        self._crashed = asyncio.Event()
        self.app = self.start()

    async def kill(self) -> None:
        """The instance dies. What was not checkpointed is redelivered by whoever takes its leases (facts.md 2)."""
        self._dead = True
        self.app.kill()
        await _end(*self._pumps.values())
        for lease in self.leases:
            if lease.owner == self.name:
                lease.owner = None


async def _end(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    for task in tasks:
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await task


def _payload(item: Document) -> Document:
    """A latest-version document: `_rid _self _etag _ts _lsn`. The store in memory has no names of its own for items."""
    own = {name: value for name, value in item.items() if not name.startswith("_")}
    rid = hashlib.sha256(f"{item['id']}|{own.get('customer')}".encode()).hexdigest()[:16]
    system = {"_rid": rid, "_self": f"dbs/d/colls/c/docs/{rid}/", "_attachments": "attachments/"}
    return own | system | {name: value for name, value in item.items() if name.startswith("_")}
