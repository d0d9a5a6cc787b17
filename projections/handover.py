"""Reading a feed range from its checkpoint on; and how a source comes to be read in all versions."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Final

from projections.errors import LostPositionError
from projections.feed import Checkpoint, Checkpoints, Span, Versions
from projections.store import VERSIONS, Container, Page, Store

log = logging.getLogger("projections")

KEEP_SECONDS: Final = 600
"""Between two times that the position of an idle range is stored, so that it stays within the retention."""


class Reading:
    """One feed range, read from its checkpoint on.

    The feed of all versions has no beginning, and forgets (facts.md 15). So a source in that mode is read by a planned
    hand-over: first a position of that feed is stored, then the latest versions are read from the checkpoint to their
    end, then all versions from the position that was stored. What is told twice is applied twice, which does no harm.
    The same again where the position has been forgotten; then deletes may have been missed, and it is said when.
    """

    def __init__(
        self, store: Store, source: Container, checkpoints: Checkpoints, checkpoint: Checkpoint, *,
        all_versions: bool = False, now: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        self._store = store
        self._source = source
        self._checkpoints = checkpoints
        self._all_versions = all_versions
        self._now = now
        self._noted: Versions | None = None
        self.checkpoint = checkpoint

    async def pages(self, size: int) -> AsyncGenerator[Page, None]:
        """What comes after the checkpoint, until there is nothing more; the last page may be empty.

        Whoever reads stores the position of each page when it is done.

        Raises:
            NoVersionsError: the source keeps no versions.
            LostRangeError: another worker has moved this range's position.
        """
        await self.begin()
        while True:
            asked = int(self._now())
            try:
                since, feed_range = self.checkpoint.since(), self.checkpoint.feed_range
                async with aclosing(self._store.changes(self._source, feed_range, since, size)) as pages:  # type: ignore[type-var]
                    async for page in pages:
                        if page.items or not self.checkpoint.loading:
                            yield page
                        if not page.items:
                            await self._keep(page.position, asked)
            except LostPositionError as error:
                await self._start_over(error)
                continue
            if not self.checkpoint.loading:
                return
            await self.hand_over()

    async def begin(self) -> None:
        """The first step of the hand-over, where it has not been taken: before anything is read."""
        versions = self.checkpoint.versions
        if self._all_versions and versions is None:
            await self._note(self.checkpoint.position, ())
        elif versions is not None and not self._all_versions:
            if not self.checkpoint.loading:  # a position in one feed means nothing in the other
                self.checkpoint.position = None
                log.warning("the source is declared in its latest-version mode now, and read from the beginning",
                            extra=self._context())  # fmt: skip
            self.checkpoint.versions = None

    async def _note(self, position: str | None, missed: tuple[Span, ...]) -> None:
        """Store where all versions go on, and that the latest ones are read from a position of theirs until then."""
        if self._noted is None:  # else storing it has failed before, and its answer may only have been lost
            noted_at, then = int(self._now()), ""
            async for page in self._store.changes(self._source, self.checkpoint.feed_range, VERSIONS, 1):
                then = page.position
            self._noted = Versions(then, noted_at, missed)
        await self._put_on_record(position, self._noted)
        self._noted = None
        log.info("hand-over: a position is noted, the latest versions come first", extra=self._context())

    async def hand_over(self) -> None:
        """The last step: from now on all versions are read."""
        assert self.checkpoint.versions
        await self._put_on_record(self.checkpoint.versions.then, replace(self.checkpoint.versions, then=None))
        log.info("hand-over: all versions from here on", extra=self._context())

    async def _start_over(self, error: LostPositionError) -> None:
        versions = self.checkpoint.versions
        if versions is None or self.checkpoint.loading:
            raise error
        await self._note(None, (*versions.missed, Span(versions.known, int(self._now()))))
        assert self.checkpoint.versions
        log.warning(
            "the position is older than what the source keeps: deletes may have been missed, and the span is on record",
            extra={**self._context(), "span": str(self.checkpoint.versions.missed[-1]), "reason": error.message},
        )

    async def _keep(self, position: str, asked: int) -> None:
        """Store the position of an idle range now and then, with the time up to which nothing was missed."""
        versions = self.checkpoint.versions
        if versions is not None and not self.checkpoint.loading and asked - versions.known >= KEEP_SECONDS:
            await self._put_on_record(position, replace(versions, known=asked))

    async def _put_on_record(self, position: str | None, versions: Versions) -> None:
        """Nothing is read from a position that is not stored."""
        changed = replace(self.checkpoint, position=position, versions=versions)
        await self._checkpoints.save(changed)
        self.checkpoint.position, self.checkpoint.versions = position, versions
        self.checkpoint.etag = changed.etag

    def _context(self) -> dict[str, str]:
        return {"projection": self._checkpoints.projection, "range": str(self.checkpoint.feed_range)}
