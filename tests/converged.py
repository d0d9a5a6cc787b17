"""R1 and R2 of the field cases, as one check: every target equals a fresh rebuild, and every item is accounted for."""

from __future__ import annotations

from typing import Any

from projections.deadletters import DeadLetters
from projections.declare import Projection
from projections.entries import Rules, State, wanted
from projections.errors import ItemError
from projections.identity import Identity, Place
from projections.keys import Key, at, parse_path
from projections.provision import Layout
from projections.store import Container, Document, Store
from projections.version import Version


async def documents(store: Store, container: Container) -> list[Document]:
    """Everything in a container, by listing it."""
    return [document async for page in store.query(container, "SELECT * FROM c", {}) for document in page]


async def assert_converged(store: Store, layout: Layout) -> None:
    """Each target equals a fresh rebuild; every item is reflected, left out by a rule, or parked; records agree."""
    for projection in layout.catalog:
        expected, bad = await assert_entries(store, layout, projection)
        letters = {
            letter.identity async for letter in DeadLetters(store, layout.deadletters, projection.full_name).all()
        }
        assert letters == bad, f"{len(letters - bad)} dead letters too many, {len(bad - letters)} too few"
        if projection.placement == "tracked":
            listed = await _listed(store, layout, projection)
            assert listed == set(expected), (
                f"the records do not list what there is: {sorted(map(str, listed ^ set(expected)))[:3]}"
            )


async def assert_entries(
    store: Store, layout: Layout, projection: Projection
) -> tuple[dict[Place, str], set[Identity]]:
    """The target equals a fresh rebuild; what that is, and which items it parks."""
    items = await documents(store, layout.source(projection))
    expected, bad = rebuild(layout, projection, items)
    found = _stored(projection, layout.catalog.reserved, await documents(store, layout.target(projection)))
    assert found == expected, f"{projection.name}: {_difference(found, expected)}"
    return expected, bad


def rebuild(layout: Layout, projection: Projection, items: list[Document]) -> tuple[dict[Place, str], set[Identity]]:
    """What a fresh rebuild would store (place -> content hash), and which items it would park."""
    rules = Rules(projection, layout.catalog.reserved, -1)
    expected: dict[Place, str] = {}
    bad: set[Identity] = set()
    for item in items:
        identity = Identity.of(item, projection.source.key)
        try:
            entries = wanted(rules, State(identity, Version.of(item, from_feed=False), item), item["_ts"]).entries
        except ItemError:
            bad.add(identity)
            continue
        expected |= {entry.place: entry.hash for entry in entries}
    return expected, bad


def _stored(projection: Projection, reserved: str, entries: list[Document]) -> dict[Place, str]:
    paths = [parse_path(path) for path in projection.key.paths]
    return {Place(d["id"], Key.of(*(at(d, path) for path in paths))): d[reserved]["hash"] for d in entries}


async def _listed(store: Store, layout: Layout, projection: Projection) -> set[Place]:
    prefix = f"{projection.full_name}|"
    records = [d for d in await documents(store, layout.state) if d["pk"].startswith(prefix)]
    return {Place.from_stored(entry) for record in records for entry in record["entries"]}


def _difference(found: dict[Place, Any], expected: dict[Place, Any]) -> str:
    missing = [place for place in expected if place not in found]
    extra = [place for place in found if place not in expected]
    other = [place for place in found if place in expected and found[place] != expected[place]]
    return f"{len(missing)} missing {missing[:3]}, {len(extra)} extra {extra[:3]}, {len(other)} other {other[:3]}"
