"""Throttling: what a physical partition may spend in a second, and the 429 when it has. Off unless asked for.

Each physical partition of a container has an equal share of its throughput, or of the database's where that is shared.
It may spend as long as it owes nothing: what a request costs is known only when it is done, so that a dear one is paid
off by those that come after it. Nothing is saved up for longer than a second.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from projections.emulator.catalog import Catalog, Container
from projections.emulator.errors import ServiceError
from projections.emulator.exchange import Reply, Request
from projections.emulator.offers import maximum
from projections.emulator.scopes import scope_of

SATURATED = 3200  # the sub-status of a 429 for request rate


class Throttle:
    """The budgets of one account. `clock` gives seconds."""

    def __init__(self, catalog: Catalog, *, on: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self.on = on
        self._catalog = catalog
        self._clock = clock
        self._budgets: dict[tuple[str, str], _Budget] = {}

    def admit(self, container: Container, request: Request) -> None:
        """Refuse a request to a range that has spent what it may: 429, and when to come again."""
        if not self.on:
            return
        waits = [self._budget(container, one).wait(self._clock()) for one in scope_of(container, request).range_ids]
        wait = max(waits, default=0.0)
        if wait > 0:
            raise ServiceError(
                429, "Request rate is large. More Request Units may be needed, so no changes were made.", SATURATED,
                {"x-ms-retry-after-ms": str(max(1, round(wait * 1000)))}, charge=0.0,
            )  # fmt: skip

    def spend(self, reply: Reply) -> Reply:
        """Count what a request has cost, in equal parts where it went to several ranges."""
        if self.on and reply.container is not None and reply.range_ids:
            for one in reply.range_ids:
                self._budget(reply.container, one).spend(reply.charge / len(reply.range_ids), self._clock())
        return reply

    def _budget(self, container: Container, range_id: str) -> _Budget:
        throughput = self._throughput(container)
        budget = self._budgets.setdefault((container.rid, range_id), _Budget(self._clock()))
        budget.per_second = throughput / max(1, len(container.partitions.live))
        return budget

    def _throughput(self, container: Container) -> int:
        owners: Sequence[str] = (container.rid, container.database.rid)
        offers: list[Mapping[str, Any]] = [offer for rid in owners if (offer := self._catalog.offer_of(rid))]
        return maximum(offers[0]["content"]) if offers else 0


class _Budget:
    """A balance in request units that grows by so many a second, up to those of one second."""

    def __init__(self, now: float) -> None:
        self.per_second = 0.0
        self._spent = 0.0  # of what has not grown back yet
        self._at = now

    def wait(self, now: float) -> float:
        """Seconds until it may spend; 0: now. Without a throughput there is no limit."""
        self._grow(now)
        owed = self._spent - self.per_second
        return owed / self.per_second if self.per_second and owed > 0 else 0.0

    def spend(self, charge: float, now: float) -> None:
        self._grow(now)
        self._spent += charge

    def _grow(self, now: float) -> None:
        self._spent = max(0.0, self._spent - (now - self._at) * self.per_second)
        self._at = now
