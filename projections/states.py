"""Obtaining the present states of items from their source."""

from __future__ import annotations

from collections.abc import Sequence

from projections.entries import State
from projections.identity import Identity, Place
from projections.store import Container, Store
from projections.version import Version


async def fresh(store: Store, source: Container, identities: Sequence[Identity]) -> list[State]:
    """The items as the source has them now, in order; one that is not there is gone."""
    places = [Place(identity.id, identity.key) for identity in identities]
    found = await store.read(source, places)
    return [
        State(identity, Version.of(item, from_feed=False), item)
        if (item := found.get(place)) is not None
        else State(identity, Version(deleted=True), None)
        for identity, place in zip(identities, places, strict=True)
    ]
