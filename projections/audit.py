"""Audit: reads the feed again, some minutes behind live, and repairs what is not reflected or parked.

Live work is right as long as somebody finishes it. A host that loses a batch, or a worker that is overtaken on its
range and then dies between a write and its check, leaves a fault that no later change need touch. Audit goes over the
same feed from checkpoints of its own, through the same guarded writes, when whatever was under way has settled; it also
looks at the places that an item has left within the last hour, where a dead worker may have put an entry.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Final

from projections.changes import made_at
from projections.declare import Projection
from projections.feed import Checkpoint, Checkpoints, LostRangeError
from projections.handover import Reading
from projections.outcomes import Outcome, Result, Tally
from projections.provision import Layout
from projections.store import Page, Store
from projections.worker import Engine

log = logging.getLogger("projections")

BEHIND_SECONDS: Final = 300.0
"""How old a change is when audit looks at it: older than any call that is still at work on it."""
PAGE_SIZE: Final = 200

AS_IT_SHOULD_BE: Final = frozenset({Outcome.UNCHANGED, Outcome.SKIPPED, Outcome.STALE, Outcome.PARKED})


def audit_name(projection: Projection) -> str:
    """Under which its checkpoints are stored."""
    return f"{projection.full_name} audit"


@dataclass
class AuditReport:
    """What one run of an audit found."""

    examined: int = 0
    repaired: Tally = field(default_factory=Tally)
    caught_up: bool = True  # every change that is old enough has been looked at

    def add(self, results: list[Result]) -> None:
        self.examined += len(results)
        self.repaired.add(result for result in results if result.outcome not in AS_IT_SHOULD_BE)


class Audit:
    """The audit of one projection. Several at once do no harm: one of them loses the position and stops."""

    def __init__(
        self,
        store: Store,
        layout: Layout,
        engine: Engine,
        *,
        behind: float = BEHIND_SECONDS,
        page_size: int = PAGE_SIZE,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._engine = engine
        self._source = layout.source(engine.projection)
        self._checkpoints = Checkpoints(store, layout.state, audit_name(engine.projection))
        self._behind = behind
        self._page_size = page_size
        self._now = now

    async def run(self, *, stop: Callable[[], bool] = lambda: False) -> AuditReport:
        """Go over every change that is old enough, or until `stop` says so. Positions are kept for the next run.

        Raises:
            TransientError, FatalError: as the engine does; the positions stay at work that is done.
        """
        report = AuditReport()
        going = [(reading.checkpoint, self._settled(reading)) for reading in await self._readings()]
        while going:  # a page of each range in turn: a busy one does not keep the others waiting
            for checkpoint, pages in list(going):
                page = await anext(pages, None)
                if page is None:
                    going.remove((checkpoint, pages))
                    continue
                await self._look_at(checkpoint, page, report)
                if stop():
                    report.caught_up = False
                    return report
        return report

    async def note(self) -> None:
        """Store from where its first run goes over all versions of the source, where that is how it is read.

        Whoever loads the latest versions by another feed does it first: no delete is lost between the two.
        """
        if not self._engine.projection.source.all_versions:
            return
        for reading in await self._readings():
            with suppress(LostRangeError):  # another one was quicker
                await reading.begin()

    async def _readings(self) -> list[Reading]:
        loaded = await self._checkpoints.load(await self._store.feed_ranges(self._source))
        await self._checkpoints.begin(loaded)
        return [
            Reading(
                self._store, self._source, self._checkpoints, checkpoint,
                all_versions=self._engine.projection.source.all_versions, now=self._now,
            )
            for checkpoint in loaded
        ]  # fmt: skip

    async def _look_at(self, checkpoint: Checkpoint, page: Page, report: AuditReport) -> None:
        results = await self._engine.audit_page(page.items)
        report.add(results)
        for result in results:
            if result.outcome not in AS_IT_SHOULD_BE:
                name, item = self._engine.projection.label, str(result.identity)
                log.warning("repaired", extra={"projection": name, "item": item, "outcome": result.outcome.value})
        checkpoint.position = page.position
        checkpoint.tally.add(results)
        await self._checkpoints.save(checkpoint)

    async def _settled(self, reading: Reading) -> AsyncIterator[Page]:
        """The pages of changes that are old enough. One that holds younger ones is read again, cut before them."""
        size = self._page_size
        while True:
            page = await self._page(reading, size)
            if page is None:
                return
            if self._loaded(reading.checkpoint, page):
                await reading.hand_over()
                continue
            old = self._old(page)
            if old == len(page.items) or (old and size == old):  # an LSN is not cut: it may bring a few younger ones
                size = self._page_size
                yield page
            elif old:
                size = old
            else:
                return

    async def _page(self, reading: Reading, size: int) -> Page | None:
        async with aclosing(reading.pages(size)) as pages:
            async for page in pages:
                return page if page.items else None
        return None

    def _loaded(self, checkpoint: Checkpoint, page: Page) -> bool:
        """Whether what is left of the latest versions is told in all versions, too.

        While a source is being written to, a load that leaves young changes alone would not come to an end.
        """
        noted_at = checkpoint.versions.known if checkpoint.versions and checkpoint.loading else math.inf
        return made_at(page.items[0]) > noted_at + BEHIND_SECONDS  # clocks are not that far apart

    def _old(self, page: Page) -> int:
        """How many of the first changes of a page are old enough."""
        horizon = self._now() - self._behind
        for number, item in enumerate(page.items):
            if made_at(item) > horizon:
                return number
        return len(page.items)
