"""What expires in the source has to leave the totals, and no feed tells of it (facts.md 15).

A contribution knows when its item expires, and does not expire by itself: its total would stay. So somebody looks for
those whose time is up, and has the items' present states applied: gone, or kept by a longer `ttl` since.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias

from projections.aggregate import EXPIRES
from projections.entries import State
from projections.identity import Identity
from projections.outcomes import Outcome, Result
from projections.store import Container, Store
from projections.version import Version

AT_ONCE: Final = 500
"""Items a query; there may be any number."""

Apply: TypeAlias = Callable[[Sequence[State]], Awaitable[list[Result]]]


class Sweep:
    """Takes contributions of expired items out of the totals of one Aggregate. Several at once do no harm."""

    def __init__(
        self, store: Store, target: Container, reserved: str, apply: Apply, *, now: Callable[[], float] = time.time
    ) -> None:
        self._store = store
        self._target = target
        self._text = f'SELECT TOP {AT_ONCE} VALUE c["{reserved}"] FROM c WHERE c["{EXPIRES}"] <= @now'
        self._apply = apply
        self._now = now

    async def run(self, *, stop: Callable[[], bool] = lambda: False) -> list[Result]:
        """Go on until nothing that has expired is left, or nothing more can be done about it, or `stop` says so.

        Raises:
            TransientError, FatalError: the next sweep finds what is left.
        """
        done: list[Result] = []
        while not stop():
            pages = self._store.query(self._target, self._text, {"@now": int(self._now())})
            notices = {
                identity: State(identity, Version.from_stored(mark), None)
                async for page in pages
                for mark in page
                for identity in [Identity.from_stored(mark)]
            }
            results = await self._apply(list(notices.values())) if notices else []
            done += results
            if len(notices) < AT_ONCE or not any(result.outcome is Outcome.REMOVED for result in results):
                return done
        return done
