"""Repair of what verify has found: the writes and guards of live work, and none beside them where they can do it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from projections.batches import Write, write_all
from projections.errors import ConflictError
from projections.finding import NOBODYS, Finder, Finding
from projections.identity import Identity, Place
from projections.inspection import Inspector
from projections.outcomes import Result
from projections.provision import Layout
from projections.store import Container, Delete, Store
from projections.worker import Engine

AT_ONCE: Final = 8


class Repair:
    """Repairs what is wrong with one projection."""

    def __init__(self, store: Store, layout: Layout, engine: Engine, finder: Finder, inspector: Inspector) -> None:
        self._store = store
        self._state = layout.state
        self._engine = engine
        self._finder = finder
        self._inspector = inspector
        self._gate = asyncio.Semaphore(AT_ONCE)

    async def apply(self, findings: Sequence[Finding]) -> list[Result]:
        """Bring the items that differ in order; what happened to each. Foreign documents are left alone."""
        strays: dict[Identity, set[Place]] = {}
        for one in findings:
            identity = one.difference.identity
            if identity is not None and one.difference.what != NOBODYS:
                strays.setdefault(identity, set()).update([one.stray] if one.stray else [])
        results = await self._engine.repair(strays) if strays else []
        if self._engine.projection.placement == "append_only":
            await self._remove({place: owner for owner, places in strays.items() for place in places})
        await self._remove_records([one.stray for one in findings if one.difference.what == NOBODYS and one.stray])
        return results

    async def _remove(self, places: dict[Place, Identity]) -> None:
        """Without records no writer removes anything: each entry goes if it still says it is of the item."""
        documents = await self._inspector.documents(places) if places else {}
        writes = [
            Write(place.key, Delete(place.id, document["_etag"]))
            for place, document in documents.items()
            if self._finder.owner(document) == places[place]
        ]
        await self._delete(self._inspector.places.target, writes)

    async def _remove_records(self, places: Sequence[Place]) -> None:
        """Records where no writer reads any."""
        found = await self._store.read(self._state, places) if places else {}
        await self._delete(self._state, [Write(place.key, Delete(place.id, d["_etag"])) for place, d in found.items()])

    async def _delete(self, container: Container, writes: Sequence[Write]) -> None:
        for result in await write_all(self._store, container, writes, self._gate):
            if isinstance(result, Exception) and not isinstance(result, ConflictError):
                raise result
