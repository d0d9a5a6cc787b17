"""Dead letters: items that cannot be projected, with the reason; kept until they can."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from projections.entries import State
from projections.errors import ConflictError, ItemError
from projections.identity import Identity, Place
from projections.keys import Key
from projections.store import Container, Delete, Description, Document, Store, Upsert, WriteError

KEY_PATH: Final = "/projection"


@dataclass(frozen=True)
class DeadLetter:
    """A parked item."""

    projection: str  # full name
    identity: Identity
    error: str  # class of the error
    reason: str
    hint: str | None
    version: Mapping[str, Any]  # of the state that failed
    attempts: int
    first: int  # epoch seconds
    last: int

    @staticmethod
    def from_stored(document: Mapping[str, Any]) -> DeadLetter:
        return DeadLetter(
            document["projection"], Identity.from_stored(document["source"]), document["error"], document["reason"],
            document.get("hint"), document["version"], document["attempts"], document["first"], document["last"],
        )  # fmt: skip


class DeadLetters:
    """The dead letters of one projection. Parking twice counts the attempts; the item is the same dead letter."""

    def __init__(
        self, store: Store, container: Container, projection: str, clock: Callable[[], float] = time.time
    ) -> None:
        self._store = store
        self._container = container
        self._projection = projection
        self._clock = clock

    @staticmethod
    def description(container: Container) -> Description:
        """The container that dead letters need: indexed, since people ask for them by reason and age."""
        return Description(container, (KEY_PATH,), default_ttl=None)

    def _place(self, identity: Identity) -> Place:
        return Place(identity.entry_id, Key.of(self._projection))

    async def park(self, state: State, error: ItemError) -> None:
        """Record that an item could not be projected."""
        place = self._place(state.identity)
        before = (await self._store.read(self._container, [place])).get(place, {})
        now = int(self._clock())
        # stored; change with a version
        document: Document = {
            "id": place.id,
            "projection": self._projection,
            "source": state.identity.to_stored(),
            "version": state.version.to_stored(),
            "error": type(error).__name__,
            "reason": error.message,
            "hint": error.hint,
            "attempts": before.get("attempts", 0) + 1,
            "first": before.get("first", now),
            "last": now,
        }
        await self._store.write(self._container, place.key, [Upsert(document)])

    async def clear(self, identities: Collection[Identity]) -> None:
        """Take away the dead letters of items that have been projected since."""
        found = await self._store.read(self._container, [self._place(identity) for identity in identities])
        for place, document in found.items():
            try:
                await self._store.write(self._container, place.key, [Delete(place.id, document["_etag"])])
            except WriteError as error:
                if not isinstance(error.cause, ConflictError):
                    raise  # a conflict means that it was parked again or cleared meanwhile: leave that be

    async def all(self) -> AsyncIterator[DeadLetter]:
        """Every dead letter of the projection."""
        pages = self._store.query(self._container, "SELECT * FROM c", {}, Key.of(self._projection))
        async for page in pages:
            for document in page:
                yield DeadLetter.from_stored(document)

    async def count(self) -> int:
        pages = self._store.query(self._container, "SELECT VALUE COUNT(1) FROM c", {}, Key.of(self._projection))
        return sum([n async for page in pages for n in page])
