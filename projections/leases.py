"""The leases of the Functions host: how far it is with the feeds of a projection.

A lease is a document of the host's, one for each feed range (Azure/azure-cosmos-dotnet-v3, DocumentServiceLeaseCore and
DocumentServiceLeaseCoreEpk; facts.md 7). Its id is a trigger's lease prefix, the account's host name, the source's own
names in the store, and after ".." the range: the id of a physical partition or, where a lease is of a part of one, the
bounds. Beside leases there are ".info" and ".lock" documents.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from projections.declare import Projection
from projections.feed import Checkpoint
from projections.provision import Layout
from projections.store import FeedRange, Store, at_lsn
from projections.triggers import Trigger, triggers

LSN: Final = re.compile('"([0-9]+)"')
"""A lease's ContinuationToken: the feed's etag, an LSN in quotes (facts.md 7)."""


@dataclass(frozen=True, kw_only=True)
class Lease:
    """What the host has on record of one feed range."""

    id: str
    trigger: Trigger
    feed_range: FeedRange | None  # None: older than ranges in leases, and no host of today has taken it yet
    lsn: int | None  # of the last transaction that the host is done with; None: it has finished none
    owner: str | None  # the instance that works on it
    renewed: int  # epoch seconds; that it is renewed does not prove progress (facts.md 7)
    all_versions: bool  # the mode that it was made in, which cannot be changed (facts.md 6)

    @staticmethod
    def of(document: Mapping[str, Any], trigger: Trigger) -> Lease:
        token = LSN.fullmatch(document.get("ContinuationToken") or "")
        bounds = (document.get("FeedRange") or {}).get("Range")
        return Lease(
            id=document["id"],
            trigger=trigger,
            feed_range=FeedRange(bounds["min"], bounds["max"]) if bounds else None,
            lsn=int(token[1]) if token else None,
            owner=document.get("Owner") or None,
            renewed=document.get("_ts", 0),
            all_versions="full" in str(document.get("Mode", "")).casefold(),  # "Full-Fidelity Feed"
        )

    @property
    def feed(self) -> str:
        """Which feed it is about: one of another endpoint, or of a container that was made anew, is another one."""
        return self.id.partition("..")[0]

    @property
    def checkpoint(self) -> Checkpoint | None:
        """The same as the pull worker has it; None where the range is not known."""
        if self.feed_range is None:
            return None
        position = None if self.lsn is None else at_lsn(self.lsn, all_versions=self.trigger.all_versions)
        return Checkpoint(self.feed_range, position)


async def leases(store: Store, layout: Layout) -> list[Lease]:
    """All leases of the catalog's triggers; none where there is no container for them."""
    longest_first = sorted(triggers(layout), key=lambda trigger: -len(trigger.lease_prefix))
    if await store.describe(layout.leases) is None:
        return []
    return [
        Lease.of(document, trigger)
        async for page in store.query(layout.leases, "SELECT * FROM c", {})
        for document in page
        if (trigger := _trigger(document, longest_first)) is not None
    ]


def _trigger(document: Mapping[str, Any], longest_first: Sequence[Trigger]) -> Trigger | None:
    """Whose lease a document is, if it is one: "a-1-1-" begins a lease of another projection than "a-1-"."""
    own = (trigger for trigger in longest_first if document["id"].startswith(trigger.lease_prefix))
    return next(own, None) if "LeaseToken" in document else None


async def feeds(store: Store, layout: Layout, projection: Projection) -> list[list[list[Checkpoint]]]:
    """How far the host is with a projection: for each of its triggers the ways in which leases cover its whole feed.

    There are several ways where the host has known the account by several names: then it has begun anew with each of
    them, and what it has passed under one it has passed. Leases on a container of the same name that is no more say
    nothing of this one, and neither do some ranges of the whole: they are left out.
    """
    own = [trigger for trigger in triggers(layout) if trigger.projection.full_name == projection.full_name]
    found: dict[str, dict[str, list[Checkpoint]]] = {trigger.lease_prefix: {} for trigger in own}
    source = await store.describe(layout.source(projection))
    for lease in await leases(store, layout):
        ways = found.get(lease.trigger.lease_prefix)
        if ways is not None and lease.checkpoint and source and _is_of(lease.feed, source.rid):
            ways.setdefault(lease.feed, []).append(lease.checkpoint)
    return [[way for way in ways.values() if _covers(way)] for ways in found.values()]


def _is_of(feed: str, rid: str | None) -> bool:
    """Whether a feed is that of a container, where the store has a name of its own for it."""
    return rid is None or feed.endswith(f"_{rid}")


def _covers(some: Sequence[Checkpoint]) -> bool:
    """Whether no part of the feed is left out. After a split, a range and its children overlap for a moment."""
    edge = ""
    for one in sorted((checkpoint.feed_range for checkpoint in some), key=lambda one: one.low):
        if one.low > edge:
            return False
        edge = max(edge, one.high)
    return edge == "FF"
