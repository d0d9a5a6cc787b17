"""What a target would hold if it were built anew from the source, and whether it holds that."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from projections.declare import Projection
from projections.entries import Rules, State, wanted
from projections.errors import ItemError
from projections.identity import Identity, Place
from projections.keys import Key, at, parse_path
from projections.provision import Layout
from projections.store import Container, Store
from projections.version import Version


@dataclass(frozen=True)
class Comparison:
    """A target beside a rebuild of it. Each entry that differs is in one of the three."""

    entries: int  # of the rebuild
    missing: frozenset[Place]
    different: frozenset[Place]
    orphaned: frozenset[Place]  # in the target alone

    @property
    def equal(self) -> bool:
        """Whether nothing differs."""
        return not (self.missing or self.different or self.orphaned)


def entries_of(rules: Rules, item: Mapping[str, Any], now: float) -> dict[Place, str]:
    """The places of the entries that an item should own, and the hashes of their content."""
    state = State(Identity.of(item, rules.projection.source.key), Version(), item)
    try:
        return {entry.place: entry.hash for entry in wanted(rules, state, now).entries}
    except ItemError:
        return {}  # a dead letter


async def compare(store: Store, layout: Layout, projection: Projection) -> Comparison:
    """Build the entries of every item in the source, and look for each in the target and the other way round.

    For sources at rest: what is on its way counts as a difference.
    """
    source = await store.describe(layout.source(projection))
    rules = Rules(projection, layout.catalog.reserved, source.default_ttl if source else None)
    expected: dict[Place, str] = {}
    async for page in store.query(layout.source(projection), "SELECT * FROM c", {}):
        for item in page:
            expected |= entries_of(rules, item, time.time())
    stored = await _stored(store, layout.target(projection), projection, layout.catalog.reserved)
    return Comparison(
        entries=len(expected),
        missing=frozenset(expected.keys() - stored.keys()),
        different=frozenset(p for p in expected.keys() & stored.keys() if expected[p] != stored[p]),
        orphaned=frozenset(stored.keys() - expected.keys()),
    )


async def _stored(store: Store, target: Container, projection: Projection, reserved: str) -> dict[Place, str]:
    paths = [parse_path(path) for path in projection.key.paths]
    return {
        Place(entry["id"], Key.of(*(at(entry, path) for path in paths))): entry[reserved]["hash"]
        async for page in store.query(target, "SELECT * FROM c", {})
        for entry in page
    }
