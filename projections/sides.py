"""What verify reads from end to end: the source, the target, and what is kept beside them, piece by piece.

Containers are read by their change feeds, which have positions to go on from; records and dead letters by queries of
their logical partitions.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from projections.declare import Projection
from projections.embed import HEADER_ID, Header
from projections.errors import TransientError
from projections.identity import Place
from projections.keys import Key, at, parse_path
from projections.plan import record_partition
from projections.provision import Layout
from projections.store import Container, Document, FeedRange, Start, Store

PAGE_SIZE: Final = 1_000
EVERYTHING: Final = "SELECT * FROM c"
HIGHEST: Final = 0x3FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF
"""Of the hashes that keys are spread by."""
SLICES: Final = 16
"""A sample is so many slices of every feed range."""
FOLLOW_SECONDS: Final = 60
"""A piece ends where there are only changes that came so much later than its beginning: those are in flight."""
PATIENCE_SECONDS: Final = 60.0
"""For a feed that is busy or away."""


class Side(StrEnum):
    SOURCE = "source"
    TARGET = "target"
    REFS = "refs"  # back-references
    RECORDS = "records"
    LETTERS = "letters"


@dataclass(frozen=True)
class Piece:
    """A part of one side: a feed range, or a logical partition."""

    side: Side
    feed_range: FeedRange | None = None
    partition: str | None = None
    since: str | None = None  # the position in the feed at which it begins; None: its beginning

    def to_stored(self) -> dict[str, Any]:
        # stored; change with a version
        stored: dict[str, Any] = {"side": self.side.value}
        if self.feed_range:
            stored["range"] = [self.feed_range.low, self.feed_range.high]
        told = {"partition": self.partition, "since": self.since}
        return stored | {name: value for name, value in told.items() if value is not None}

    @staticmethod
    def from_stored(stored: Mapping[str, Any]) -> Piece:
        feed_range = FeedRange(*stored["range"]) if "range" in stored else None
        return Piece(Side(stored["side"]), feed_range, stored.get("partition"), stored.get("since"))


@dataclass(frozen=True)
class Part:
    """Documents of a piece, and where to go on after them: None where nobody can, but from the beginning."""

    documents: Sequence[Document]
    position: str | None


class Sides:
    """The sides of one projection."""

    def __init__(
        self, store: Store, layout: Layout, projection: Projection, *, page_size: int = PAGE_SIZE,
        now: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        self._store = store
        self._projection = projection
        self._page_size = page_size
        self._now = now
        self._containers: dict[Side, Container | None] = {
            Side.SOURCE: layout.source(projection),
            Side.TARGET: None if projection.fills_source else layout.target(projection),
            Side.REFS: layout.refs(projection),
            Side.RECORDS: layout.state if projection.placement == "tracked" else None,
            Side.LETTERS: layout.deadletters,
        }
        refs = ("/ref",)
        self._paths = {
            Side.SOURCE: _names(projection.source.key.paths),
            Side.TARGET: _names(projection.key.paths),
            Side.REFS: _names(refs),
            Side.RECORDS: _names(("/pk",)),
            Side.LETTERS: _names(("/projection",)),
        }

    def container(self, side: Side) -> Container:
        found = self._containers[side]
        assert found
        return found

    def place(self, side: Side, document: Document) -> Place:
        """Where a document of a side is."""
        key = Key.of(*(at(document, names) for names in self._paths[side]))
        return Place(document["id"], key, "refs" if side is Side.REFS else "target")

    # pieces

    async def all(self) -> list[Piece]:
        """Everything, each side from its beginning."""
        found = [piece for side in (Side.TARGET, Side.REFS) for piece in await self._feed(side)]
        if self._containers[Side.RECORDS]:
            numbers = range(self._projection.placement_buckets)
            found += [Piece(Side.RECORDS, partition=record_partition(self._projection, n)) for n in numbers]
        found.append(Piece(Side.LETTERS, partition=self._projection.full_name))
        return found + await self._feed(Side.SOURCE)

    async def within(self, feed_range: FeedRange) -> list[Piece]:
        """What of source and target has keys in this range of hashes."""
        pieces = [piece for side in (Side.TARGET, Side.REFS, Side.SOURCE) for piece in await self._feed(side)]
        return [_cut(piece, low, high) for piece in pieces for low, high in [_common(piece, feed_range)] if low < high]

    async def sample(self, percent: float) -> list[Piece]:
        """So many percent of the keys of source and target, in slices that are the same every time."""
        found = []
        for piece in await self.within(FeedRange("", "FF")):
            assert piece.feed_range
            low, high = _number(piece.feed_range.low), _number(piece.feed_range.high)
            size = (high - low) // SLICES
            for begin in range(low, high - size + 1, size):
                found.append(_cut(piece, begin, begin + int(size * percent / 100)))
        return found

    async def _feed(self, side: Side) -> list[Piece]:
        container = self._containers[side]
        ranges = await self._store.feed_ranges(container) if container else []
        return [Piece(side, feed_range) for feed_range in ranges]

    # reading

    async def read(self, piece: Piece, position: str | None) -> AsyncIterator[Part]:
        """The rest of a piece, after a position in it."""
        parts = self._of_feed(piece, position) if piece.feed_range else self._of_query(piece, position)
        async for part in parts:
            yield Part([document for document in part.documents if self._is_own(piece.side, document)], part.position)

    def _is_own(self, side: Side, document: Document) -> bool:
        """Headers of several references share a container with back-references."""
        if side is Side.REFS:
            return bool(document["id"] != HEADER_ID)
        if side is Side.TARGET and isinstance(self._projection, Header):
            return bool(document["id"] == HEADER_ID and document["ref"].startswith(f"{self._projection.reference}|"))
        return True

    async def _of_feed(self, piece: Piece, position: str | None) -> AsyncIterator[Part]:
        """A feed that is busy for a while is read on from where it was."""
        began = self._now()
        at_: str | Start = position or piece.since or Start()
        last = time.monotonic()
        while True:
            try:
                async for part in self._changes(piece, at_):
                    at_, last = part.position or at_, time.monotonic()
                    yield part
                    if part.documents and part.documents[0]["_ts"] > began + FOLLOW_SECONDS:
                        return
                return
            except TransientError as error:
                if time.monotonic() - last > PATIENCE_SECONDS:
                    raise
                await asyncio.sleep(max(1.0, error.retry_after))

    async def _changes(self, piece: Piece, since: str | Start) -> AsyncIterator[Part]:
        assert piece.feed_range
        async for page in self._store.changes(self.container(piece.side), piece.feed_range, since, self._page_size):
            if not page.items:
                return
            yield Part(page.items, page.position)

    async def _of_query(self, piece: Piece, position: str | None) -> AsyncIterator[Part]:
        pages = self._store.query(
            self.container(piece.side), EVERYTHING, {}, Key.of(piece.partition), after=position,
            page_size=self._page_size,
        )  # fmt: skip
        async for rows in pages:
            yield Part(rows, rows.position)


def _names(paths: Sequence[str]) -> list[tuple[str, ...]]:
    return [parse_path(path) for path in paths]


def _number(edge: str) -> int:
    """The edge of a feed range among the hashes."""
    return min(int(edge.ljust(32, "0")[:32], 16), HIGHEST + 1) if edge else 0


def _common(piece: Piece, other: FeedRange) -> tuple[int, int]:
    assert piece.feed_range
    low = max(_number(piece.feed_range.low), _number(other.low))
    return low, min(_number(piece.feed_range.high), _number(other.high))


def _cut(piece: Piece, low: int, high: int) -> Piece:
    """Up to the end where it is the end."""
    edges = FeedRange("" if low == 0 else f"{low:032X}", "FF" if high > HIGHEST else f"{high:032X}")
    return Piece(piece.side, edges, since=piece.since)
