"""Reading a source's feed: positions per feed range, stored after the work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from projections.errors import ConflictError, UnsafeError
from projections.identity import Place
from projections.keys import Key
from projections.outcomes import Tally
from projections.store import Container, Create, FeedRange, Replace, Start, Store, WriteError


class LostRangeError(UnsafeError):
    """Another worker has taken over this feed range."""


@dataclass
class Checkpoint:
    """The stored position in one feed range, with the outcomes of all the work before it."""

    feed_range: FeedRange
    position: str | None = None  # None: at the beginning
    tally: Tally = field(default_factory=Tally)
    caught_up: int | None = None  # epoch second at which the range was last found to have nothing more
    etag: str | None = None  # of the stored document

    def since(self) -> str | Start:
        return self.position if self.position is not None else Start()


class Checkpoints:
    """The checkpoints of one projection. One worker at a time owns a range: a position that moved under it stops it."""

    def __init__(self, store: Store, state: Container, projection: str) -> None:
        self._store = store
        self._state = state
        self._key = Key.of(projection)

    async def load(self, ranges: Sequence[FeedRange]) -> list[Checkpoint]:
        """The stored checkpoints; for parts of the feed that none covers yet, new ones at the beginning.

        The ranges of the first run are kept for good: the position of a range that has split meanwhile goes on in its
        children (facts.md 16), so that nothing is read again and nothing is without a reader.
        """
        stored = await self._stored()
        if stored:
            _check_cover(stored)
            return stored
        return [Checkpoint(feed_range) for feed_range in ranges]

    async def _stored(self) -> list[Checkpoint]:
        place = Place("ranges", self._key)
        index = (await self._store.read(self._state, [place])).get(place)
        if index is None:
            return []
        ranges = [FeedRange(low, high) for low, high in index["ranges"]]
        found = await self._store.read(self._state, [self._place(feed_range) for feed_range in ranges])
        return [
            _checkpoint(document) if (document := found.get(self._place(feed_range))) else Checkpoint(feed_range)
            for feed_range in ranges
        ]

    async def begin(self, checkpoints: Sequence[Checkpoint]) -> None:
        """Record which ranges there are, before the first of them moves."""
        # stored; change with a version
        document: dict[str, Any] = {
            "id": "ranges",
            "pk": self._key.values[0],
            "ranges": [[c.feed_range.low, c.feed_range.high] for c in checkpoints],
        }
        try:
            await self._store.write(self._state, self._key, [Create(document)])
        except WriteError as error:
            if not isinstance(error.cause, ConflictError):
                raise  # a conflict: they are recorded already

    async def save(self, checkpoint: Checkpoint) -> None:
        """Store a position, after the work before it is done.

        Raises:
            LostRangeError: another worker has moved this range's position.
        """
        document = _document(checkpoint, str(self._key.values[0]))
        operation = Replace(document, checkpoint.etag) if checkpoint.etag else Create(document)
        try:
            [checkpoint.etag] = await self._store.write(self._state, self._key, [operation])
        except WriteError as error:
            if not isinstance(error.cause, ConflictError):
                raise
            place = self._place(checkpoint.feed_range)
            present = (await self._store.read(self._state, [place])).get(place)
            if present is None or present["position"] != checkpoint.position:  # else only the answer was lost
                raise LostRangeError(f"another worker has moved feed range {checkpoint.feed_range}") from error
            checkpoint.etag = present["_etag"]

    def _place(self, feed_range: FeedRange) -> Place:
        return Place(f"range {feed_range}", self._key)


def _document(checkpoint: Checkpoint, projection: str) -> dict[str, Any]:
    # stored; change with a version
    return {
        "id": f"range {checkpoint.feed_range}",
        "pk": projection,
        "range": [checkpoint.feed_range.low, checkpoint.feed_range.high],
        "position": checkpoint.position,
        "tally": checkpoint.tally.to_stored(),
        "caughtUp": checkpoint.caught_up,
    }


def _checkpoint(document: Mapping[str, Any]) -> Checkpoint:
    return Checkpoint(
        FeedRange(*document["range"]), document["position"], Tally.from_stored(document["tally"]), document["caughtUp"],
        document["_etag"],
    )  # fmt: skip


def _check_cover(checkpoints: Sequence[Checkpoint]) -> None:
    """Together the ranges must cover the whole feed, or changes would be nobody's."""
    edge = ""
    for checkpoint in sorted(checkpoints, key=lambda c: c.feed_range.low):
        if checkpoint.feed_range.low != edge:
            raise UnsafeError(f"no checkpoint covers the feed from {edge or '0'} to {checkpoint.feed_range.low}")
        edge = checkpoint.feed_range.high
    if edge != "FF":
        raise UnsafeError(f"no checkpoint covers the feed from {edge or '0'} on")
