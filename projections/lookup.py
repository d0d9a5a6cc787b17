"""Reading entries by key, following them to their source items, and saying what it cost."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from projections.aggregate import Aggregate
from projections.declare import Projection
from projections.embed import Embed
from projections.entries import Rules, State, wanted
from projections.errors import AskError, CatalogError, ItemError, SkippedError
from projections.groups import totals
from projections.identity import Identity, Place
from projections.keys import Key, at, parse_path
from projections.merging import Merged, Sorting
from projections.metering import Cost, measured
from projections.provision import Layout
from projections.references import HeaderState, header_places
from projections.store import Document, Rows, Store
from projections.version import Version
from projections.waiting import Waiting, Written

PAGE_SIZE: Final = 100
"""Entries a page, unless said otherwise."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """The answer of a lookup."""

    entries: list[Document]
    items: list[Document | None] | None = None  # the source items, in step with the entries; None: not asked for
    dropped: int = 0  # entries left out because their source item is gone or no longer says so
    token: str | None = None  # to go on with, where this is one page of several; opaque text
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

    async def entries(
        self,
        *values: Any,
        source: bool = False,
        fresh: bool = False,
        order_by: str | None = None,
        descending: bool = False,
        page_size: int | None = None,
        token: str | None = None,
    ) -> Found:
        """The entries under a key, its values in level order, or one mapping of paths to values.

        Fewer values than a hierarchical key has levels are a prefix: every entry below it, whatever its deeper
        levels. A key with suffixes is asked for under all of them, side by side. `source` reads the items that the
        entries were made from, too. `fresh` leaves out entries that no longer follow from their item, as it is now.

        `order_by` is a field such as "/total"; without it, entries come in no particular order. With `page_size` it is
        one page of the answer, and the next one is had with the `token` that is found.

        Raises:
            AskError: no key of the projection is made so; it says what to give.
            MissingContainerError: the target, or for `source` and `fresh` the source, does not exist.
        """
        with measured() as cost:
            if isinstance(self._projection, Aggregate):
                special = source or fresh or page_size is not None or token is not None
                return _found(cost, await self._totals(self._projection, values, order_by, descending, special))
            merged = await self._merged(values, order_by, descending, token)
            return await self._page(merged, _size(page_size), source, fresh, cost)

    async def pages(
        self,
        *values: Any,
        source: bool = False,
        fresh: bool = False,
        order_by: str | None = None,
        descending: bool = False,
        page_size: int = PAGE_SIZE,
        token: str | None = None,
    ) -> AsyncIterator[Found]:
        """Like `entries`, page by page to the end, in memory that stays flat. Any page's token takes it up again.

        The totals of an Aggregate are one page.
        """
        if isinstance(self._projection, Aggregate):
            yield await self.entries(
                *values, source=source, fresh=fresh, order_by=order_by, descending=descending, token=token
            )
            return
        merged = await self._merged(values, order_by, descending, token)
        while True:
            with measured() as cost:
                found = await self._page(merged, _size(page_size), source, fresh, cost)
            yield found
            if found.token is None:
                return

    async def _totals(
        self, projection: Aggregate, values: Sequence[Any], order_by: str | None, descending: bool, special: bool
    ) -> list[Document]:
        if special:
            raise self._named(
                AskError(
                    "a total follows from many items, and the totals under a key are read at once",
                    hint="ask without source, fresh, page_size and token",
                )
            )
        keys, sorting = await self._asked(values, order_by, descending)
        target, reserved = self._layout.target(projection), self._layout.catalog.reserved
        found = await totals(self._store, target, projection, keys, reserved)
        return found if sorting is None else sorted(found, key=sorting.rank)

    async def _merged(self, values: Sequence[Any], order_by: str | None, descending: bool, token: str | None) -> Merged:
        target = self._layout.target(self._projection)

        def ask(key: Key, text: str, after: str | None, size: int | None) -> AsyncIterator[Rows]:
            return self._store.query(target, text, {}, key, after=after, page_size=size)

        keys, sorting = await self._asked(values, order_by, descending)
        try:
            return Merged(ask, keys, sorting, token)
        except AskError as error:
            raise self._named(error) from None

    async def _asked(
        self, values: Sequence[Any], order_by: str | None, descending: bool
    ) -> tuple[list[Key], Sorting | None]:
        """The keys to ask for, and the order."""
        if self._projection.fills_source:
            raise self._named(
                AskError(
                    "it has no entries: its copies are in the items themselves",
                    hint=f"read these from {self._layout.source(self._projection)}",
                )
            )
        sorting = Sorting(order_by, descending) if order_by is not None else None
        try:
            parse_path(order_by or "/id")
            return self._projection.key.ask(*values), sorting
        except SkippedError as error:
            ranges = len(await self._store.feed_ranges(self._layout.target(self._projection)))
            error.message += f"; at present there {'is 1' if ranges == 1 else f'are {ranges}'}"
            raise self._named(error) from None
        except CatalogError as error:
            raise self._named(AskError(f"order_by: {error.message}", hint=error.hint)) from None
        except AskError as error:
            raise self._named(error) from None

    def _named(self, error: AskError) -> AskError:
        error.projection = self._projection.label
        return error

    async def wait_for(self, written: Written, *, timeout: float = 10.0) -> None:
        """Wait until a write to the source has been passed: what is read then follows from it, or from a newer state.

        `written` is the session token that the write's answer had (`x-ms-session-token`), the item as the store gave
        it back, or its Identity: then everything counts that was written to its logical partition so far.

        Raises:
            AskError: this does not say which write.
            BehindError: not within `timeout` seconds; it says how far behind the projection is.
        """
        await Waiting(self._store, self._layout, self._projection).until(written, timeout)

    async def _page(self, merged: Merged, size: int | None, source: bool, fresh: bool, cost: Cost) -> Found:
        entries = await merged.page(size)
        if not source and not fresh:
            return _found(cost, entries, token=merged.token)
        pairs = list(zip(entries, await self._items(entries), strict=True))
        if fresh:
            rules, headers = await self._known_rules(), await self._headers(pairs)
            pairs = [(entry, item) for entry, item in pairs if self._follows(rules, entry, item, headers)]
        kept = [entry for entry, _ in pairs]
        items = [item for _, item in pairs] if source else None
        return _found(cost, kept, items, len(entries) - len(kept), merged.token)

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

    async def _headers(self, pairs: Sequence[tuple[Document, Document | None]]) -> dict[str, HeaderState | None]:
        """Of an Embed: what entries follow from beside their items, where those have changed."""
        refs = self._layout.refs(self._projection)
        if refs is None or not isinstance(self._projection, Embed):
            return {}
        changed = [item for entry, item in pairs if item and (self._mark(entry) or {}).get("etag") != item["_etag"]]
        places = {place.plain: None for item in changed for place in header_places(self._projection, item)}
        found = await self._store.read(refs, places) if places else {}
        reserved = self._layout.catalog.reserved
        return {str(place.key.values[0]): HeaderState.of(doc, reserved) for place, doc in found.items()}

    def _follows(
        self, rules: Rules, entry: Document, item: Document | None, headers: Mapping[str, HeaderState | None]
    ) -> bool:
        """Whether an entry still follows from its item."""
        mark = self._mark(entry)
        if mark is None or item is None:
            return False
        if mark.get("etag") == item["_etag"]:
            return True
        try:
            state = State(Identity.from_stored(mark), Version.of(item, from_feed=False), item)
            want = wanted(rules, state, self._now(), headers)
        except ItemError:
            return False
        here = Place(entry["id"], Key.of(*(at(entry, parse_path(path)) for path in self._projection.key.paths)))
        return any(e.place == here and e.hash == mark.get("hash") for e in want.entries)


def _size(page_size: int | None) -> int | None:
    if page_size is not None and page_size < 1:
        raise AskError(f"page_size: {page_size}", hint="give 1 or more")
    return page_size


def _found(
    cost: Cost,
    entries: list[Document],
    items: list[Document | None] | None = None,
    dropped: int = 0,
    token: str | None = None,
) -> Found:
    return Found(
        entries=entries, items=items, dropped=dropped, token=token, request_units=round(cost.request_units, 2),
        calls=cost.calls,
    )  # fmt: skip
