"""When a version of a projection was last verified in full, and with which result: what promote asks for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from projections.declare import Projection
from projections.provision import Layout
from projections.store import Store


@dataclass(frozen=True)
class Verification:
    """A comparison of all of a source with all of a target."""

    at: float  # epoch seconds: when it began
    differences: int  # that it found and that were left


LastVerified: TypeAlias = Callable[[Store, Layout, Projection], Awaitable[Verification | None]]
"""Says how a projection was last verified in full; None: it never was."""


async def last_verified(store: Store, layout: Layout, projection: Projection) -> Verification | None:
    """As `projections verify` has stored it."""
    return None
