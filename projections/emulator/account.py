"""What one emulator holds: storage, catalog, kept query answers, and the counters that tests read."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from projections.emulator.catalog import Catalog
from projections.emulator.pages import QueryOptions
from projections.emulator.storage import Storage
from projections.emulator.throttle import Throttle


class Statistics:
    """Requests and charge by operation since the start (or since :meth:`clear`)."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self.statuses: Counter[tuple[str, int]] = Counter()
        self.charges: dict[str, float] = {}

    def note(self, operation: str, status: int, charge: float) -> None:
        """Counts one response."""
        self.requests[operation] += 1
        self.statuses[operation, status] += 1
        self.charges[operation] = self.charges.get(operation, 0.0) + charge

    @property
    def total_requests(self) -> int:
        """All requests."""
        return sum(self.requests.values())

    @property
    def total_charge(self) -> float:
        """All RU."""
        return sum(self.charges.values())

    def clear(self) -> None:
        """Starts again from nothing."""
        self.requests.clear()
        self.statuses.clear()
        self.charges.clear()


class Account:
    """The whole state of one emulator."""

    def __init__(self, path: Path | None, merge_by_client: bool = False, throttle: bool = False) -> None:
        self.storage = Storage(path)
        self.catalog = Catalog(self.storage)
        self.queries = QueryOptions(merge_by_client)
        self.statistics = Statistics()
        self.throttle = Throttle(self.catalog, on=throttle)

    def close(self) -> None:
        """Closes the storage."""
        self.storage.close()
