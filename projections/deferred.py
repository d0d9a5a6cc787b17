"""Deferred items: what a call of the Functions trigger could not finish in time, on record until a timer drains it.

The host moves a lease on whatever becomes of a call (facts.md 1, 2). So an item that is not done when the time is up is
written down by its identity before the call returns; its present state is applied later. Nothing of its content is
kept: state, not events.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from projections.batches import Write, write_all
from projections.changes import rid_of, state_of
from projections.deadletters import Choice
from projections.declare import Projection
from projections.entries import State
from projections.errors import ConflictError, ProjectionsError, TransientError
from projections.identity import Identity, Place
from projections.keys import Key
from projections.notices import doubtful
from projections.outcomes import Outcome, Result, Tally
from projections.store import Container, Create, Delete, Document, Replace, Store
from projections.version import Order, Version
from projections.worker import Engine
from projections.writer import UnfinishedError

log = logging.getLogger("projections")

PAGE_SIZE: Final = 200
WRITES_AT_ONCE: Final = 4
TRIES: Final = 10
"""Before deferrals that others keep changing count as trouble."""
REASON: Final = 500
"""Characters of a reason that are kept."""

_About: TypeAlias = tuple[State, str | None]
"""A notice, and the item's `_rid` where its identity may not be its true one."""

COUNT: Final = "SELECT VALUE COUNT(1) FROM c"
COUNT_OF_KEY: Final = f"{COUNT} WHERE c.source.key = @key OR NOT IS_NULL(c.rid)"
"""An item with a `_rid` on record may have another identity than it seems."""
FRUITLESS: Final = 2
"""Pages in a row of which nothing could be done, before a drain leaves the store in peace."""


def notice(projection: Projection, change: Mapping[str, Any]) -> State:
    """What the trigger tells of an item. Neither its content nor its identity can be trusted (facts.md 8)."""
    state = state_of(change, projection.source.key)
    return replace(state, item={"_rid": rid_of(change)})


@dataclass
class Pending:
    """The items of one call that are not done yet."""

    noticed: list[State] = field(default_factory=list)  # as the host wrote them, each with its item
    known: list[State] = field(default_factory=list)  # under their true identities
    results: list[Result] = field(default_factory=list)  # of those that are done

    @property
    def left(self) -> int:
        return len(self.noticed) + len(self.known)

    async def settle(self, engine: Engine, *, audit: bool = False) -> None:
        """Do what is left.

        Raises:
            TransientError: some of it is left still, and can be settled by another call.
        """
        if self.noticed:
            resolved = await engine.resolve(self.noticed)
            self.known, self.noticed = list(_newest([*self.known, *resolved.notices])), []
            self.results += [Result(identity, Outcome.SKIPPED, "gone") for identity in resolved.lost]
        if self.known:
            try:
                done = await engine.apply_present(self.known, audit=audit)
            except UnfinishedError as error:
                self.results += error.done
                self.known = error.remaining
                raise
            self.results += done
            self.known = []


def _newest(notices: Iterable[State]) -> Iterable[State]:
    """One notice an item: the newest as far as versions tell, else the last."""
    found: dict[Identity, State] = {}
    for state in notices:
        before = found.get(state.identity)
        if before is None or before.version.against(state.version) is not Order.NEWER:
            found[state.identity] = state
    return found.values()


@dataclass(frozen=True)
class Deferral:
    """One deferred item."""

    id: str  # of the stored document
    identity: Identity
    rid: str | None  # the store's own name of the item, where the identity may not be its true one; "": not told
    version: Version  # that was heard of
    reason: str
    attempts: int
    first: int  # epoch seconds
    last: int
    etag: str  # of the stored document

    @staticmethod
    def from_stored(document: Mapping[str, Any]) -> Deferral:
        return Deferral(
            document["id"], Identity.from_stored(document["source"]), document["rid"],
            Version.from_stored(document["version"]), document["reason"], document["attempts"], document["first"],
            document["last"], document["_etag"],
        )  # fmt: skip

    @property
    def notice(self) -> State:
        return State(self.identity, self.version, None if self.rid is None else {"_rid": self.rid})

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "id": self.id, "item": self.identity.to_stored(), "rid": self.rid, "version": self.version.to_stored(),
            "reason": self.reason, "attempts": self.attempts, "first": self.first, "last": self.last,
        }  # fmt: skip


class Deferred:
    """The deferred items of one projection, in a logical partition of their own beside its dead letters."""

    def __init__(
        self, store: Store, container: Container, projection: str, clock: Callable[[], float] = time.time
    ) -> None:
        self._store = store
        self._container = container
        self._name = f"{projection} deferred"
        self._key = Key.of(self._name)
        self._clock = clock

    async def defer(self, pending: Pending, reason: str) -> None:
        """Put on record what is left. Deferring twice counts the attempts; the item is the same deferral.

        Raises:
            TransientError: the store is too busy even for this, or refuses it.
        """
        left: dict[str, _About] = {_id(state.identity, None): (state, None) for state in pending.known}
        for state in pending.noticed:
            rid = str(state.item["_rid"]) if state.item is not None and doubtful(state.identity) else None
            left[_id(state.identity, rid)] = state, rid
        for _ in range(TRIES):
            if not left:
                return
            places = {id_: Place(id_, self._key) for id_ in left}
            found = await self._store.read(self._container, places.values())
            documents = [self._document(id_, *about, found.get(places[id_], {}), reason) for id_, about in left.items()]
            stored = [_conditional(document, found.get(places[document["id"]])) for document in documents]
            left = await self._write(stored, left)
        raise TransientError("deferred items are being changed faster than they can be written")

    async def _write(self, operations: list[Create | Replace], left: Mapping[str, _About]) -> dict[str, _About]:
        """Carry out writes; those that somebody was quicker with are to be written again."""
        writes = [Write(self._key, operation) for operation in operations]
        results = await write_all(self._store, self._container, writes, asyncio.Semaphore(WRITES_AT_ONCE))
        again = {}
        for (id_, about), result in zip(left.items(), results, strict=True):
            if isinstance(result, ConflictError):
                again[id_] = about
            elif isinstance(result, ProjectionsError):
                raise TransientError(f"{about[0].identity} cannot be deferred: {result.message}", hint=result.hint)
        return again

    def _document(self, id_: str, state: State, rid: str | None, before: Mapping[str, Any], reason: str) -> Document:
        version = Version.from_stored(before["version"]) if before else state.version
        if version.against(state.version) is not Order.NEWER:
            version = state.version
        now = int(self._clock())
        # stored; change with a version
        return {
            "id": id_,
            "projection": self._name,
            "source": state.identity.to_stored(),
            "rid": rid,
            "version": version.to_stored(),
            "reason": reason[:REASON],
            "attempts": before.get("attempts", 0) + 1,
            "first": before.get("first", now),
            "last": now,
        }

    async def pages(self, choice: Choice | None = None) -> AsyncIterator[list[Deferral]]:
        """All that is deferred, or what of it is chosen; there is nothing of items in it that could be large."""
        text, parameters = ("SELECT * FROM c", {}) if choice is None else choice.query("*")
        async for page in self._store.query(self._container, text, parameters, self._key):
            for start in range(0, len(page), PAGE_SIZE):
                yield [Deferral.from_stored(document) for document in page[start : start + PAGE_SIZE]]

    async def remove(self, deferrals: Sequence[Deferral]) -> None:
        """Take deferrals away; one that has been deferred anew meanwhile stays."""
        writes = [Write(self._key, Delete(deferral.id, deferral.etag)) for deferral in deferrals]
        results = await write_all(self._store, self._container, writes, asyncio.Semaphore(WRITES_AT_ONCE))
        for result in results:
            if isinstance(result, ProjectionsError) and not isinstance(result, ConflictError):
                raise result

    async def count(self, key: Key | None = None) -> int:
        """How many items are deferred; with a key of the source: that have it, or may have it."""
        text, parameters = (COUNT, {}) if key is None else (COUNT_OF_KEY, {"@key": key.to_list()})
        pages = self._store.query(self._container, text, parameters, self._key)
        return sum([n async for page in pages for n in page])

    async def oldest(self) -> int | None:
        """When the first of all items that are deferred now was deferred (epoch seconds)."""
        text = "SELECT TOP 1 VALUE c.first FROM c ORDER BY c.first"
        found = [first async for page in self._store.query(self._container, text, {}, self._key) for first in page]
        return min(found, default=None)


def _id(identity: Identity, rid: str | None) -> str:
    """Two items may look like one while their identities are in doubt; what tells them apart is the `_rid`."""
    # stored; change with a version
    if rid is None:
        return identity.entry_id
    return f"{identity.entry_id}~{base64.b32encode(hashlib.sha256(rid.encode()).digest()[:10]).decode().lower()}"


def _conditional(document: Document, before: Mapping[str, Any] | None) -> Create | Replace:
    return Create(document) if before is None else Replace(document, before["_etag"])


@dataclass
class DrainReport:
    """What one drain did."""

    tally: Tally = field(default_factory=Tally)
    finished: bool = True  # everything that was deferred when it began has been dealt with
    reason: str | None = None  # what kept it from finishing


class Drain:
    """Applies the present states of deferred items. Several at once do no harm: each removes only what it has seen."""

    def __init__(self, deferred: Deferred, engine: Engine) -> None:
        self._deferred = deferred
        self._engine = engine

    async def run(self, *, stop: Callable[[], bool] = lambda: False) -> DrainReport:
        """Go over all that is deferred once, or until `stop` says so, or until the store is found busy.

        Raises:
            TransientError, FatalError: nothing is lost; the next drain finds what is left.
        """
        report = DrainReport()
        fruitless = 0
        async for page in self._deferred.pages():
            if stop():
                report.finished, report.reason = False, report.reason or "the time is up"
                return report
            fruitless = 0 if await self._settle(page, report) else fruitless + 1
            if fruitless == FRUITLESS:
                return report
        return report

    async def _settle(self, page: Sequence[Deferral], report: DrainReport) -> bool:
        """Deal with a page; whether anything of it could be done.

        An earlier attempt may have been cut off between two writes: the places that an item has left are looked at,
        too.
        """
        noticed = [deferral for deferral in page if deferral.rid is not None]
        known = [deferral for deferral in page if deferral.rid is None]
        pending = Pending([d.notice for d in noticed], [d.notice for d in known])
        try:
            await pending.settle(self._engine, audit=True)
        except TransientError as error:
            report.finished, report.reason = False, error.message
        report.tally.add(pending.results)
        if pending.noticed:
            return False
        busy = {state.identity for state in pending.known}
        on_record = {deferral.identity for deferral in known}
        found_out = [state for state in pending.known if state.identity not in on_record]
        await self._deferred.defer(Pending(known=found_out), report.reason or "")
        done = noticed + [deferral for deferral in known if deferral.identity not in busy]
        await self._deferred.remove(done)
        return bool(done)
