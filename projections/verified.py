"""When a version of a projection was last verified in full, and with which result: what promote asks for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from projections.declare import Projection
from projections.identity import Place
from projections.keys import Key
from projections.provision import Layout
from projections.store import Store

RECORD: Final = "verified"
"""The id of what `projections verify` leaves beside a projection's checkpoints."""
WHOLE: Final = "all"
"""Its scope where both sides were looked at as a whole."""


@dataclass(frozen=True)
class Verification:
    """A comparison of all of a source with all of a target."""

    at: float  # epoch seconds: when it ended
    differences: int  # that are left


LastVerified: TypeAlias = Callable[[Store, Layout, Projection], Awaitable[Verification | None]]
"""Says how a projection was last verified in full; None: it was not, or not the last time."""


async def last_verified(store: Store, layout: Layout, projection: Projection) -> Verification | None:
    """As `projections verify` has stored it."""
    place = Place(RECORD, Key.of(projection.full_name))
    found = (await store.read(layout.state, [place])).get(place)
    if found is None or found["scope"] != WHOLE or not found["complete"]:
        return None
    return Verification(found["at"], _left(found))


def _left(found: Mapping[str, Any]) -> int:
    """Differences that nothing was done about."""
    counts: Mapping[str, int] = found["differences"] if found["repaired"] is None else found["left"]
    return sum(counts.values())
