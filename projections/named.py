"""Reading a projection by its name, in the version that is promoted, whichever that is by then."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any, Final, TypeVar

from projections.aliases import Aliases
from projections.declare import Projection
from projections.errors import AskError, MissingContainerError, TransientError
from projections.lookup import Found, Lookup
from projections.provision import Layout
from projections.store import Store
from projections.waiting import Written

T = TypeVar("T")

REFRESH_SECONDS: Final = 5.0
"""How old what is known of the alias may be: so long a running reader goes on with the version before."""


class NamedLookup:
    """Like Lookup, of the version that readers use. It looks at the alias every few seconds.

    A switch needs no restart: the next reading goes to the other version. A reading of several pages stays with the
    version that it began with, and so does a token.
    """

    def __init__(
        self, store: Store, layout: Layout, name: str, *, refresh: float = REFRESH_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._store = store
        self._layout = layout
        self._name = name
        self._aliases = Aliases(store, layout)
        self._refresh = refresh
        self._clock = clock
        self._known: tuple[float, Projection] | None = None
        self._lookups: dict[str, Lookup] = {}

    @staticmethod
    async def open(store: Store, layout: Layout, name: str, *, refresh: float = REFRESH_SECONDS) -> NamedLookup:
        """A lookup by name.

        Raises:
            CatalogError: there is no such projection, or the catalog does not have the version that readers use.
        """
        lookup = NamedLookup(store, layout, name, refresh=refresh)
        await lookup.projection()
        return lookup

    async def projection(self) -> Projection:
        """The version that readers use now.

        Raises:
            CatalogError: the catalog does not have it.
        """
        asked = self._clock()
        if self._known is None or asked - self._known[0] > self._refresh:
            try:
                self._known = asked, await self._aliases.in_use(self._name)
            except TransientError:
                if self._known is None:
                    raise
                self._known = asked, self._known[1]  # a busy store is no reason not to read
        return self._known[1]

    async def entries(self, *values: Any, token: str | None = None, **options: Any) -> Found:
        """As `Lookup.entries`; a token goes on with the version that gave it.

        Raises:
            AskError: no key is made so, or the version of the token is no more.
        """
        if token is not None:
            projection, token = self._of_token(token)
            return _marked(await self._lookup(projection).entries(*values, token=token, **options), projection)

        async def read(projection: Projection) -> Found:
            return _marked(await self._lookup(projection).entries(*values, **options), projection)

        return await self._now(read)

    async def pages(self, *values: Any, token: str | None = None, **options: Any) -> AsyncIterator[Found]:
        """As `Lookup.pages`, all of one version."""
        projection, token = (await self.projection(), None) if token is None else self._of_token(token)
        async for page in self._lookup(projection).pages(*values, token=token, **options):
            yield _marked(page, projection)

    async def wait_for(self, written: Written, *, timeout: float = 10.0) -> None:
        """As `Lookup.wait_for`."""
        await self._now(lambda projection: self._lookup(projection).wait_for(written, timeout=timeout))

    async def _now(self, read: Callable[[Projection], Awaitable[T]]) -> T:
        """Read the version in use. Where its target has gone, somebody has switched and dropped: look again at once."""
        projection = await self.projection()
        try:
            return await read(projection)
        except MissingContainerError:
            self._known = None
            if await self.projection() == projection:
                raise
            return await read(await self.projection())

    def _lookup(self, projection: Projection) -> Lookup:
        if projection.full_name not in self._lookups:
            self._lookups[projection.full_name] = Lookup(self._store, self._layout, projection)
        return self._lookups[projection.full_name]

    def _of_token(self, token: str) -> tuple[Projection, str]:
        version, _, inner = token.partition(":")
        for projection in self._layout.catalog.versions(self._name):
            if str(projection.version) == version:
                return projection, inner
        raise AskError("the version of this token is no more", projection=self._name, hint="read from the start again")


def _marked(found: Found, projection: Projection) -> Found:
    return found if found.token is None else replace(found, token=f"{projection.version}:{found.token}")
