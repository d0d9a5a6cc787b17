"""Read your writes: waiting until a projection has passed a write to its source.

There are two who bring a projection on, and each leaves word of how far it is: the pull worker its checkpoints, the
Functions host its leases. A write has been passed as soon as either of them has passed it in every range that it may be
in: both apply the present state of an item or a newer one, and neither overwrites a newer one with an older. So nobody
has to say which of them runs, and it does no harm when both do, or when one has taken over from the other. Where a
source is in all-versions mode the host has passed it with both of its triggers, since only one is told of deletes.

A lease moves on whatever becomes of a call (facts.md 1). What a call of our app could not finish is deferred, on record
before the lease moves: so a write that a lease has passed is passed once nothing is deferred that may be its item. What
the host itself has lost shows in no lease; the audit finds it some minutes later.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from projections.declare import Projection
from projections.deferred import Deferred
from projections.errors import AskError, ProjectionsError
from projections.feed import Checkpoint, Checkpoints, oldest
from projections.identity import Identity, Place
from projections.keys import Key
from projections.leases import feeds
from projections.provision import Layout
from projections.store import Store

Written: TypeAlias = str | int | Identity | Mapping[str, Any]
"""A write: the session token of its answer, an LSN, the item's identity, or the item as the store gave it back."""

FIRST_REST, LONGEST_REST = 0.05, 1.0
REPLICA_SECONDS: Final = 5.0
"""How long a replica may take to show an item that was written: what is not there by then is taken for gone."""


class BehindError(ProjectionsError):
    """The projection has not passed the write in time."""


@dataclass(frozen=True)
class Missing:
    """What is missing until a write has been passed. Nothing, where there are neither LSNs nor deferred items."""

    gap: int = 0  # LSNs from a position to the write
    lag: float | None = None  # seconds since the first pending change was made
    deferred: int = 0  # items that may be the written one

    def __bool__(self) -> bool:
        return bool(self.gap or self.deferred)


class Waiting:
    """Waits for one projection."""

    def __init__(self, store: Store, layout: Layout, projection: Projection) -> None:
        self._store = store
        self._layout = layout
        self._projection = projection
        self._source = layout.source(projection)
        self._deferred = Deferred(store, layout.deadletters, projection.full_name)

    async def until(self, written: Written, timeout: float) -> None:
        """Wait until the projection has passed a write.

        Raises:
            AskError: this does not say which write.
            BehindError: it has not passed it within so many seconds; it says what is missing.
        """
        deadline = _clock() + timeout
        try:
            key = self._key(written)
            token = await self._token(written, key, deadline)
            rest = FIRST_REST
            while missing := await self._missing(token, key):
                left = deadline - _clock()
                if left <= 0:
                    raise self._too_late(missing, timeout)
                await asyncio.sleep(min(rest, left))
                rest = min(LONGEST_REST, rest * 1.5)
        except AskError as error:
            error.projection = self._projection.label
            raise

    def _too_late(self, missing: Missing, timeout: float) -> BehindError:
        name = self._projection.label
        if missing == NOBODY:
            return BehindError(
                f"no position is stored after {timeout:g} s", projection=name,
                hint=f"start `projections run {name}`, or the Functions app",
            )  # fmt: skip
        lag = f"; its oldest pending change is {missing.lag:.0f} s old" if missing.lag is not None else ""
        behind = f"it is {missing.gap:,} transactions (LSN) behind the write{lag}"
        deferred = f"it has passed the write, and has deferred items that may be the written one: {missing.deferred:,}"
        return BehindError(
            f"after {timeout:g} s {behind if missing.gap else deferred}",
            projection=name,
            hint="is a worker running? `projections status` shows how it gets on; or wait longer",
        )

    # which write

    def _key(self, written: Written) -> Key | None:
        """The source's partition key that was written to, where that is said.

        Raises:
            AskError: this is no write.
        """
        if isinstance(written, Identity):
            return written.key
        if isinstance(written, str | int) and not isinstance(written, bool):
            return None
        if not isinstance(written, Mapping):
            raise AskError(f"{type(written).__name__} is no write", hint=HINT)
        if not isinstance(written.get("id"), str) or "_etag" not in written or "_ts" not in written:
            raise AskError("this is no item as the store gives it back", hint=HINT)
        return Identity.of(written, self._projection.source.key).key

    async def _token(self, written: Written, key: Key | None, deadline: float) -> str:
        if key is None:
            return str(written)
        if isinstance(written, Mapping):
            await self._seen(written, Place(written["id"], key), min(deadline, _clock() + REPLICA_SECONDS))
        return await self._store.session(self._source, key)

    async def _seen(self, item: Mapping[str, Any], place: Place, deadline: float) -> None:
        """Wait until a read has seen the item as it was written, or newer: then the session has, too."""
        while True:
            found = (await self._store.read(self._source, [place])).get(place)
            seen = found is not None and (found["_etag"] == item["_etag"] or found["_ts"] > item["_ts"])
            if seen or _clock() >= deadline:
                return
            await asyncio.sleep(FIRST_REST)

    # how far

    async def _missing(self, token: str, key: Key | None) -> Missing:
        """What is missing to whoever is further, the worker or the host."""
        checkpoints = Checkpoints(self._store, self._layout.state, self._projection.full_name)
        worker = await self._behind(await checkpoints.load([]), token)
        if not worker:
            return worker
        ways = await feeds(self._store, self._layout, self._projection)
        host = max([await self._host(one, token) for one in ways], key=_gap)
        if not host:  # only now: a call defers before its lease moves on
            return Missing(deferred=await self._deferred.count(key))
        return min(worker, host, key=_gap)

    async def _host(self, ways: Sequence[Sequence[Checkpoint]], token: str) -> Missing:
        return min([await self._behind(way, token) for way in ways], key=_gap, default=NOBODY)

    async def _behind(self, checkpoints: Sequence[Checkpoint], token: str) -> Missing:
        if not checkpoints:
            return NOBODY
        gaps = [await self._store.behind(self._source, one.feed_range, one.position, token) for one in checkpoints]
        late = [(gap, await self._oldest(one)) for gap, one in zip(gaps, checkpoints, strict=True) if gap]
        # a position moves on with changes only, and a deleted item is none
        pending = [(gap, age) for gap, age in late if age is not None]
        return Missing(*map(max, zip(*pending, strict=True))) if pending else Missing()

    async def _oldest(self, checkpoint: Checkpoint) -> float | None:
        """Seconds since the first pending change of a range was made; None: nothing is pending."""
        return await oldest(self._store, self._source, checkpoint, time.time())


NOBODY: Final = Missing(gap=sys.maxsize)
"""Nobody has left word of any position."""
HINT: Final = "give the session token of the write's answer, the item as it came back, or its Identity"


def _gap(missing: Missing) -> int:
    return missing.gap


def _clock() -> float:
    return asyncio.get_running_loop().time()
