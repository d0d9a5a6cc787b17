"""What calls cost: request units and calls, counted for whoever wants to know."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass
class Cost:
    """A running count of store calls and their request units."""

    calls: int = 0
    request_units: float = 0.0

    def __sub__(self, earlier: Cost) -> Cost:
        return Cost(self.calls - earlier.calls, self.request_units - earlier.request_units)


_open: ContextVar[tuple[Cost, ...]] = ContextVar("open", default=())


@contextmanager
def measured() -> Iterator[Cost]:
    """Count what the calls made inside cost, those of tasks started inside included. Nests."""
    cost = Cost()
    token = _open.set((*_open.get(), cost))
    try:
        yield cost
    finally:
        _open.reset(token)


def charge(request_units: float, calls: int = 1) -> None:
    """Count a call. Only stores say this."""
    for cost in _open.get():
        cost.calls += calls
        cost.request_units += request_units
