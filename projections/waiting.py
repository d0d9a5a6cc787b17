"""Read your writes: waiting until a projection has passed a write to its source."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from projections.declare import Projection
from projections.errors import AskError, ProjectionsError
from projections.feed import Checkpoint, Checkpoints, oldest
from projections.identity import Identity, Place
from projections.provision import Layout
from projections.store import Store

Written: TypeAlias = str | int | Identity | Mapping[str, Any]
"""A write: the session token of its answer, an LSN, the item's identity, or the item as the store gave it back."""

FIRST_REST, LONGEST_REST = 0.05, 1.0
REPLICA_SECONDS: Final = 5.0
"""How long a replica may take to show an item that was written: what is not there by then is taken for gone."""


class BehindError(ProjectionsError):
    """The projection has not passed the write in time."""


class Waiting:
    """Waits for one projection."""

    def __init__(self, store: Store, layout: Layout, projection: Projection) -> None:
        self._store = store
        self._layout = layout
        self._projection = projection
        self._source = layout.source(projection)

    async def until(self, written: Written, timeout: float) -> None:
        """Wait until the projection has passed a write.

        Raises:
            AskError: this does not say which write.
            BehindError: it has not passed it within so many seconds; it says how far behind it is.
        """
        deadline = _clock() + timeout
        try:
            token = await self._token(written, deadline)
            rest = FIRST_REST
            while (gap := await self._gap(token)) != 0:
                left = deadline - _clock()
                if left <= 0:
                    raise await self._too_late(gap, timeout)
                await asyncio.sleep(min(rest, left))
                rest = min(LONGEST_REST, rest * 1.5)
        except AskError as error:
            error.projection = self._projection.name
            raise

    async def _too_late(self, gap: int | None, timeout: float) -> BehindError:
        name = self._projection.name
        if gap is None:
            return BehindError(
                f"no position is stored after {timeout:g} s", projection=name,
                hint=f"start `projections run {name}`; the positions of the Functions host are not known here",
            )  # fmt: skip
        ages = [age for checkpoint in await self._checkpoints() if (age := await self._oldest(checkpoint)) is not None]
        lag = f"; its oldest pending change is {max(ages):.0f} s old" if ages else ""
        return BehindError(
            f"after {timeout:g} s it is {gap:,} transactions (LSN) behind the write{lag}",
            projection=name,
            hint="is a worker running? `projections status` shows how it gets on; or wait longer",
        )

    # which write

    async def _token(self, written: Written, deadline: float) -> str:
        if isinstance(written, bool) or not isinstance(written, str | int | Identity | Mapping):
            raise AskError(f"{type(written).__name__} is no write", hint=HINT)
        if isinstance(written, str | int):
            return str(written)
        if isinstance(written, Identity):
            return await self._store.session(self._source, written.key)
        return await self._token_of_item(written, deadline)

    async def _token_of_item(self, item: Mapping[str, Any], deadline: float) -> str:
        """A token from a read that has seen the item as it was written, or newer."""
        if not isinstance(item.get("id"), str) or "_etag" not in item or "_ts" not in item:
            raise AskError("this is no item as the store gives it back", hint=HINT)
        identity = Identity.of(item, self._projection.source.key)
        place = Place(identity.id, identity.key)
        deadline = min(deadline, _clock() + REPLICA_SECONDS)
        while True:
            found = (await self._store.read(self._source, [place])).get(place)
            seen = found is not None and (found["_etag"] == item["_etag"] or found["_ts"] > item["_ts"])
            if seen or _clock() >= deadline:
                return await self._store.session(self._source, place.key)
            await asyncio.sleep(FIRST_REST)

    # how far

    async def _gap(self, token: str) -> int | None:
        """LSNs that the projection is behind; None: it has no positions."""
        checkpoints = await self._checkpoints()
        if not checkpoints:
            return None
        gaps = [await self._store.behind(self._source, one.feed_range, one.position, token) for one in checkpoints]
        late = [(gap, one) for one, gap in zip(checkpoints, gaps, strict=True) if gap]
        # a position moves on with changes only, and a deleted item is none
        return max([gap for gap, one in late if await self._oldest(one) is not None], default=0)

    async def _checkpoints(self) -> list[Checkpoint]:
        return await Checkpoints(self._store, self._layout.state, self._projection.full_name).load([])

    async def _oldest(self, checkpoint: Checkpoint) -> float | None:
        """Seconds since the first pending change of a range was made; None: nothing is pending."""
        return await oldest(self._store, self._source, checkpoint, time.time())


HINT: Final = "give the session token of the write's answer, the item as it came back, or its Identity"


def _clock() -> float:
    return asyncio.get_running_loop().time()
