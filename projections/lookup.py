"""Reading entries by key, following them to their source items, and saying what it cost."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from projections.declare import Projection
from projections.entries import Rules, State, wanted
from projections.errors import AskError, ItemError
from projections.identity import Identity, Place
from projections.keys import Key, KeyValue, at, parse_path
from projections.metering import Cost, measured
from projections.provision import Layout
from projections.store import Document, Store
from projections.version import Version


@dataclass(frozen=True, kw_only=True)
class Found:
    """The answer of a lookup."""

    entries: list[Document]
    items: list[Document | None] | None = None  # the source items, in step with the entries; None: not asked for
    dropped: int = 0  # entries left out because their source item is gone or no longer says so
    request_units: float = 0.0
    calls: int = 0


class Lookup:
    """Reads the entries of one projection."""

    def __init__(
        self, store: Store, layout: Layout, projection: Projection, *, now: Callable[[], float] = time.time
    ) -> None:
        self._store = store
        self._layout = layout
        self._projection = projection
        self._now = now
        self._rules: Rules | None = None

    async def entries(self, *values: KeyValue, source: bool = False, fresh: bool = False) -> Found:
        """The entries under a key, its values in level order.

        Fewer values than a hierarchical key has levels are a prefix: every entry below it, whatever its deeper
        levels. `source` reads the items that the entries were made from, too. `fresh` leaves out entries that no
        longer follow from their item, as it is now.

        Raises:
            AskError: no key of the projection is made so.
            MissingContainerError: the target, or for `source` and `fresh` the source, does not exist.
        """
        with measured() as cost:
            entries = [entry for key in self._keys(values) for entry in await self._under(key)]
            if not source and not fresh:
                return _found(cost, entries)
            pairs = list(zip(entries, await self._items(entries), strict=True))
            if fresh:
                rules = await self._known_rules()
                pairs = [(entry, item) for entry, item in pairs if self._follows(rules, entry, item)]
        kept = [entry for entry, _ in pairs]
        return _found(cost, kept, [item for _, item in pairs] if source else None, len(entries) - len(kept))

    def _keys(self, values: Sequence[KeyValue]) -> list[Key]:
        try:
            keys: list[Key] = self._projection.key.ask(*values)
        except AskError as error:
            error.projection = self._projection.name
            raise
        return keys

    async def _under(self, key: Key) -> list[Document]:
        pages = self._store.query(self._layout.target(self._projection), "SELECT * FROM c", {}, key)
        return [entry async for page in pages for entry in page]

    async def _items(self, entries: Sequence[Document]) -> list[Document | None]:
        places = [self._source_place(entry) for entry in entries]
        known = [place for place in dict.fromkeys(places) if place is not None]
        found = await self._store.read(self._layout.source(self._projection), known) if known else {}
        return [found.get(place) if place is not None else None for place in places]

    def _mark(self, entry: Document) -> Mapping[str, Any] | None:
        mark = entry.get(self._layout.catalog.reserved)
        return mark if isinstance(mark, Mapping) else None

    def _source_place(self, entry: Document) -> Place | None:
        mark = self._mark(entry)
        return Place.from_stored(mark) if mark is not None else None

    async def _known_rules(self) -> Rules:
        if self._rules is None:
            source = await self._store.describe(self._layout.source(self._projection))
            ttl = source.default_ttl if source else None
            self._rules = Rules(self._projection, self._layout.catalog.reserved, ttl)
        return self._rules

    def _follows(self, rules: Rules, entry: Document, item: Document | None) -> bool:
        """Whether an entry still follows from its item."""
        mark = self._mark(entry)
        if mark is None or item is None:
            return False
        if mark.get("etag") == item["_etag"]:
            return True
        try:
            state = State(Identity.from_stored(mark), Version.of(item, from_feed=False), item)
            want = wanted(rules, state, self._now())
        except ItemError:
            return False
        here = Place(entry["id"], Key.of(*(at(entry, parse_path(path)) for path in self._projection.key.paths)))
        return any(e.place == here and e.hash == mark.get("hash") for e in want.entries)


def _found(cost: Cost, entries: list[Document], items: list[Document | None] | None = None, dropped: int = 0) -> Found:
    return Found(
        entries=entries, items=items, dropped=dropped, request_units=round(cost.request_units, 2), calls=cost.calls
    )
