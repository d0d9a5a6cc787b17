"""A store to rehearse on: reads are real, writes only seem to happen, and are told.

What is done on it goes the same way as real work, through the same planner and writer, so that what it comes to is
what real work would come to, as long as nobody else writes meanwhile.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from typing import Any, Final

from projections.identity import Place
from projections.keys import Key
from projections.store import Container, Create, Delete, Document, Operation, Patch, Rows, Store

KB: Final = 1024
CREATE: Final = 5.5
REPLACE: Final = 10.5
PER_KB: Final = 0.5
"""Request units of writing 1 KB, and of each further one: the published figures, for a few indexed properties
(learn.microsoft.com/azure/cosmos-db/request-units). A delete costs as much as a create."""


class Rehearsal:
    """Passes reads on to a store; keeps writes to itself, until they are forgotten.

    `told` is called with every write: container, key, operation, and what was there before, as far as it was read.
    """

    def __init__(
        self, store: Store, told: Callable[[Container, Key, Operation, Document | None], None] = lambda *_: None
    ) -> None:
        self._store = store
        self._told = told
        self._seen: dict[tuple[Container, Place], Document | None] = {}  # as read, or as written since
        self._etags = itertools.count(1)
        self.request_units = 0.0  # that the writes would cost, by the published figures

    def forget(self) -> None:
        """What was written so far has not happened. Memory stays flat if this is called now and then."""
        self._seen.clear()

    async def read(self, container: Container, places: Collection[Place]) -> dict[Place, Document]:
        unknown = [place for place in places if (container, place) not in self._seen]
        found = await self._store.read(container, unknown) if unknown else {}
        self._seen |= {(container, place): found.get(place) for place in unknown}
        return {place: dict(doc) for place in places if (doc := self._seen[container, place]) is not None}

    async def write(self, container: Container, key: Key, operations: Sequence[Operation]) -> list[str | None]:
        return [self._write(container, key, operation) for operation in operations]

    def _write(self, container: Container, key: Key, operation: Operation) -> str | None:
        place = container, Place(operation.id, key)
        before = self._seen.get(place)
        self._told(container, key, operation, before)
        self.request_units += _cost(operation, before)
        if isinstance(operation, Delete):
            self._seen[place] = None
            return None
        etag = f'"rehearsal {next(self._etags)}"'
        self._seen[place] = {**_after(operation, before), "_etag": etag, "_ts": (before or {}).get("_ts", 0)}
        return etag

    async def query(
        self, container: Container, text: str, parameters: Mapping[str, Any], key: Key | None = None, **more: Any
    ) -> AsyncIterator[Rows]:
        async for page in self._store.query(container, text, parameters, key, **more):
            yield page

    def __getattr__(self, name: str) -> Any:
        """Whatever else a store does reads only, but for making containers, which nobody rehearses."""
        return getattr(self._store, name)


def _after(operation: Operation, before: Document | None) -> Document:
    if isinstance(operation, Patch):
        kept = {name: value for name, value in (before or {}).items() if name not in operation.removed}
        return kept | dict(operation.values)
    assert not isinstance(operation, Delete)
    return operation.document


def _cost(operation: Operation, before: Document | None) -> float:
    document = before or {} if isinstance(operation, Delete) else _after(operation, before)
    beyond = max(0, len(json.dumps(document)) - KB) / KB
    over = not isinstance(operation, Create | Delete) and (before is not None or isinstance(operation, Patch))
    return (REPLACE if over else CREATE) + PER_KB * beyond
