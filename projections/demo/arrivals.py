"""Changes made in the source while the worker runs, and how long each takes until every entry says so."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Final

from projections.demo.rebuild import entries_of
from projections.entries import Rules
from projections.example.data import STATUSES
from projections.identity import Place
from projections.keys import Key
from projections.provision import Layout
from projections.store import Container, Document, Store, Upsert

PAUSE: Final = 0.01
"""Seconds between two changes."""
TICK: Final = 0.05
"""Seconds between two looks at the targets."""
PATIENCE: Final = 30.0
"""Seconds until a change that has not arrived counts as lost."""


@dataclass
class Change:
    """An item before and after, and when it had arrived in every projection."""

    kind: str
    before: Document
    after: Document
    expected: dict[tuple[Container, Place], str | None] = field(default_factory=dict)  # hash; None: no entry
    made: float | None = None  # monotonic seconds
    seconds: float | None = None  # until it had arrived


def changes(items: Sequence[Document], each: int, seed: int = 7) -> tuple[list[Change], list[Change]]:
    """Updates, moves and soft deletes of different items; and the return of those deleted, to be made afterwards."""
    chance = random.Random(seed)
    chosen = chance.sample(items, 3 * each)
    updated, moved, deleted = chosen[:each], chosen[each : 2 * each], chosen[2 * each :]
    first = [Change("update", item, {**item, "total": item["total"] + 1}) for item in updated]
    first += [Change("move", item, {**item, "status": _next(item["status"])}) for item in moved]
    first += [Change("delete", item, {**item, "deleted": True}) for item in deleted]
    chance.shuffle(first)
    back = [Change("return", {**item, "deleted": True}, {**item, "deleted": False}) for item in deleted]
    return first, back


def _next(status: str) -> str:
    return STATUSES[(STATUSES.index(status) + 1) % len(STATUSES)]


class Watch:
    """Makes changes and watches the targets of all projections of one source for them."""

    def __init__(self, store: Store, layout: Layout) -> None:
        self._store = store
        self._layout = layout
        self._source = layout.source(layout.catalog.projections[0])

    async def follow(self, made: Sequence[Change]) -> None:
        """Make the changes one after another and wait until each has arrived, or is given up."""
        for change in made:
            change.expected = self._expected(change)
        writing = asyncio.create_task(self._make(made))
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            await asyncio.sleep(TICK)
            await self._look([change for change in made if change.made is not None and change.seconds is None])
            if writing.done() and all(change.seconds is not None for change in made):
                break
        await writing

    def _expected(self, change: Change) -> dict[tuple[Container, Place], str | None]:
        expected: dict[tuple[Container, Place], str | None] = {}
        now = time.time()
        for projection in self._layout.catalog:
            rules = Rules(projection, self._layout.catalog.reserved)
            target = self._layout.target(projection)
            expected |= {(target, place): None for place in entries_of(rules, change.before, now)}
            expected |= {(target, place): hash_ for place, hash_ in entries_of(rules, change.after, now).items()}
        return expected

    async def _make(self, made: Sequence[Change]) -> None:
        for change in made:
            started = time.monotonic()
            await self._store.write(self._source, Key.of(change.after["customerId"]), [Upsert(change.after)])
            change.made = started
            await asyncio.sleep(PAUSE)

    async def _look(self, pending: Sequence[Change]) -> None:
        """Which of the changes have arrived by now."""
        found: dict[tuple[Container, Place], str | None] = {}
        for target in {target for change in pending for target, _ in change.expected}:
            places = [place for change in pending for t, place in change.expected if t == target]
            stored = await self._store.read(target, places)
            found |= {(target, place): entry[self._layout.catalog.reserved]["hash"] for place, entry in stored.items()}
        now = time.monotonic()
        for change in pending:
            if change.made is not None and all(found.get(at) == hash_ for at, hash_ in change.expected.items()):
                change.seconds = now - change.made


def summary(made: Iterable[Change]) -> list[dict[str, Any]]:
    """For each kind of change how many were made and arrived, the median and the slowest, in seconds."""
    kinds: dict[str, list[float | None]] = {}
    for change in made:
        kinds.setdefault(change.kind, []).append(change.seconds)
    return [_summary(kind, seconds) for kind, seconds in kinds.items()]


def _summary(kind: str, seconds: Sequence[float | None]) -> dict[str, Any]:
    arrived = [s for s in seconds if s is not None]
    return {
        "change": kind,
        "made": len(seconds),
        "arrived": len(arrived),
        "median": round(median(arrived), 2) if arrived else None,
        "slowest": round(max(arrived), 2) if arrived else None,
    }
