"""The handlers: the one that Microsoft's samples show, and ours."""

from __future__ import annotations

import asyncio

from projections.errors import TransientError
from projections.functions import TriggeredWorker
from projections.keys import Key
from projections.settings import Settings
from projections.store import Document, Store, Upsert
from tests.host.world import BY_STATUS, SETTINGS, TARGET, Line, World

SDK_TRIES = 9  # facts.md 23


class Naive:
    """A loop of upserts of the payload, as the samples have it. The SDK tries 429 again for some seconds."""

    def __init__(self, line: Line, _: World) -> None:
        self._line = line

    async def changes(self, documents: list[Document]) -> None:
        for document in documents:
            copy = {name: value for name, value in document.items() if not name.startswith("_")}
            if not isinstance(copy["status"], str):
                raise ValueError("400: the key is no scalar")
            await self._upsert(copy)

    async def _upsert(self, copy: Document) -> None:
        for _ in range(SDK_TRIES):
            try:
                await self._line.write(TARGET, Key.of(copy["status"]), [Upsert(copy)])
            except TransientError:
                await asyncio.sleep(3.0)
            else:
                return
        raise TransientError("429")

    def kill(self) -> None:
        self._line.cut()


class Ours:
    """The worker of the Functions app, in a process of its own."""

    def __init__(self, line: Line, world: World) -> None:
        self._line = line
        self._worker = TriggeredWorker(SETTINGS, world.trigger.timeout, self._open, now=world.now)

    async def _open(self, _: Settings) -> Store:
        return self._line

    async def changes(self, documents: list[Document]) -> None:
        await self._worker.apply(BY_STATUS, documents)

    def kill(self) -> None:
        self._line.cut()
