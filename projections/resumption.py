"""Where a replay is: what it was asked for, and its positions, in the state container."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, TypeAlias

from projections.batches import Write, write_all
from projections.errors import AskError, ProjectionsError, UnsafeError
from projections.feed import Checkpoint, Checkpoints
from projections.identity import Place
from projections.keys import Key
from projections.outcomes import Tally
from projections.store import Container, Delete, Document, FeedRange, Store, Upsert

RECORD: Final = "replay"
"""The id of what is stored beside the positions."""
WRITES_AT_ONCE: Final = 4

From: TypeAlias = Literal["beginning", "checkpoint"] | int
"""Where a replay begins: at the beginning of the feed; where the last replay ended; at changes of this epoch second."""


def position(begin: From) -> str | None:
    return f"@{begin}" if isinstance(begin, int) else None


class Resumption:
    """What is stored of one projection's replays: of the one under way, or else of the last one."""

    def __init__(self, store: Store, state: Container, projection: str) -> None:
        self._store = store
        self._state = state
        self._name = f"{projection} replay"
        self._key = Key.of(self._name)
        self._checkpoints = Checkpoints(store, state, self._name)
        self._asked: dict[str, Any] = {}
        self.resumed = False

    @property
    def began(self) -> int:
        """When the replay was begun that goes on or has ended (epoch seconds)."""
        began: int = self._asked["began"]
        return began

    async def begin(
        self, begin: From, selection: Mapping[str, Any], ranges: Sequence[FeedRange], now: float, *, restart: bool
    ) -> list[Checkpoint]:
        """The positions to go on from: of an unfinished replay that was asked for the same, else new ones.

        Raises:
            UnsafeError: an unfinished one was asked for something else.
            AskError: there is no last one to go on from.
        """
        self._asked = {"from": begin, "selection": dict(selection), "began": int(now), "finished": None}
        record = await self.record()
        if record is not None and record["finished"] is None and not restart:
            if (record["from"], record["selection"]) != (begin, selection):
                raise UnsafeError(
                    f"a replay from {record['from']} is unfinished, and was asked for something else",
                    hint="let it finish first, or forget it with --restart",
                )
            self._asked["began"] = record["began"]
            self.resumed = True
            return await self._checkpoints.load([])  # the ranges were recorded before the replay was
        if begin == "checkpoint":
            return await self._go_on(record)
        await self._forget()
        new = [Checkpoint(feed_range, position(begin)) for feed_range in ranges]
        await self._checkpoints.begin(new)
        for checkpoint in new if position(begin) else ():
            await self._checkpoints.save(checkpoint)
        await self._write()
        return new

    async def _go_on(self, record: Mapping[str, Any] | None) -> list[Checkpoint]:
        if record is None:
            raise AskError("no replay has come to its end yet", hint="begin with --from beginning, or a time")
        stored = await self._checkpoints.load([])
        again = [replace(checkpoint, tally=Tally()) for checkpoint in stored]
        for checkpoint in again:
            await self._checkpoints.save(checkpoint)
        await self._write()
        return again

    async def save(self, checkpoint: Checkpoint) -> None:
        """Store a position, after the work before it is done.

        Raises:
            LostRangeError: another replay has moved it.
        """
        await self._checkpoints.save(checkpoint)

    async def end(self, now: float) -> None:
        self._asked["finished"] = int(now)
        await self._write()

    async def record(self) -> Document | None:
        """What is stored of the replay under way, or of the last one."""
        place = Place(RECORD, self._key)
        return (await self._store.read(self._state, [place])).get(place)

    async def _write(self) -> None:
        # stored; change with a version
        document = {"id": RECORD, "pk": self._name, **self._asked}
        await self._store.write(self._state, self._key, [Upsert(document)])

    async def _forget(self) -> None:
        """The record goes first: positions without one are never gone on from."""
        pages = self._store.query(self._state, "SELECT * FROM c", {}, self._key)
        found = [doc async for page in pages for doc in page]
        found.sort(key=lambda doc: doc["id"] != RECORD)
        for part in (found[:1], found[1:]):
            writes = [Write(self._key, Delete(doc["id"], doc["_etag"])) for doc in part]
            for result in await write_all(self._store, self._state, writes, asyncio.Semaphore(WRITES_AT_ONCE)):
                if isinstance(result, ProjectionsError):
                    raise UnsafeError("another replay of it is at work", hint="let that one finish") from result
