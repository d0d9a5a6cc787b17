"""Obtaining the present states of items from their source."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from projections.entries import State
from projections.identity import Identity, Place
from projections.store import Container, Store
from projections.version import Order, Version

CATCH_UP_SECONDS: Final = (0.05, 0.2, 0.5)
"""How long a lagging replica is waited for before what it does not have counts as gone."""


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


async def present(store: Store, source: Container, notices: Sequence[State]) -> list[State]:
    """The present states of items of which notices tell, in order.

    A replica may lag behind the feed: an item that is missing or older than its notice is read again before that is
    believed, and so is one that is still there although its notice says it is gone. An item that is gone keeps the
    notice's version, as what was last known of it.
    """
    states = await fresh(store, source, [notice.identity for notice in notices])
    for seconds in CATCH_UP_SECONDS:
        behind = [n for n, state in enumerate(states) if _behind(state, notices[n])]
        if not behind:
            break
        await asyncio.sleep(seconds)
        again = await fresh(store, source, [notices[n].identity for n in behind])
        for n, state in zip(behind, again, strict=True):
            states[n] = state
    return [
        replace(state, version=notice.version.gone()) if state.gone else state
        for state, notice in zip(states, notices, strict=True)
    ]


def _behind(state: State, notice: State) -> bool:
    order = state.version.against(notice.version)
    if notice.version.deleted:
        return not state.gone and order is not Order.NEWER  # it may have been created anew
    return state.gone or order is Order.OLDER
