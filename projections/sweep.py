"""What expires in the source has to leave the totals, and the copies of it to go; no feed tells of it (facts.md 15).

A contribution, or a header, knows when its item expires, and does not expire by itself: totals and copies would stay.
So somebody looks for those whose time is up, and has the items' present states applied: gone, or kept by a longer `ttl`
since.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias

from projections.aggregate import EXPIRES
from projections.embed import REF
from projections.entries import State
from projections.identity import Identity
from projections.outcomes import Outcome, Result
from projections.store import Container, Store
from projections.version import Version

AT_ONCE: Final = 500
"""Items a query; there may be any number."""

CHANGED: Final = (Outcome.REMOVED, Outcome.WRITTEN)
"""Of what then does not expire any more, or not yet."""

Apply: TypeAlias = Callable[[Sequence[State]], Awaitable[list[Result]]]


class Sweep:
    """Takes what expired items have contributed out of one target. Several at once do no harm.

    `reference`: of an Embed, where the target has the headers of several.
    """

    def __init__(
        self, store: Store, target: Container, reserved: str, apply: Apply, *, reference: str | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        self._store = store
        self._target = target
        self._text = f'SELECT TOP {AT_ONCE} VALUE c["{reserved}"] FROM c WHERE c["{EXPIRES}"] <= @now'
        self._parameters: dict[str, Any] = {}
        if reference is not None:
            self._text += f" AND STARTSWITH(c.{REF}, @ref)"
            self._parameters = {"@ref": f"{reference}|"}
        self._apply = apply
        self._now = now

    async def run(self, *, stop: Callable[[], bool] = lambda: False) -> list[Result]:
        """Go on until nothing that has expired is left, or nothing more can be done about it, or `stop` says so.

        Raises:
            TransientError, FatalError: the next sweep finds what is left.
        """
        done: list[Result] = []
        while not stop():
            pages = self._store.query(self._target, self._text, self._parameters | {"@now": int(self._now())})
            notices = {
                identity: State(identity, Version.from_stored(mark), None)
                async for page in pages
                for mark in page
                for identity in [Identity.from_stored(mark)]
            }
            results = await self._apply(list(notices.values())) if notices else []
            done += results
            if len(notices) < AT_ONCE or not any(result.outcome in CHANGED for result in results):
                return done
        return done
