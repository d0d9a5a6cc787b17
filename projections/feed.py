"""Where one is in a source's feed: positions per feed range, stored after the work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from projections.changes import made_at
from projections.errors import ConflictError, LostPositionError, UnsafeError
from projections.identity import Place
from projections.keys import Key
from projections.outcomes import Tally
from projections.store import Container, Create, FeedRange, Replace, Start, Store, WriteError


class Span(NamedTuple):
    """From one epoch second to another."""

    start: int
    end: int

    def __str__(self) -> str:
        return " to ".join(datetime.fromtimestamp(end, UTC).strftime("%Y-%m-%d %H:%M:%SZ") for end in self)


class LostRangeError(UnsafeError):
    """Another worker has taken over this feed range."""


@dataclass(frozen=True)
class Versions:
    """How far a range of a source in all-versions mode is, from the first step of the hand-over on.

    `then`: where its feed of all versions goes on once that of the latest ones has been read to its end; None: it has,
    and the checkpoint's position is in the feed of all versions.
    """

    then: str | None
    known: int  # epoch second up to which all deletes are known
    missed: tuple[Span, ...] = ()  # when deletes may have been missed: the feed told of them no longer

    @staticmethod
    def from_stored(stored: Mapping[str, Any]) -> Versions:
        return Versions(stored["then"], stored["known"], tuple(Span(*span) for span in stored["missed"]))

    def to_stored(self) -> dict[str, Any]:
        # stored; change with a version
        return {"then": self.then, "known": self.known, "missed": [list(span) for span in self.missed]}


@dataclass
class Checkpoint:
    """The stored position in one feed range, with the outcomes of all the work before it."""

    feed_range: FeedRange
    position: str | None = None  # None: at the beginning
    tally: Tally = field(default_factory=Tally)
    caught_up: int | None = None  # epoch second at which the range was last found to have nothing more
    etag: str | None = None  # of the stored document
    versions: Versions | None = None  # of a source in all-versions mode

    def since(self) -> str | Start:
        return self.position if self.position is not None else Start()

    @property
    def pending(self) -> tuple[str | Start, ...]:
        """Where what is still to be read begins: at two places while the hand-over is under way."""
        return (self.since(), self.versions.then) if self.versions and self.versions.then else (self.since(),)

    @property
    def loading(self) -> bool:
        """Whether the latest versions are being read so that all versions can be, from then on."""
        return self.versions is not None and self.versions.then is not None


class Checkpoints:
    """The checkpoints of one projection. One worker at a time owns a range: a position that moved under it stops it."""

    def __init__(self, store: Store, state: Container, projection: str) -> None:
        self._store = store
        self._state = state
        self._key = Key.of(projection)
        self.projection = projection

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
            if present is None or _where(present) != _where(document):  # else only the answer was lost
                raise LostRangeError(f"another worker has moved feed range {checkpoint.feed_range}") from error
            checkpoint.etag = present["_etag"]

    def _place(self, feed_range: FeedRange) -> Place:
        return Place(f"range {feed_range}", self._key)


async def oldest(store: Store, source: Container, checkpoint: Checkpoint, now: float) -> float | None:
    """Seconds since the first change was made that a range has yet to read; None: there is none."""
    ages = [await _oldest_since(store, source, checkpoint, since, now) for since in checkpoint.pending]
    return max([age for age in ages if age is not None], default=None)


async def _oldest_since(
    store: Store, source: Container, checkpoint: Checkpoint, since: str | Start, now: float
) -> float | None:
    try:
        async with aclosing(store.changes(source, checkpoint.feed_range, since, page_size=1)) as pages:  # type: ignore[type-var]
            async for page in pages:
                return max(0.0, now - made_at(page.items[0])) if page.items else None
    except LostPositionError:
        if checkpoint.versions is None:
            raise
        return max(0.0, now - checkpoint.versions.known)  # told no longer, and to be loaded anew
    return None


def _where(document: Mapping[str, Any]) -> tuple[Any, Any]:
    return document["position"], document.get("versions")


def _document(checkpoint: Checkpoint, projection: str) -> dict[str, Any]:
    # stored; change with a version
    stored: dict[str, Any] = {
        "id": f"range {checkpoint.feed_range}",
        "pk": projection,
        "range": [checkpoint.feed_range.low, checkpoint.feed_range.high],
        "position": checkpoint.position,
        "tally": checkpoint.tally.to_stored(),
        "caughtUp": checkpoint.caught_up,
    }
    return stored if checkpoint.versions is None else stored | {"versions": checkpoint.versions.to_stored()}


def _checkpoint(document: Mapping[str, Any]) -> Checkpoint:
    return Checkpoint(
        FeedRange(*document["range"]), document["position"], Tally.from_stored(document["tally"]), document["caughtUp"],
        document["_etag"], Versions.from_stored(document["versions"]) if "versions" in document else None,
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
