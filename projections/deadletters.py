"""Dead letters: items that cannot be projected, with the reason; kept until they can.

All letters of a projection are in one logical partition, so that many are written with few calls. The letter of an item
has the id that its entry would have: parking an item again is the same letter with one attempt more.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from projections.batches import MAX_BYTES, Write, write_all
from projections.entries import State
from projections.errors import ConflictError, FatalError, ItemError
from projections.identity import Identity, Place
from projections.keys import Key
from projections.store import Container, Delete, Description, Document, Store, Upsert

KEY_PATH: Final = "/projection"
INDEXING: Final = {
    "indexingMode": "consistent",
    "automatic": True,
    "includedPaths": [{"path": "/*"}],
    "excludedPaths": [{"path": "/payload/*"}, {"path": '/"_etag"/?'}],
}
LONGEST_REASON: Final = 2_000
"""Characters: the names of an item's fields are in it, and those may be of any length."""
WRITES_AT_ONCE: Final = 4
FIELDS: Final = ", ".join(
    f"c.{name}"
    for name in ("id", "projection", "source", "version", "error", "reason", "hint", "path", "payloadBytes", "attempts",
                 "first", "last", "_etag")
)  # fmt: skip
"""All of a letter but its payload."""


@dataclass(frozen=True)
class Failure:
    """An item that cannot be projected, in a state, and why."""

    state: State
    error: ItemError
    once: bool = False  # no further attempt where there is a letter of this very state


@dataclass(frozen=True)
class DeadLetter:
    """A parked item."""

    projection: str  # full name
    identity: Identity
    error: str  # class of the error
    reason: str
    hint: str | None
    version: Mapping[str, Any]  # of the state that failed: where it was in the feed
    attempts: int
    first: int  # epoch seconds
    last: int
    path: str | None = None  # of the field that failed, where there is one
    payload: Mapping[str, Any] | None = field(default=None, repr=False)  # the item, where the projection keeps it
    payload_bytes: int | None = None  # of an item that was too large to be kept
    etag: str | None = field(default=None, compare=False)  # of the letter

    @property
    def id(self) -> str:
        """The letter's own id: what people choose it by."""
        return self.identity.entry_id

    @staticmethod
    def from_stored(document: Mapping[str, Any]) -> DeadLetter:
        return DeadLetter(
            document["projection"], Identity.from_stored(document["source"]), document["error"], document["reason"],
            document.get("hint"), document["version"], document["attempts"], document["first"], document["last"],
            document.get("path"), document.get("payload"), document.get("payloadBytes"), document.get("_etag"),
        )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        shown = {
            "id": self.id, "projection": self.projection, "item": self.identity.to_stored(), "error": self.error,
            "reason": self.reason, "hint": self.hint, "path": self.path, "version": dict(self.version),
            "attempts": self.attempts, "first": self.first, "last": self.last,
        }  # fmt: skip
        kept = {"payload": self.payload, "payloadBytes": self.payload_bytes}
        return shown | {name: value for name, value in kept.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Which letters: those for which all of this is so."""

    ids: tuple[str, ...] = ()  # one of these; any when empty
    reason: str | None = None  # is part of the reason, in upper or lower case
    error: str | None = None  # the class of the error
    until: float | None = None  # parked last at this time or before (epoch seconds)
    since: float | None = None  # parked last at this time or later

    def query(self, fields: str = FIELDS) -> tuple[str, dict[str, Any]]:
        """The text of a query for these fields, and its parameters."""
        ids = {f"@id{n}": id_ for n, id_ in enumerate(self.ids)}
        conditions = [f"c.id IN ({', '.join(ids)})"] if ids else []
        given: dict[str, Any] = dict(ids)
        for name, value, condition in (
            ("@reason", self.reason, "CONTAINS(c.reason, @reason, true)"),
            ("@error", self.error, "c.error = @error"),
            ("@until", self.until, "c.last <= @until"),
            ("@since", self.since, "c.last >= @since"),
        ):
            if value is not None:
                conditions.append(condition)
                given[name] = value
        return f"SELECT {fields} FROM c" + (f" WHERE {' AND '.join(conditions)}" if conditions else ""), given


class DeadLetters:
    """The dead letters of one projection. Parking twice counts the attempts; the item is the same dead letter."""

    def __init__(
        self, store: Store, container: Container, projection: str, clock: Callable[[], float] = time.time,
        *, payload: bool = False,
    ) -> None:  # fmt: skip
        self._store = store
        self._container = container
        self._projection = projection
        self._key = Key.of(projection)
        self._clock = clock
        self._payload = payload
        self._gate = asyncio.Semaphore(WRITES_AT_ONCE)

    @staticmethod
    def description(container: Container) -> Description:
        """The container that dead letters need: indexed, since people ask for them by reason and age."""
        return Description(container, (KEY_PATH,), default_ttl=None, indexing=INDEXING)

    def _place(self, identity: Identity) -> Place:
        return Place(identity.entry_id, self._key)

    async def park(self, failures: Sequence[Failure]) -> set[Identity]:
        """Record that items could not be projected; which of them were not on record in this very state.

        Raises:
            TransientError: the store is busy; nothing else has been done about these items.
            FatalError: the store will never take one of the letters.
        """
        if not failures:
            return set()
        found = await self._store.read(self._container, [self._place(f.state.identity) for f in failures])
        known = {failure.state.identity: found.get(self._place(failure.state.identity)) for failure in failures}
        new = {f.state.identity for f in failures if not _is_of(known[f.state.identity], f.state)}
        due = [failure for failure in failures if not failure.once or failure.state.identity in new]
        refused = await self._write(due, known, payload=self._payload)
        if refused and self._payload:  # too large, too deep: what matters is that there is a letter
            refused = await self._write([failure for failure, _ in refused], known, payload=False)
        for failure, error in refused:
            raise FatalError(
                f"no dead letter can be written of item {failure.state.identity}, so it stays where it is",
                hint="make room with `projections deadletters drop`, or mend the dead letters' container",
            ) from error
        return new

    async def _write(
        self, failures: Sequence[Failure], known: Mapping[Identity, Document | None], *, payload: bool
    ) -> list[tuple[Failure, Exception]]:
        """Write letters; those that were refused for good."""
        letters = [self._letter(failure, known[failure.state.identity] or {}, payload) for failure in failures]
        results = await write_all(
            self._store, self._container, [Write(self._key, Upsert(letter)) for letter in letters], self._gate
        )
        return [(f, result) for f, result in zip(failures, results, strict=True) if isinstance(result, Exception)]

    def _letter(self, failure: Failure, before: Mapping[str, Any], payload: bool) -> Document:
        state, error, now = failure.state, failure.error, int(self._clock())
        # stored; change with a version
        document: Document = {
            "id": state.identity.entry_id,
            "projection": self._projection,
            "source": state.identity.to_stored(),
            "version": state.version.to_stored(),
            "error": type(error).__name__,
            "reason": error.message[:LONGEST_REASON],
            "hint": error.hint,
            "attempts": before.get("attempts", 0) + 1,
            "first": before.get("first", now),
            "last": now,
        }
        if error.path is not None:
            document["path"] = error.path[:LONGEST_REASON]
        if self._payload and state.item is not None:
            size = len(json.dumps(state.item))  # as it is sent: what is not ASCII is escaped
            document |= {"payload": state.item} if payload and size < MAX_BYTES else {"payloadBytes": size}
        return document

    async def find(self, identities: Collection[Identity]) -> dict[Identity, DeadLetter]:
        """The letters of those items that have one."""
        if not identities:
            return {}
        found = await self._store.read(self._container, [self._place(identity) for identity in identities])
        letters = map(DeadLetter.from_stored, found.values())
        return {letter.identity: letter for letter in letters}

    async def remove(self, letters: Sequence[DeadLetter]) -> int:
        """Take letters away, each unless it has changed or gone since it was read; how many were."""
        writes = [Write(self._key, Delete(letter.id, letter.etag or "")) for letter in letters]
        results = await write_all(self._store, self._container, writes, self._gate)
        for result in results:
            if isinstance(result, Exception) and not isinstance(result, ConflictError):
                raise result
        return sum(result is None for result in results)

    async def clear(self, identities: Collection[Identity]) -> None:
        """Take away the dead letters of items that have been projected since."""
        await self.remove(list((await self.find(identities)).values()))

    async def chosen(self, choice: Choice) -> AsyncIterator[list[DeadLetter]]:
        """The letters of a choice, page by page as the store gives them, without their payloads."""
        text, parameters = choice.query()
        async for page in self._store.query(self._container, text, parameters, self._key):
            yield [DeadLetter.from_stored(document) for document in page]

    async def all(self) -> AsyncIterator[DeadLetter]:
        """Every dead letter of the projection."""
        async for page in self._store.query(self._container, "SELECT * FROM c", {}, self._key):
            for document in page:
                yield DeadLetter.from_stored(document)

    async def read(self, ids: Sequence[str]) -> list[DeadLetter]:
        """The letters with these ids, payloads included; those that there are."""
        found = await self._store.read(self._container, [Place(id_, self._key) for id_ in ids])
        return [DeadLetter.from_stored(document) for document in found.values()]

    async def count(self) -> int:
        pages = self._store.query(self._container, "SELECT VALUE COUNT(1) FROM c", {}, self._key)
        return sum([n async for page in pages for n in page])

    async def oldest(self) -> int | None:
        """When the first of all items that have a letter now was parked (epoch seconds)."""
        text = "SELECT TOP 1 VALUE c.first FROM c ORDER BY c.first"
        found = [first async for page in self._store.query(self._container, text, {}, self._key) for first in page]
        return min(found, default=None)


def _is_of(letter: Document | None, state: State) -> bool:
    """Whether a letter is of this very state."""
    return letter is not None and letter["version"].get("etag") == state.version.etag
